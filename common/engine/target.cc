#include "common/engine/target.h"

#include <algorithm>

#include "common/base/status.h"
#include "common/engine/target_rules.h"

namespace outrider {

absl::Status Target::Prefill(SequenceId sequence, std::span<const TokenId> tokens,
                             const PromptProgress& progress) {
  OUTRIDER_ASSIGN_OR_RETURN(const uint32_t before, Length(sequence));
  OUTRIDER_RETURN_IF_ERROR(TargetRules::CheckPrompt(info(), before, tokens));
  if (tokens.empty()) return absl::OkStatus();
  // The first token of all is read without computing anything: it is the root until another comes.
  const size_t rootless = before == 0 ? 1 : 0;
  const auto total = static_cast<uint32_t>(tokens.size() - rootless);
  size_t done = 0;
  do {
    const size_t count =
        std::min<size_t>(tokens.size() - done, info().row_count_max + (done == 0 ? rootless : 0));
    Reading reading = {sequence, tokens.subspan(done, count)};
    Run({&reading, 1}, {}, {});
    if (!reading.status.ok()) {
      if (done > 0) OUTRIDER_RETURN_IF_ERROR(Truncate(sequence, before).status());
      return reading.status;
    }
    done += count;
    if (!progress || total == 0) continue;
    if (!progress(static_cast<uint32_t>(done - rootless), total) && done < tokens.size()) {
      return absl::CancelledError("the prompt was not read to its end");
    }
  } while (done < tokens.size());
  return absl::OkStatus();
}

}  // namespace outrider
