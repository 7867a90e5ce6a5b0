#include "server/exits.h"

#include "common/base/status.h"
#include "common/formats/models/exits_file.h"

namespace outrider {

absl::Status AttachExits(const ExitFlags& flags, const std::string& model, EngineTarget& target) {
  const ExitsChoice choice = ChooseExits(flags.file, model);
  if (choice.path.empty()) return absl::OkStatus();
  OUTRIDER_ASSIGN_OR_RETURN(const TrainedExits exits, ReadExits(choice.path));
  const absl::Status status = target.AttachExits(exits, choice.path, {.scope = flags.scope});
  if (status.ok() || choice.was_asked) return status;
  return InvalidArgument(Message(status), ", or serve without: --exits none");
}

}  // namespace outrider
