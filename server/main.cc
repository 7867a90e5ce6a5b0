// outrider-server: a target for many devices.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "CLI/CLI.hpp"
#include "common/base/clock.h"
#include "common/base/program.h"
#include "common/base/random_bits.h"
#include "common/base/status.h"
#include "common/base/thread_pool.h"
#include "common/engine/engine.h"
#include "common/engine/engine_target.h"
#include "common/formats/models/model_file.h"
#include "common/kernels/isa.h"
#include "common/kernels/kernels.h"
#include "common/text/tokenizer_source.h"
#include "common/torch/load_engine.h"
#include "common/verification/machine/verifier_config.h"
#include "common/verification/machine/verifier_machine.h"
#include "common/verification/verifier_driver.h"
#include "server/decode_service.h"
#include "server/draft.h"
#include "server/listener.h"

namespace outrider {
namespace {

constexpr uint32_t kDefaultContext = 4096;

constexpr char kDescription[] =
    "outrider-server: the large model for many devices. Each drafts ahead on its own; this checks "
    "what they drafted and writes, token for token, what the model alone would have written.";

constexpr char kFooter[] =
    "A device connects with `outrider run --server HOST:PORT --draft small.gguf --prompt TEXT`.\n"
    "SIGTERM or Ctrl-C drains: no new sessions, and those there are have --drain-seconds left; a "
    "second one ends at once.\n"
    "Every flag has an environment twin: --model is OUTRIDER_MODEL. Exit codes: 0 done, 1 failed, "
    "2 wrong usage.";

struct ServerFlags {
  std::string model;
  std::string device = "cpu";
  std::string draft;  // empty: Generate is the target alone
  std::string listen = "127.0.0.1:7373";
  std::optional<uint32_t> context;
  uint32_t sessions = 8;
  uint64_t kv_memory = 0;  // bytes; 0: all sessions at their longest
  uint32_t pass_nodes = 31;
  uint32_t threads = std::max(1u, std::thread::hardware_concurrency());
  std::optional<std::string> isa;
  uint32_t drain_seconds = 30;
};

// What a log wants of a model that takes its time: a line a quarter.
class LoadLog {
 public:
  explicit LoadLog(const std::string& path) : path_(path) {}

  void Progress(uint64_t done, uint64_t total) {
    const uint64_t quarter = total > 0 ? 4 * done / total : 4;
    if (quarter <= quarter_) return;
    quarter_ = quarter;
    if (RealClock().Now() < begin_ + std::chrono::seconds(1)) return;
    std::fprintf(stderr, "loading %s: %u %%\n", path_.c_str(), static_cast<unsigned>(25 * quarter));
  }

 private:
  const std::string& path_;
  const MonotonicTime begin_ = RealClock().Now();
  uint64_t quarter_ = 0;
};

absl::StatusOr<std::unique_ptr<EngineTarget>> LoadTarget(const ServerFlags& flags,
                                                         ThreadPool& pool) {
  OUTRIDER_ASSIGN_OR_RETURN(
      const Isa isa,
      SelectIsa(flags.isa ? std::optional<std::string_view>(*flags.isa) : std::nullopt));
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<ModelFile> model, ModelFile::Open(flags.model));
  const EngineOptions options = {.context_length = flags.context.value_or(std::min(
                                     model->hyperparameters().context_length, kDefaultContext)),
                                 .sequence_count_max = flags.sessions,
                                 .node_count_max = flags.pass_nodes,
                                 .kv_bytes = flags.kv_memory};
  LoadLog log(flags.model);
  const LoadProgress progress = [&](uint64_t done, uint64_t total, std::string_view) {
    log.Progress(done, total);
  };
  OUTRIDER_ASSIGN_OR_RETURN(
      std::unique_ptr<Engine> engine,
      LoadEngine(flags.device, *model, flags.model, options, KernelsFor(isa), pool, progress));
  return EngineTarget::Create(std::move(engine));
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

// Blocked before any thread starts, so that all of them leave the signals to AwaitSignal().
sigset_t BlockSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return signals;
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

absl::Status Serve(const ServerFlags& flags) {
  const sigset_t signals = BlockSignals();
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<Tokenizer> tokenizer, OpenTokenizer(flags.model));
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<ThreadPool> pool,
                            ThreadPool::Create(flags.threads));
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<EngineTarget> target, LoadTarget(flags, *pool));
  // Draft and target take turns, each with all threads.
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<ThreadPool> draft_pool,
                            ThreadPool::Create(flags.draft.empty() ? 1 : flags.threads));
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<ServerDraft> draft,
                            LoadDraft(flags, *tokenizer, *draft_pool));
  VerifierConfig config = ConfigFor(target->info(), *tokenizer);
  config.drafts = draft != nullptr;
  VerifierMachine machine(std::move(config), {*tokenizer, RandomBits});
  v1::DescribeResponse description;
  machine.Describe(description);

  VerifierDriver driver(machine, *target, draft ? draft->NewDrafter() : nullptr);
  DecodeService service(driver, description);
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<Listener> listener,
                            Listener::Listen(flags.listen, service));
  std::fprintf(stderr, "serving %s (numerics id %s) on %s\n", description.model_name().c_str(),
               description.numerics_id().c_str(), listener->address().c_str());
  if (!target->info().batch_invariant) {
    std::fputs(
        "note: on this device a pass rounds differently beside others and with other --threads, so "
        "a session's tokens may differ where two are all but equally likely\n",
        stderr);
  }
  int signal = 0;
  sigwait(&signals, &signal);
  Drain(driver, signals, flags.drain_seconds);
  return absl::OkStatus();
}

