// Passes of a target on this machine's processor, timed one at a time on request, so that
// bench/against_llama_cpp can take turns with another program.
//
//   pass_speed MODEL THREADS CONTEXT [ISA]
//
// Says hello in one line, then answers each line of input with seconds:
//   verify N     a pass over N rows on top of CONTEXT tokens, with the logits of every row
//   prefill N    N tokens of a prompt on top of the same, with the logits of the last
//   read         a plain read, by all threads, of the matrices that the last pass had read: the wall
//                a pass of few rows runs into
//   bytes        how many bytes those matrices have, once `read` was asked (not seconds)
//   experts      how many experts that pass had read, over all layers (not seconds)
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "bench/peak.h"
#include "common/base/ieee_mode.h"
#include "common/base/status.h"
#include "common/base/thread_pool.h"
#include "common/engine/cpu_engine.h"
#include "common/formats/models/model_file.h"
#include "common/kernels/isa.h"
#include "common/kernels/kernels.h"
#include "common/kernels/weight_matrix.h"
#include "common/model/model_spec.h"
#include "common/model/weights/resident_weights.h"
#include "common/model/weights/weight_store.h"

namespace outrider {
namespace {

constexpr uint32_t kRowCountMax = 512;
constexpr uint32_t kLogitRowCountMax = 64;

// Remembers which experts a pass asks for.
class WatchedWeights final : public WeightStore {
 public:
  explicit WatchedWeights(ResidentWeights& store) : store_(store) {}

  std::span<const float> rope_freqs() const override { return store_.rope_freqs(); }
  absl::Status LookUp(WeightTable table, std::span<const TableRow> rows) override {
    return store_.LookUp(table, rows);
  }
  absl::StatusOr<Lease<HeadWeights>> Acquire(HeadKey key) override { return store_.Acquire(key); }
  absl::StatusOr<Lease<LayerWeights>> Acquire(LayerKey key) override { return store_.Acquire(key); }
  absl::StatusOr<Lease<FeedForwardWeights>> Acquire(ExpertKey key) override {
    experts_.push_back(key);
    return store_.Acquire(key);
  }
  uint32_t expert_leases_max() const override { return store_.expert_leases_max(); }
  void Prefetch(std::span<const WeightKey> keys) override { store_.Prefetch(keys); }
  void LendWaits(IdleWork work) override { store_.LendWaits(std::move(work)); }

  void Forget() { experts_.clear(); }
  std::span<const ExpertKey> experts() const { return experts_; }

 private:
  void Release(const WeightKey&) override {}

  ResidentWeights& store_;
  std::vector<ExpertKey> experts_;  // since the last Forget()
};

class PassTimer {
 public:
  static absl::StatusOr<std::unique_ptr<PassTimer>> Create(const std::string& path,
                                                           uint32_t thread_count, uint32_t context,
                                                           std::optional<std::string_view> isa) {
    OUTRIDER_ASSIGN_OR_RETURN(const Isa selected, SelectIsa(isa));
    std::unique_ptr<PassTimer> timer(new PassTimer);
    timer->isa_ = selected;
    OUTRIDER_ASSIGN_OR_RETURN(timer->pool_, ThreadPool::Create(thread_count));
    OUTRIDER_RETURN_IF_ERROR(timer->Load(path, context));
    OUTRIDER_RETURN_IF_ERROR(timer->FindPieces());
    OUTRIDER_RETURN_IF_ERROR(timer->ReadContext(context));
    return timer;
  }

  std::string Hello() const {
    return Concat("ours: ", Name(isa_), ", ", pool_->thread_count(), " threads");
  }

