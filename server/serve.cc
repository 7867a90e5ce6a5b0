#include "server/serve.h"

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/clock.h"
#include "common/base/program.h"
#include "common/base/random_bits.h"
#include "common/base/status.h"
#include "common/base/thread_pool.h"
#include "common/kernels/isa.h"
#include "common/kernels/kernels.h"
#include "common/verification/machine/verifier_config.h"
#include "common/verification/machine/verifier_machine.h"
#include "common/verification/verifier_driver.h"
#include "server/banner.h"
#include "server/decode_service.h"
#include "server/draft.h"
#include "server/listener.h"
#include "server/operations/admin_port.h"
#include "server/operations/operations.h"
#include "server/security/gatekeeper.h"

namespace outrider {
namespace {

sigset_t EndingSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  return signals;
}

sigset_t AllSignals() {
  sigset_t signals = EndingSignals();
  sigaddset(&signals, SIGHUP);
  return signals;
}

// Whoever has lost his key is thrown out; a file that is no good changes nothing.
void ReadKeysAgain(Gatekeeper& gate, VerifierDriver& driver, EventLog& log) {
  const auto revoked = gate.Reload();
  if (!revoked.ok()) {
    const std::string why(Message(revoked.status()));
    return log.Say("keys_unchanged", {{"why", why}}, Concat("keys stay as they are: ", why));
  }
  for (const std::string& name : *revoked) {
    log.Say("key_revoked", {{"key", name}}, Concat("the key of ", name, " is not valid any more"));
    driver.Revoke(name);
  }
}

void AwaitEnd(Gatekeeper& gate, VerifierDriver& driver, EventLog& log) {
  const sigset_t signals = AllSignals();
  for (int signal = 0;;) {
    sigwait(&signals, &signal);
    if (signal != SIGHUP) return;
    ReadKeysAgain(gate, driver, log);
  }
}

// Null: none was asked for.
absl::StatusOr<std::unique_ptr<ServerDraft>> LoadDraft(const ServerFlags& flags,
                                                       const Tokenizer& tokenizer,
                                                       ThreadPool& pool) {
  if (flags.draft.empty()) return nullptr;
  OUTRIDER_ASSIGN_OR_RETURN(
      const Isa isa,
      SelectIsa(flags.isa ? std::optional<std::string_view>(*flags.isa) : std::nullopt));
  return ServerDraft::Load(flags.draft, tokenizer, flags.sessions, KernelsFor(isa), pool);
}

// Until all sessions have ended, or a second signal says not to wait for them.
void Drain(VerifierDriver& driver, const sigset_t& signals, uint32_t seconds, EventLog& log) {
  log.Say("draining", {{"seconds", uint64_t{seconds}}},
          Concat("draining: sessions have ", seconds, " s left; once more ends at once"));
  driver.Drain(std::chrono::seconds(seconds));
  constexpr timespec kNow = {0, 0};
  while (!driver.WaitUntilDrained(RealClock().Now() + std::chrono::milliseconds(100))) {
    if (sigtimedwait(&signals, nullptr, &kNow) > 0) {
      log.Say("ended", {}, "ended before all sessions had");
      log.Flush();
      std::_Exit(kExitFailure);
    }
  }
}

// What probes are told, from here on until it goes.
class ReadyState {
 public:
  ReadyState(Listener& listener, AdminPort* admin, ServedModel model, VerifierDriver& driver)
      : listener_(listener), admin_(admin) {
    if (admin_ != nullptr) admin_->Begin(std::move(model), driver);
    Set(true);
  }
  ~ReadyState() {
    if (admin_ != nullptr) admin_->End();
  }
  ReadyState(const ReadyState&) = delete;
  ReadyState& operator=(const ReadyState&) = delete;

  void Set(bool ready) const {
    listener_.SetReady(ready);
    if (admin_ != nullptr) admin_->SetReady(ready);
  }

 private:
  Listener& listener_;
  AdminPort* const admin_;  // null: there is none
};

}  // namespace

void BlockSignals() {
  const sigset_t signals = AllSignals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

absl::Status Serve(const ServerFlags& flags, const Tokenizer& tokenizer, Target& target,
                   Operations& operations) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<Gatekeeper> gate,
                            Gatekeeper::Open(flags.security.keys));
  // Draft and target take turns, each with all threads.
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<ThreadPool> draft_pool,
                            ThreadPool::Create(flags.draft.empty() ? 1 : flags.threads));
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<ServerDraft> draft,
                            LoadDraft(flags, tokenizer, *draft_pool));
  VerifierConfig config = ConfigFor(target.info(), tokenizer);
  flags.limits.ApplyTo(config);
  config.drafts = draft != nullptr;
  config.hint_order = flags.exits.order;
  VerifierMachine machine(std::move(config), {tokenizer, RandomBits});
  v1::DescribeResponse description;
  machine.Describe(description);

  EventLog& log = operations.log();
  VerifierDriver driver(machine, target, draft ? draft->NewDrafter() : nullptr,
                        operations.SessionLog());
  DecodeService service(driver, description, *gate);
  OUTRIDER_ASSIGN_OR_RETURN(
      const std::unique_ptr<Listener> listener,
      Listener::Listen(flags.listen,
                       {.context_length = description.context_length(),
                        .stream_count_max = flags.limits.machine.stream_count_max,
                        .message_bytes = flags.limits.message_bytes,
                        .transport_bytes = flags.limits.transport_bytes},
                       flags.security.transport, service));
  const ReadyState ready(*listener, operations.admin(),
                         {description.model_name(), description.numerics_id()}, driver);
  SayServing(flags, target.info(), description, listener->address(), log);
  if (!target.info().batch_invariant) {
    log.Say("batches_differ", {},
            "note: on this device a pass rounds differently beside others and with other "
            "--threads, so a session's tokens may differ where two are all but equally likely");
  }
  AwaitEnd(*gate, driver, log);
  ready.Set(false);
  Drain(driver, EndingSignals(), flags.drain_seconds, log);
  return absl::OkStatus();
}

}  // namespace outrider
