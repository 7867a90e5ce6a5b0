#include "server/serve.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
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
#include "server/connection_book.h"
#include "server/decode_service.h"
#include "server/draft.h"
#include "server/free_memory.h"
#include "server/front_door.h"
#include "server/listener.h"
#include "server/operations/admin_port.h"
#include "server/operations/operations.h"
#include "server/security/gatekeeper.h"
#include "server/security/served_certificates.h"

namespace outrider {
namespace {

// What those who are told to leave may take to hear so.
constexpr std::chrono::seconds kFarewellMax(2);

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

// `config` is that of a target.
void PutIn(const VerifierConfig& limits, VerifierConfig& config) {
  config.session_count_max = limits.session_count_max;
  config.session_count_of_key_max = limits.session_count_of_key_max;
  config.opens_per_minute = limits.opens_per_minute;
  config.stream_count_max = limits.stream_count_max;
  config.stream_count_of_key_max = limits.stream_count_of_key_max;
  config.stream_count_of_origin_max = limits.stream_count_of_origin_max;
  config.sketch_nodes_max = limits.sketch_nodes_max;
  config.messages_per_second = limits.messages_per_second;
  config.unread_verdicts_max = limits.unread_verdicts_max;
  config.unseen_verdicts_max = limits.unseen_verdicts_max;
  config.unseen_verdicts_first = std::min(config.unseen_verdicts_first, limits.unseen_verdicts_max);
  config.time_to_live = limits.time_to_live;
  config.first_message_max = limits.first_message_max;
  config.silence_max = limits.silence_max;
  config.idle_max = limits.idle_max;
  config.prefix_max = limits.prefix_max;
  config.write_max = limits.write_max;
  config.retry_after = limits.retry_after;
}

// Whoever has lost his key is thrown out; a file that is no good changes nothing.
void ReadKeysAgain(Gatekeeper& gate, VerifierDriver& driver, EventLog& log) {
  const auto revoked = gate.Reload();
  if (!revoked.ok()) {
    const std::string why(Message(revoked.status()));
    return log.Say("keys_unchanged", {{"why", why}}, Concat("keys stay as they are: ", why));
  }
  for (const Keys::Key& key : *revoked) {
    log.Say("key_revoked", {{"key", key.name}},
            Concat("a key of ", key.name, " is not valid any more"));
    driver.Revoke(key.identity());
  }
}

void AwaitEnd(Gatekeeper& gate, ServedCertificates& certificates, VerifierDriver& driver,
              EventLog& log) {
  const sigset_t signals = AllSignals();
  constexpr timespec kTick = {.tv_sec = 1, .tv_nsec = 0};
  FreeMemory free_memory;
  for (;;) {
    const int signal = sigtimedwait(&signals, nullptr, &kTick);
    if (signal == SIGHUP) {
      ReadKeysAgain(gate, driver, log);
      certificates.LookNow();
    } else if (signal > 0) {
      return;
    }
    free_memory.LookNow();
  }
}

// While one is there, a signal ends the process at once.
class EndsAtOnce {
 public:
  explicit EndsAtOnce(EventLog& log) : log_(log), thread_([this] { Run(); }) {}
  ~EndsAtOnce() {
    is_over_ = true;
    thread_.join();
  }
  EndsAtOnce(const EndsAtOnce&) = delete;
  EndsAtOnce& operator=(const EndsAtOnce&) = delete;

 private:
  void Run() {
    const sigset_t signals = EndingSignals();
    constexpr timespec kTick = {.tv_sec = 0, .tv_nsec = 20'000'000};
    do {  // once at the least: what was asked before all this counts too
      if (sigtimedwait(&signals, nullptr, &kTick) <= 0) continue;
      log_.Say("ended", {}, "ended before the model was loaded");
      log_.Flush();
      std::_Exit(0);
    } while (!is_over_);
  }