  // Seconds for a pass over `row_count` tokens behind those the sequence has.
  absl::StatusOr<double> Time(uint32_t row_count, bool every_logit) {
    const uint32_t length = engine_->Length(sequence_);
    const uint32_t logit_row_count = every_logit ? row_count : 1;
    if (row_count == 0 || row_count > kRowCountMax || logit_row_count > kLogitRowCountMax ||
        row_count > engine_->info().context_length - length) {
      return InvalidArgument("a pass of ", row_count, " rows is not timed here");
    }
    std::vector<TokenId> tokens(row_count);
    for (uint32_t i = 0; i < row_count; ++i) tokens[i] = MakeToken(length + i);
    const RunPart part = {.sequence = sequence_, .chain = tokens};
    std::vector<LogitsOfRow> asked;
    const uint32_t vocabulary_size = engine_->info().vocabulary_size;
    for (uint32_t i = 0; i < logit_row_count; ++i) {
      asked.push_back({row_count - logit_row_count + i,
                       std::span(logits_).subspan(size_t{i} * vocabulary_size, vocabulary_size)});
    }
    EngineRun run = {.parts = {&part, 1}, .logits = asked};

    watched_->Forget();
    const auto started = std::chrono::steady_clock::now();
    OUTRIDER_RETURN_IF_ERROR(engine_->Reserve(sequence_, row_count, 0));
    OUTRIDER_RETURN_IF_ERROR(engine_->Run(run));
    return Since(started);
  }

  size_t expert_count() const { return watched_->experts().size(); }

  // What the last TimeRead() read.
  size_t read_bytes() const {
    size_t bytes = 0;
    for (const std::span<const std::byte>& piece : pieces_) bytes += piece.size();
    return bytes;
  }

  // Seconds for a plain read of every matrix the last pass read, by all threads.
  absl::StatusOr<double> TimeRead() {
    pieces_.resize(shared_piece_count_);
    for (const ExpertKey& key : watched_->experts()) {
      OUTRIDER_ASSIGN_OR_RETURN(const Lease<FeedForwardWeights> expert, weights_->Acquire(key));
      AddPieces(*expert);
    }
    const auto started = std::chrono::steady_clock::now();
    pool_->ParallelFor(pieces_.size(), [&](size_t i) { ReadStreams(pieces_[i]); });
    return Since(started);
  }

 private:
  PassTimer() = default;

  static double Since(std::chrono::steady_clock::time_point started) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  }

  TokenId MakeToken(uint32_t position) const {
    return static_cast<TokenId>(300 + position * 7919 % (engine_->info().vocabulary_size - 300));
  }

  absl::Status Load(const std::string& path, uint32_t context) {
    OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<ModelFile> file, ModelFile::Open(path));
    OUTRIDER_ASSIGN_OR_RETURN(const ModelSpec spec, ModelSpec::From(*file, path));
    OUTRIDER_ASSIGN_OR_RETURN(weights_, ResidentWeights::Load(*file, spec, path, *pool_, nullptr));
    watched_ = std::make_shared<WatchedWeights>(*weights_);
    const EngineOptions options = {
        .context_length = std::min(context + kRowCountMax, spec.context_length),
        .node_count_max = 0,
        .row_count_max = kRowCountMax};
    OUTRIDER_ASSIGN_OR_RETURN(engine_, CpuEngine::Create(spec, watched_, weights_->content_hash(),
                                                         options, KernelsFor(isa_), *pool_));
    OUTRIDER_ASSIGN_OR_RETURN(sequence_, engine_->Open());
    logits_.resize(size_t{kLogitRowCountMax} * spec.vocabulary_size);
    return absl::OkStatus();
  }

  absl::Status ReadContext(uint32_t context) {
    while (engine_->Length(sequence_) < context) {
      const uint32_t count = std::min(kRowCountMax, context - engine_->Length(sequence_));
      OUTRIDER_RETURN_IF_ERROR(Time(count, false).status());
      engine_->Commit(sequence_, count, {});
    }
    return absl::OkStatus();
  }

