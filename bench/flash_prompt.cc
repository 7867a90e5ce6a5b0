// The first token of a prompt on flash, held against what it can be at the best: the longer of reading
// what its runs read, and of computing them.
//
//   flash_prompt MODEL.gguf THREADS [TOKENS [ROWS [PINNED [ROUNDS]]]]
//
// A prompt of TOKENS (480) in runs of ROWS (257, as `outrider plan` has them without a draft) tokens;
// of the model PINNED layers (6) and the head stay. In each of ROUNDS (5) rounds the same runs follow
// one another over the weights from flash and over the same weights in memory, and a plain reader reads
// as many bytes. Printed are medians of the three, and of the ratio of the first to the longer of the
// others within a round. Before that: that both say the same of the last token.
#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bench/median.h"
#include "bench/plain_reader.h"
#include "common/base/clock.h"
#include "common/base/ieee_mode.h"
#include "common/base/status.h"
#include "common/base/thread_pool.h"
#include "common/engine/cpu_engine.h"
#include "common/engine/flash_engine.h"
#include "common/formats/models/model_file.h"
#include "common/kernels/isa.h"
#include "common/kernels/kernels.h"

namespace outrider {
namespace {

struct Settings {
  uint32_t thread_count = 1;
  uint32_t token_count = 480;
  uint32_t row_count = 257;
  uint32_t pinned = 6;
  uint32_t rounds = 5;
};

double SecondsSince(MonotonicTime begin) {
  return std::chrono::duration<double>(RealClock().Now() - begin).count();
}

struct Engines {
  std::unique_ptr<ThreadPool> pool;
  std::unique_ptr<CpuEngine> resident;
  FlashEngine flash;
  std::unique_ptr<PlainReader> reader;
};

absl::StatusOr<Engines> Load(const std::string& path, const Settings& settings) {
  Engines engines;
  OUTRIDER_ASSIGN_OR_RETURN(engines.pool, ThreadPool::Create(settings.thread_count));
  OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<ModelFile> file, ModelFile::Open(path));
  const EngineOptions options = {.context_length = settings.token_count,
                                 .node_count_max = 0,
                                 .row_count_max = settings.row_count};
  const Kernels& kernels = KernelsFor(BestIsa());
  OUTRIDER_ASSIGN_OR_RETURN(engines.resident,
                            LoadCpuEngine(*file, path, options, kernels, *engines.pool, nullptr));
  OUTRIDER_ASSIGN_OR_RETURN(
      engines.flash, LoadFlashEngine(std::move(file), path, options,
                                     {.slot_count = 2, .pinned_layer_count = settings.pinned},
                                     kernels, *engines.pool, nullptr));
  OUTRIDER_ASSIGN_OR_RETURN(engines.reader, PlainReader::Open(path));
  return engines;
}

// What the target says after the prompt's last token.
absl::StatusOr<std::vector<float>> Read(Engine& engine, const Settings& settings) {
  std::vector<TokenId> prompt;
  for (uint32_t i = 0; i < settings.token_count; ++i) {
    prompt.push_back(static_cast<TokenId>(1 + i % (engine.info().vocabulary_size - 1)));
  }
  OUTRIDER_ASSIGN_OR_RETURN(const SequenceId sequence, engine.Open());
  std::vector<float> logits(engine.info().vocabulary_size);
  for (uint32_t at = 0; at < settings.token_count; at += settings.row_count) {
    const uint32_t count = std::min(settings.row_count, settings.token_count - at);
    OUTRIDER_RETURN_IF_ERROR(engine.Reserve(sequence, count, 0));
    const RunPart part = {.sequence = sequence, .chain = std::span(prompt).subspan(at, count)};
    const LogitsOfRow asked = {count - 1, logits};
    const bool is_last = at + count == settings.token_count;
    EngineRun run = {.parts = {&part, 1}, .logits = {&asked, size_t{is_last}}};
    OUTRIDER_RETURN_IF_ERROR(engine.Run(run));
    engine.Commit(sequence, count, {});
  }
  engine.Close(sequence);
  return logits;
}

absl::Status Run(const std::string& path, const Settings& settings) {
  const ScopedIeeeMode ieee_mode;
  OUTRIDER_ASSIGN_OR_RETURN(Engines engines, Load(path, settings));
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<float> expected, Read(*engines.resident, settings));
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<float> said, Read(*engines.flash.engine, settings));
  if (said != expected) return absl::InternalError("flash says something else than memory");
  const uint32_t runs = (settings.token_count + settings.row_count - 1) / settings.row_count;
  const uint64_t bytes = runs * engines.flash.weights->bytes_per_pass();
  std::vector<double> flash, memory, reader, ratio;
  for (uint32_t round = 0; round < settings.rounds; ++round) {
    MonotonicTime begin = RealClock().Now();
    OUTRIDER_RETURN_IF_ERROR(Read(*engines.flash.engine, settings).status());
    flash.push_back(SecondsSince(begin));
    begin = RealClock().Now();
    OUTRIDER_RETURN_IF_ERROR(Read(*engines.resident, settings).status());
    memory.push_back(SecondsSince(begin));
    begin = RealClock().Now();
    OUTRIDER_RETURN_IF_ERROR(engines.reader->Read(bytes));
    reader.push_back(SecondsSince(begin));
    ratio.push_back(flash.back() / std::max(memory.back(), reader.back()));
  }
  std::printf(
      "%s, %u threads, a prompt of %u tokens in %u runs, %u layers and the head pinned: "
      "first token %.2f s; in memory %.2f s, reading %.2f s; of the longer %.2f (%.2f to %.2f)\n",
      path.c_str(), settings.thread_count, settings.token_count, runs, settings.pinned,
      Median(flash), Median(memory), Median(reader), Median(ratio),
      *std::ranges::min_element(ratio), *std::ranges::max_element(ratio));
  return absl::OkStatus();
}

}  // namespace
}  // namespace outrider

int main(int argc, char** argv) {
  outrider::Settings settings;
  const std::array numbers = {&settings.thread_count, &settings.token_count, &settings.row_count,
                              &settings.pinned, &settings.rounds};
  bool is_right = argc >= 3 && argc <= 7;
  for (int i = 2; i < argc && is_right; ++i) {
    const std::string_view text = argv[i];
    const auto [end, error] =
        std::from_chars(text.data(), text.data() + text.size(), *numbers[i - 2]);
    is_right = error == std::errc() && end == text.data() + text.size();
  }
  if (!is_right || settings.thread_count == 0 || settings.token_count == 0 ||
      settings.row_count == 0 || settings.rounds == 0) {
    std::fputs("usage: flash_prompt MODEL.gguf THREADS [TOKENS [ROWS [PINNED [ROUNDS]]]]\n",
               stderr);
    return 2;
  }
  const absl::Status status = outrider::Run(argv[1], settings);
  if (status.ok()) return 0;
  std::fprintf(stderr, "flash_prompt: %s\n", std::string(outrider::Message(status)).c_str());
  return 1;
}
