// How near passes over weights that come from flash are to the flash itself: the rate at which passes
// read, turn by turn with readers that do nothing else, 1 MiB a read, 4 in flight: one into as much memory
// as the weights have, one into what is in flight, which stays in a processor's cache.
//
//   flash_passes MODEL.gguf THREADS [NODES [PINNED [SLOTS [ROUNDS]]]]
//
// Each round is some passes of a root and NODES nodes (0), for two seconds at least, and as many bytes
// by each reader; of the model PINNED layers (0) and the head stay, and the others have SLOTS slots (2).
// Printed are medians over ROUNDS (11): the rates, their ratios within a round, and how much of their time
// passes waited for what they read. Before that: that they say what passes over resident weights
// say.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bench/median.h"
#include "bench/plain_reader.h"
#include "common/base/clock.h"
#include "common/base/ieee_mode.h"
#include "common/base/process_memory.h"
#include "common/base/status.h"
#include "common/base/thread_pool.h"
#include "common/base/units.h"
#include "common/engine/cpu_engine.h"
#include "common/engine/flash_engine.h"
#include "common/formats/models/model_file.h"
#include "common/kernels/isa.h"
#include "common/kernels/kernels.h"

namespace outrider {
namespace {

constexpr uint32_t kContext = 256;

struct Settings {
  uint32_t thread_count = 1;
  uint32_t node_count = 0;
  uint32_t pinned = 0;
  uint32_t slots = 2;
  uint32_t rounds = 11;
};

double SecondsSince(MonotonicTime begin) {
  return std::chrono::duration<double>(RealClock().Now() - begin).count();
}

// A pass: a root and a chain of nodes below it, of which nothing is committed; the logits of the last.
absl::StatusOr<std::vector<float>> Pass(Engine& engine, SequenceId sequence, uint32_t node_count) {
  const std::vector<TokenId> root = {1};
  std::vector<EngineNode> nodes;
  for (uint32_t i = 0; i < node_count; ++i) {
    nodes.push_back({static_cast<TokenId>(2 + i), i == 0 ? EngineNode::kChain : i - 1, i});
  }
  OUTRIDER_RETURN_IF_ERROR(engine.Reserve(sequence, 1 + node_count, node_count));
  std::vector<float> logits(engine.info().vocabulary_size);
  const LogitsOfRow asked = {node_count, logits};
  const RunPart part = {.sequence = sequence, .chain = root, .nodes = nodes};
  EngineRun run = {.parts = {&part, 1}, .logits = {&asked, 1}};
  OUTRIDER_RETURN_IF_ERROR(engine.Run(run));
  engine.DropNodes(sequence);
  return logits;
}

struct Round {
  double passes_rate = 0;  // bytes a second
  double reader_rate = 0;
  double cached_rate = 0;  // of the reader whose memory is little
  double stalled = 0;      // of the passes' time
  double pass_ms = 0;
};

class Bench {
 public:
  static absl::StatusOr<std::unique_ptr<Bench>> Create(const std::string& path,
                                                       const Settings& settings) {
    std::unique_ptr<Bench> bench(new Bench(settings));
    OUTRIDER_ASSIGN_OR_RETURN(bench->pool_, ThreadPool::Create(settings.thread_count));
    OUTRIDER_ASSIGN_OR_RETURN(const std::vector<float> expected, bench->Resident(path));
    OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<ModelFile> file, ModelFile::Open(path));
    OUTRIDER_ASSIGN_OR_RETURN(
        bench->flash_,
        LoadFlashEngine(std::move(file), path, bench->Options(),
                        {.slot_count = settings.slots, .pinned_layer_count = settings.pinned},
                        KernelsFor(BestIsa()), *bench->pool_, nullptr));
    OUTRIDER_ASSIGN_OR_RETURN(bench->sequence_, bench->flash_.engine->Open());
    OUTRIDER_ASSIGN_OR_RETURN(const std::vector<float> logits,
                              Pass(*bench->flash_.engine, bench->sequence_, settings.node_count));
    if (logits != expected) return absl::InternalError("passes say something else than resident");
    OUTRIDER_ASSIGN_OR_RETURN(bench->reader_,
                              PlainReader::Open(path, bench->weights().memory_bytes()));
    OUTRIDER_ASSIGN_OR_RETURN(bench->cached_reader_, PlainReader::Open(path));
    return bench;
  }