  EventLog& log_;
  std::atomic<bool> is_over_ = false;
  std::thread thread_;  // last: starts when all above exists
};

// Null: none was asked for.
absl::StatusOr<std::unique_ptr<ServerDraft>> LoadDraft(const ServerFlags& flags,
                                                       const Tokenizer& tokenizer, ThreadPool& pool,
                                                       EventLog& log) {
  if (flags.draft.empty()) return nullptr;
  const EndsAtOnce watch(log);
  OUTRIDER_ASSIGN_OR_RETURN(
      const Isa isa,
      SelectIsa(flags.isa ? std::optional<std::string_view>(*flags.isa) : std::nullopt));
  return ServerDraft::Load(flags.draft, tokenizer, flags.sessions, KernelsFor(isa), pool, log);
}

[[noreturn]] void EndNow(EventLog& log) {
  log.Say("ended", {}, "ended before all sessions had");
  log.Flush();
  std::_Exit(kExitFailure);
}

// Until all sessions have ended; a second signal says not to wait for them. When their time is over
// they are told so and hung up on; should one of them, or a run of the target that takes for ever,
// keep the server even then, it ends all the same.
void Drain(VerifierDriver& driver, const sigset_t& signals, uint32_t seconds, EventLog& log) {
  log.Say("draining", {{"seconds", uint64_t{seconds}}},
          Concat("draining: sessions have ", seconds, " s left; once more ends at once"));
  driver.Drain(std::chrono::seconds(seconds));
  const MonotonicTime end = RealClock().Now() + std::chrono::seconds(seconds) + kFarewellMax;
  constexpr timespec kNow = {0, 0};
  while (!driver.WaitUntilDrained(RealClock().Now() + std::chrono::milliseconds(100))) {
    if (sigtimedwait(&signals, nullptr, &kNow) > 0 || RealClock().Now() >= end) EndNow(log);
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

FrontDoor::Limits ConnectionLimits(const LimitFlags& limits, EventLog& log) {
  const uint32_t count = ConnectionsThatFit(limits.connection_count_max);
  if (count < limits.connection_count_max) {
    log.Say(
        "connections", {{"connections", uint64_t{count}}},
        Concat("note: there is room for ", count, " connections, not ", limits.connection_count_max,
               ": this process may have no more file descriptors (ulimit -n)"));
  }
  return {.connection_count_max = count,
          .connection_count_of_origin_max = limits.connection_count_of_origin_max,
          .connects_per_second = limits.connects_per_second,
          .overhead_bytes_per_second = limits.overhead_bytes_per_second,
          .shut_out = limits.shut_out};
}

}  // namespace

void BlockSignals() {
  const sigset_t signals = AllSignals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

absl::StatusOr<LoadedTarget> LoadTarget(const ServerFlags& flags, EventLog& log) {
  const EndsAtOnce watch(log);
  return LoadedTarget::Load(flags, log);
}

absl::Status Serve(const ServerFlags& flags, const Tokenizer& tokenizer, Target& target,
                   ThreadPool& pool, Operations& operations) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<Gatekeeper> gate,
                            Gatekeeper::Open(flags.security.keys));
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<ServerDraft> draft,
                            LoadDraft(flags, tokenizer, pool, operations.log()));
  VerifierConfig config = ConfigFor(target.info(), tokenizer);
  PutIn(flags.limits.machine, config);
  config.drafts = draft != nullptr;
  config.draft_shares_cores = target.info().on_host_processor;
  config.hint_order = flags.exits.order;
  VerifierMachine machine(std::move(config), {tokenizer, RandomBits});
  v1::DescribeResponse description;
  machine.Describe(description);

  EventLog& log = operations.log();
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<ServedCertificates> certificates,
                            ServedCertificates::Open(flags.security.transport, log));
  VerifierDriver driver(machine, target, draft ? draft->NewDrafter() : nullptr,
                        operations.SessionLog());
  ConnectionBook book;
  DecodeService service(driver, description, *gate, book, operations.entrance());
  OUTRIDER_ASSIGN_OR_RETURN(
      const std::unique_ptr<Listener> listener,
      Listener::Listen(flags.listen,
                       {.context_length = description.context_length(),
                        .streams_per_connection_max = flags.limits.streams_per_connection_max,
                        .handshake_max = flags.limits.handshake_max,
                        .connection_idle_max = flags.limits.connection_idle_max,
                        .first_message_max = flags.limits.machine.first_message_max,
                        .keepalive = flags.limits.keepalive,
                        .connections = ConnectionLimits(flags.limits, log),
                        .header_bytes = flags.limits.header_bytes,
                        .message_bytes = flags.limits.message_bytes,
                        .transport_bytes = flags.limits.transport_bytes},
                       certificates->flags(), service, book, operations.entrance()));
  const ReadyState ready(*listener, operations.admin(),
                         {description.model_name(), description.numerics_id()}, driver);
  SayServing(flags, target.info(), description, listener->address(), log);
  if (!target.info().batch_invariant) {
    log.Say("batches_differ", {},
            "note: on this device a pass rounds differently beside others and with other "
            "--threads, so a session's tokens may differ where two are all but equally likely");
  }
  AwaitEnd(*gate, *certificates, driver, log);
  ready.Set(false);
  Drain(driver, EndingSignals(), flags.drain_seconds, log);
  return absl::OkStatus();
}

}  // namespace outrider
