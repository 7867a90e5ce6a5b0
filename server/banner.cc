#include "server/banner.h"

#include <cstdint>

#include "common/base/status.h"
#include "common/base/units.h"

namespace outrider {
namespace {

std::string ExitsOf(const TargetInfo& target) {
  if (target.exit_depths.empty()) return "none";
  std::string text = "behind";
  for (const uint32_t depth : target.exit_depths) text += Concat(" ", Fixed(depth / 10.0, 1), " %");
  return text + " of the layers";
}

std::string TransportOf(const TransportFlags& flags) {
  if (flags.certificate.empty()) return "none";
  return flags.client_ca.empty() ? "TLS" : "TLS, of both sides";
}

}  // namespace

void SayServing(const ServerFlags& flags, const TargetInfo& target,
                const v1::DescribeResponse& description, const std::string& address,
                EventLog& log) {
  const std::string exits = ExitsOf(target);
  const std::string transport = TransportOf(flags.security.transport);
  const std::string& keys = flags.security.keys;
  const std::string serving = Concat("serving ", description.model_name(), " (numerics id ",
                                     description.numerics_id(), ") on ", address);
  const std::string words =
      Concat("outrider-server\n  model       ", flags.model, "\n  computes    ", flags.device,
             ", threads: ", flags.threads, "\n  sessions    ", flags.sessions, " in memory, ",
             flags.limits.machine.session_count_max, " open, of ", description.context_length(),
             " tokens\n  draft       ", flags.draft.empty() ? "none" : flags.draft,
             "\n  exits       ", exits, "\n  encryption  ", transport, "\n  keys        ",
             keys.empty() ? "everybody is let in" : keys, "\n", serving);
  log.Say("serving",
          {{"model", description.model_name()},
           {"file", flags.model},
           {"numerics_id", description.numerics_id()},
           {"address", address},
           {"device", flags.device},
           {"threads", uint64_t{flags.threads}},
           {"sessions", uint64_t{flags.sessions}},
           {"context", uint64_t{description.context_length()}},
           {"draft", flags.draft},
           {"exits", exits},
           {"encryption", transport},
           {"keys", keys}},
          words);
}

}  // namespace outrider