  absl::Status FindPieces() {
    for (uint32_t layer = 0; layer < engine_->spec().layer_count(); ++layer) {
      OUTRIDER_ASSIGN_OR_RETURN(const Lease<LayerWeights> lease,
                                weights_->Acquire(LayerKey{layer}));
      const LayerWeights& weights = *lease;
      for (const Linear* linear :
           {&weights.attention.query, &weights.attention.key, &weights.attention.value,
            &weights.attention.output, &weights.feed_forward.gate, &weights.feed_forward.up,
            &weights.feed_forward.down, &weights.router}) {
        AddPieces(linear->matrix);
      }
    }
    AddPieces(weights_->head().matrix);
    shared_piece_count_ = pieces_.size();
    return absl::OkStatus();
  }

  void AddPieces(const FeedForwardWeights& weights) {
    for (const Linear* const linear : {&weights.gate, &weights.up, &weights.down}) {
      AddPieces(linear->matrix);
    }
  }

  void AddPieces(const WeightMatrix& matrix) {
    constexpr size_t kPieceBytes = 1 << 20;
    const size_t bytes = matrix.layout == WeightLayout::kPanels
                             ? PackedBytes(matrix.type, matrix.outputs, matrix.inputs)
                             : RowBytes(matrix.type, matrix.inputs) * matrix.outputs;
    const std::span all(matrix.data, bytes);
    for (size_t first = 0; first < bytes; first += kPieceBytes) {
      pieces_.push_back(all.subspan(first, std::min(kPieceBytes, bytes - first)));
    }
  }

  Isa isa_ = Isa::kScalar;
  std::unique_ptr<ThreadPool> pool_;
  std::unique_ptr<ResidentWeights> weights_;
  std::shared_ptr<WatchedWeights> watched_;
  std::unique_ptr<CpuEngine> engine_;
  SequenceId sequence_ = {};
  std::vector<float> logits_;                       // of as many rows as are asked at a time
  std::vector<std::span<const std::byte>> pieces_;  // of the matrices, for TimeRead()
  size_t shared_piece_count_ = 0;                   // those that every pass reads come first
};

std::optional<uint32_t> ParseNumber(std::string_view text) {
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

absl::StatusOr<double> Answer(PassTimer& timer, const std::string& request) {
  const size_t space = request.find(' ');
  const std::string_view what = std::string_view(request).substr(0, space);
  if (what == "read") return timer.TimeRead();
  if (what == "bytes") return static_cast<double>(timer.read_bytes());
  if (what == "experts") return static_cast<double>(timer.expert_count());
  const std::string_view number =
      space == std::string::npos ? "" : std::string_view(request).substr(space + 1);
  if (const std::optional<uint32_t> count = ParseNumber(number)) {
    if (what == "verify") return timer.Time(*count, true);
    if (what == "prefill") return timer.Time(*count, false);
  }
  return InvalidArgument("'", request, "' is not 'verify N', 'prefill N' or 'read'");
}

absl::Status Run(std::span<char*> arguments) {
  const std::optional<uint32_t> thread_count = ParseNumber(arguments[1]);
  const std::optional<uint32_t> context = ParseNumber(arguments[2]);
  if (!thread_count || !context) return InvalidArgument("THREADS and CONTEXT are numbers");
  std::optional<std::string_view> isa;
  if (arguments.size() > 3) isa = arguments[3];
  const ScopedIeeeMode ieee_mode;
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<PassTimer> timer,
                            PassTimer::Create(arguments[0], *thread_count, *context, isa));
  std::cout << timer->Hello() << std::endl;
  for (std::string request; std::getline(std::cin, request);) {
    OUTRIDER_ASSIGN_OR_RETURN(const double seconds, Answer(*timer, request));
    std::cout << seconds << std::endl;
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace outrider

int main(int argc, char** argv) {
  if (argc != 4 && argc != 5) {
    std::fputs(
        "usage: pass_speed MODEL THREADS CONTEXT [ISA]\n\nDriven by bench/against_llama_cpp.\n",
        stderr);
    return 2;
  }
  const absl::Status status = outrider::Run(std::span(argv + 1, argv + argc));
  if (status.ok()) return 0;
  std::fprintf(stderr, "pass_speed: %s\n", std::string(outrider::Message(status)).c_str());
  return 1;
}
