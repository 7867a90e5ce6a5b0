#include "server/serve.h"

#include <chrono>
#include <csignal>
#include <cstdio>
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
#include "server/decode_service.h"
#include "server/draft.h"
#include "server/listener.h"
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
void ReadKeysAgain(Gatekeeper& gate, VerifierDriver& driver) {
  const auto revoked = gate.Reload();
  if (!revoked.ok()) {
    std::fprintf(stderr, "keys stay as they are: %s\n",
                 std::string(Message(revoked.status())).c_str());
    return;
  }
  for (const std::string& name : *revoked) {
    std::fprintf(stderr, "the key of %s is not valid any more\n", name.c_str());
    driver.Revoke(name);
  }
}

void AwaitEnd(Gatekeeper& gate, VerifierDriver& driver) {
  const sigset_t signals = AllSignals();
  for (int signal = 0;;) {
    sigwait(&signals, &signal);
    if (signal != SIGHUP) return;
    ReadKeysAgain(gate, driver);
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
void Drain(VerifierDriver& driver, const sigset_t& signals, uint32_t seconds) {
  std::fprintf(stderr, "draining: sessions have %u s left; once more ends at once\n", seconds);
  driver.Drain(std::chrono::seconds(seconds));
  constexpr timespec kNow = {0, 0};
  while (!driver.WaitUntilDrained(RealClock().Now() + std::chrono::milliseconds(100))) {
    if (sigtimedwait(&signals, nullptr, &kNow) > 0) {
      std::fputs("ended before all sessions had\n", stderr);
      std::_Exit(kExitFailure);
    }
  }
}

}  // namespace

void BlockSignals() {
  const sigset_t signals = AllSignals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

absl::Status Serve(const ServerFlags& flags, const Tokenizer& tokenizer, Target& target) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<Gatekeeper> gate,
                            Gatekeeper::Open(flags.security.keys));
  // Draft and target take turns, each with all threads.
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<ThreadPool> draft_pool,
                            ThreadPool::Create(flags.draft.empty() ? 1 : flags.threads));
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<ServerDraft> draft,
                            LoadDraft(flags, tokenizer, *draft_pool));
  VerifierConfig config = ConfigFor(target.info(), tokenizer);
  config.drafts = draft != nullptr;
  config.hint_order = flags.exits.order;
  const uint32_t stream_count_max = config.stream_count_max;
  VerifierMachine machine(std::move(config), {tokenizer, RandomBits});
  v1::DescribeResponse description;
  machine.Describe(description);

  VerifierDriver driver(machine, target, draft ? draft->NewDrafter() : nullptr);
  DecodeService service(driver, description, *gate);
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<Listener> listener,
                            Listener::Listen(flags.listen,
                                             {.context_length = description.context_length(),
                                              .stream_count_max = stream_count_max},
                                             flags.security.transport, service));
  std::fprintf(stderr, "serving %s (numerics id %s) on %s\n", description.model_name().c_str(),
               description.numerics_id().c_str(), listener->address().c_str());
  if (!target.info().batch_invariant) {
    std::fputs(
        "note: on this device a pass rounds differently beside others and with other --threads, so "
        "a session's tokens may differ where two are all but equally likely\n",
        stderr);
  }
  AwaitEnd(*gate, driver);
  Drain(driver, EndingSignals(), flags.drain_seconds);
  return absl::OkStatus();
}

}  // namespace outrider
