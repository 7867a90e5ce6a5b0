#include "server/operations/operations.h"

#include <chrono>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "server/security/keys.h"

namespace outrider {
namespace {

const char* NameOf(VerifierMachine::SessionEnd end) {
  using End = VerifierMachine::SessionEnd;
  switch (end) {
    case End::kClosed:
      return "closed";
    case End::kFault:
      return "fault";
    case End::kExpired:
      return "expired";
    case End::kRevoked:
      return "key revoked";
    case End::kDrained:
      return "drained";
  }
  return "";
}

Refusal RefusalOf(VerifierMachine::StreamLimit limit) {
  switch (limit) {
    case VerifierMachine::StreamLimit::kAll:
      return Refusal::kStreams;
    case VerifierMachine::StreamLimit::kOfKey:
      return Refusal::kStreamsOfKey;
    case VerifierMachine::StreamLimit::kOfOrigin:
      return Refusal::kStreamsOfAddress;
  }
  return Refusal::kStreams;
}

double RoundedSeconds(Duration duration) {
  using Milliseconds = std::chrono::milliseconds;
  return std::chrono::duration<double>(std::chrono::round<Milliseconds>(duration)).count();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Operations>> Operations::Open(const OperationFlags& flags) {
  std::unique_ptr<Operations> operations(new Operations(flags));
  if (flags.admin.empty()) return operations;
  OUTRIDER_ASSIGN_OR_RETURN(operations->admin_,
                            AdminPort::Open(flags.admin, operations->entrance_));
  const std::string& address = operations->admin_->address();
  operations->log_.Say("admin", {{"address", address}},
                       Concat("probes and metrics on http://", address));
  return operations;
}

VerifierDriver::Log Operations::SessionLog() {
  return {.refused =
              [this](const VerifierMachine::StreamRefused& refused) {
                entrance_.Refused(RefusalOf(refused.limit), NameIn(refused.key), refused.origin);
              },
          .fault =
              [this](const VerifierMachine::FaultFound& fault) {
                if (fault.session == 0) {
                  return entrance_.Refused(Refusal::kOpen, NameIn(fault.key), "", fault.why);
                }
                log_.Write("fault", {{"session", fault.session},
                                     {"stream", fault.stream},
                                     {"key", NameIn(fault.key)},
                                     {"kind", v1::Fault::Kind_Name(fault.kind)},
                                     {"why", fault.why}});
              },
          .session =
              [this](const VerifierMachine::SessionOver& over) {
                const SessionTally& tally = over.tally;
                const Duration first = tally.first_token_time().value_or(Duration::zero());
                log_.Write("session",
                           {{"session", over.session},
                            {"key", NameIn(over.key)},
                            {"end", NameOf(over.why)},
                            {"seconds", RoundedSeconds(RealClock().Now() - tally.opened_at())},
                            {"first_token_seconds", RoundedSeconds(first)},
                            {"target_seconds", RoundedSeconds(tally.target_time())},
                            {"tokens", tally.tokens()},
                            {"passes", tally.passes()},
                            {"nodes", tally.nodes()},
                            {"accepted", tally.accepted()},
                            {"attachments", uint64_t{tally.attachments()}}});
              }};
}

}  // namespace outrider