// Empty for a good one, as CLI11 wants it.
std::string CheckDeviceFlag(const std::string& device) {
  return std::string(Message(CheckDevice(device)));
}

void AddFlags(CLI::App& app, ServerFlags& flags) {
  app.add_option("--model", flags.model, "The target: a .gguf file or a Hugging Face directory")
      ->envname("OUTRIDER_MODEL")
      ->required();
  app.add_option("--device", flags.device,
                 "What computes: cpu, torch (libtorch on this processor) or torch:cuda (on a GPU; "
                 "torch:cuda:1 is the second). libtorch's tokens have a numerics id of their own "
                 "and are not the same to the bit in every batch")
      ->envname("OUTRIDER_DEVICE")
      ->check(CLI::Validator(CheckDeviceFlag, "", "device"))
      ->capture_default_str();
  app.add_option("--draft", flags.draft,
                 "A small model of the target's family, for devices that leave drafting to the "
                 "server (outrider run --place server)")
      ->envname("OUTRIDER_DRAFT");
  app.add_option("--listen", flags.listen, "Where devices connect: host:port; port 0: any free one")
      ->envname("OUTRIDER_LISTEN")
      ->capture_default_str();
  app.add_option("--context", flags.context,
                 "Tokens of one session, prompt and reply (default: the model's, 4096 at the most)")
      ->envname("OUTRIDER_CONTEXT");
  app.add_option("--sessions", flags.sessions,
                 "Sessions whose keys and values are in memory at a time")
      ->envname("OUTRIDER_SESSIONS")
      ->check(CLI::Range(1u, 1024u))
      ->capture_default_str();
  app.add_option(
         "--kv-memory", flags.kv_memory,
         "What keys and values of all sessions may take, as in 900MiB; when it is lent out, "
         "new sessions are refused until some is free (default: all sessions at their "
         "longest)")
      ->envname("OUTRIDER_KV_MEMORY")
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/true));
  app.add_option("--pass-nodes", flags.pass_nodes, "Drafted tokens of one pass, at the most")
      ->envname("OUTRIDER_PASS_NODES")
      ->check(CLI::Range(1u, 255u))
      ->capture_default_str();
  app.add_option("--threads", flags.threads, "Threads that compute")
      ->envname("OUTRIDER_THREADS")
      ->check(CLI::Range(1u, 1024u))
      ->capture_default_str();
  app.add_option("--isa", flags.isa, "Instruction set, in place of the best this processor has")
      ->envname("OUTRIDER_ISA");
  app.add_option("--drain-seconds", flags.drain_seconds, "What sessions have left after SIGTERM")
      ->envname("OUTRIDER_DRAIN_SECONDS")
      ->capture_default_str();
}

int Main(int argc, char** argv) {
  CLI::App app(kDescription, "outrider-server");
  app.footer(kFooter);
  app.set_version_flag("--version", "outrider-server " OUTRIDER_VERSION);
  ServerFlags flags;
  AddFlags(app, flags);
  return RunProgram(app, argc, argv, [&] { return Serve(flags); });
}

}  // namespace
}  // namespace outrider

int main(int argc, char** argv) {
  return outrider::Main(argc, argv);
}