  absl::StatusOr<Round> Run() {
    Round round;
    const StreamStats before = flash_.weights->stats();
    const MonotonicTime begin = RealClock().Now();
    uint32_t passes = 0;
    do {
      OUTRIDER_RETURN_IF_ERROR(Pass(*flash_.engine, sequence_, settings_.node_count).status());
      ++passes;
    } while (SecondsSince(begin) < 2);
    const double seconds = SecondsSince(begin);
    const StreamStats after = flash_.weights->stats();
    const uint64_t bytes = after.bytes_read - before.bytes_read;
    round.passes_rate = static_cast<double>(bytes) / seconds;
    round.stalled = std::chrono::duration<double>(after.stalled - before.stalled).count() / seconds;
    round.pass_ms = 1e3 * seconds / passes;
    std::this_thread::sleep_for(std::chrono::milliseconds(200));  // until slots are full
    OUTRIDER_ASSIGN_OR_RETURN(round.reader_rate, RateOf(*reader_, bytes));
    OUTRIDER_ASSIGN_OR_RETURN(round.cached_rate, RateOf(*cached_reader_, bytes));
    return round;
  }

  const StreamingWeights& weights() const { return *flash_.weights; }

 private:
  explicit Bench(const Settings& settings) : settings_(settings) {}

  EngineOptions Options() const {
    return {.context_length = kContext, .node_count_max = settings_.node_count};
  }

  static absl::StatusOr<double> RateOf(PlainReader& reader, uint64_t bytes) {
    const MonotonicTime begin = RealClock().Now();
    OUTRIDER_RETURN_IF_ERROR(reader.Read(bytes));
    return static_cast<double>(bytes) / SecondsSince(begin);
  }

  absl::StatusOr<std::vector<float>> Resident(const std::string& path) {
    OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<ModelFile> file, ModelFile::Open(path));
    OUTRIDER_ASSIGN_OR_RETURN(
        const std::unique_ptr<CpuEngine> engine,
        LoadCpuEngine(*file, path, Options(), KernelsFor(BestIsa()), *pool_, nullptr));
    OUTRIDER_ASSIGN_OR_RETURN(const SequenceId sequence, engine->Open());
    return Pass(*engine, sequence, settings_.node_count);
  }

  const Settings settings_;
  std::unique_ptr<ThreadPool> pool_;
  FlashEngine flash_;
  SequenceId sequence_ = {};
  std::unique_ptr<PlainReader> reader_;
  std::unique_ptr<PlainReader> cached_reader_;
};

absl::Status Run(const std::string& path, const Settings& settings) {
  const ScopedIeeeMode ieee_mode;
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<Bench> bench, Bench::Create(path, settings));
  std::printf(
      "%s, %u threads, passes of %u rows, %u layers pinned and the head, %u slots: %s a pass by "
      "%s\n",
      path.c_str(), settings.thread_count, 1 + settings.node_count, settings.pinned, settings.slots,
      HumanBytes(bench->weights().bytes_per_pass()).c_str(), bench->weights().backend().c_str());
  std::vector<double> passes, reader, cached, ratio, cached_ratio, stalled, pass_ms;
  for (uint32_t n = 0; n < settings.rounds; ++n) {
    OUTRIDER_ASSIGN_OR_RETURN(const Round round, bench->Run());
    passes.push_back(round.passes_rate / 1e9);
    reader.push_back(round.reader_rate / 1e9);
    cached.push_back(round.cached_rate / 1e9);
    ratio.push_back(round.passes_rate / round.reader_rate);
    cached_ratio.push_back(round.passes_rate / round.cached_rate);
    stalled.push_back(round.stalled);
    pass_ms.push_back(round.pass_ms);
  }
  std::printf(
      "passes %.3f GB/s (%.0f ms each), reader %.3f GB/s, ratio %.3f (%.3f to %.3f), waited %.0f "
      "%%; reader into a cache %.3f GB/s, ratio %.3f\n",
      Median(passes), Median(pass_ms), Median(reader), Median(ratio),
      *std::ranges::min_element(ratio), *std::ranges::max_element(ratio), 100 * Median(stalled),
      Median(cached), Median(cached_ratio));
  return absl::OkStatus();
}

}  // namespace
}  // namespace outrider

int main(int argc, char** argv) {
  outrider::Settings settings;
  uint32_t* const numbers[] = {&settings.thread_count, &settings.node_count, &settings.pinned,
                               &settings.slots, &settings.rounds};
  bool is_right = argc >= 3 && argc <= 7;
  for (int i = 2; i < argc && is_right; ++i) {
    const std::string_view text = argv[i];
    const auto [end, error] =
        std::from_chars(text.data(), text.data() + text.size(), *numbers[i - 2]);
    is_right = error == std::errc() && end == text.data() + text.size();
  }
  if (!is_right || settings.thread_count == 0 || settings.rounds == 0 || settings.slots == 0) {
    std::fputs("usage: flash_passes MODEL.gguf THREADS [NODES [PINNED [SLOTS [ROUNDS]]]]\n",
               stderr);
    return 2;
  }
  const absl::Status status = outrider::Run(argv[1], settings);
  if (status.ok()) return 0;
  std::fprintf(stderr, "flash_passes: %s\n", std::string(outrider::Message(status)).c_str());
  return 1;
}
