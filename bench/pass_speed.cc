// Passes of a target on this machine's processor, timed one at a time on request, so that
// bench/against_llama_cpp can take turns with another program.
//
//   pass_speed MODEL THREADS CONTEXT [ISA]
//
// Says hello in one line, then answers each line of input with seconds:
//   verify N     a pass over N rows on top of CONTEXT tokens, with the logits of every row
//   prefill N    N tokens of a prompt on top of the same, with the logits of the last
//   read         a plain read of the matrices by all threads: the wall a pass of few rows runs into
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <memory>
#include <numeric>
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
#include "common/formats/models/model_file.h"
#include "common/kernels/isa.h"
#include "common/kernels/kernels.h"
#include "common/kernels/weight_matrix.h"
#include "common/model/batch.h"
#include "common/model/kv_cache.h"
#include "common/model/kv_sequence.h"
#include "common/model/model_spec.h"
#include "common/model/resident_weights.h"
#include "common/model/transformer.h"
#include "common/model/weight_store.h"

namespace outrider {
namespace {

constexpr uint32_t kRowCountMax = 512;
constexpr uint32_t kLogitRowCountMax = 64;

class PassTimer {
 public:
  static absl::StatusOr<std::unique_ptr<PassTimer>> Create(const std::string& path,
                                                           uint32_t thread_count, uint32_t context,
                                                           std::optional<std::string_view> isa) {
    OUTRIDER_ASSIGN_OR_RETURN(const Isa selected, SelectIsa(isa));
    std::unique_ptr<PassTimer> timer(new PassTimer);
    timer->isa_ = selected;
    OUTRIDER_ASSIGN_OR_RETURN(timer->pool_, ThreadPool::Create(thread_count));
    {
      OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<ModelFile> file, ModelFile::Open(path));
      OUTRIDER_ASSIGN_OR_RETURN(ModelSpec spec, ModelSpec::From(*file, path));
      timer->spec_ = std::make_unique<ModelSpec>(std::move(spec));
      OUTRIDER_ASSIGN_OR_RETURN(timer->weights_, ResidentWeights::Load(*file, *timer->spec_, path,
                                                                       *timer->pool_, nullptr));
    }
    OUTRIDER_RETURN_IF_ERROR(timer->FindPieces());
    OUTRIDER_RETURN_IF_ERROR(timer->TakeMemory(context));
    OUTRIDER_RETURN_IF_ERROR(timer->ReadContext(context));
    return timer;
  }

  std::string Hello() const {
    return Concat("ours: ", Name(isa_), ", ", pool_->thread_count(), " threads");
  }

  // Seconds for a pass over `row_count` tokens behind those the sequence has.
  absl::StatusOr<double> Time(uint32_t row_count, bool every_logit) {
    const uint32_t logit_row_count = every_logit ? row_count : 1;
    if (row_count == 0 || row_count > kRowCountMax || logit_row_count > kLogitRowCountMax) {
      return InvalidArgument("a pass of ", row_count, " rows is not timed here");
    }
    std::vector<TokenId> tokens(row_count);
    for (uint32_t i = 0; i < row_count; ++i) tokens[i] = MakeToken(sequence_->length() + i);
    std::vector<uint32_t> logit_rows(logit_row_count);
    std::iota(logit_rows.begin(), logit_rows.end(), row_count - logit_row_count);

    const auto started = std::chrono::steady_clock::now();
    OUTRIDER_RETURN_IF_ERROR(sequence_->Reserve(row_count, 0));
    batch_->Clear();
    batch_->AddChain(*sequence_, tokens);
    OUTRIDER_RETURN_IF_ERROR(transformer_->Forward(*batch_, nullptr));
    transformer_->Project(logit_rows);
    return Since(started);
  }

  // Seconds for a plain read of every matrix such a pass reads, by all threads.
  double TimeRead() {
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
    return static_cast<TokenId>(300 + position * 7919 % (spec_->vocabulary_size - 300));
  }

  absl::Status TakeMemory(uint32_t context) {
    const uint32_t positions = context + kRowCountMax;
    OUTRIDER_ASSIGN_OR_RETURN(cache_, KvCache::Create(*spec_, positions / kChunk + 2));
    sequence_ = std::make_unique<KvSequence>(*cache_, positions, 0);
    OUTRIDER_ASSIGN_OR_RETURN(Batch batch, Batch::Create(kRowCountMax, positions, spec_->window));
    batch_ = std::make_unique<Batch>(std::move(batch));
    OUTRIDER_ASSIGN_OR_RETURN(
        transformer_, Transformer::Create(*spec_, *weights_, cache_->layout(), KernelsFor(isa_),
                                          *pool_, kRowCountMax, kLogitRowCountMax));
    return absl::OkStatus();
  }

  absl::Status ReadContext(uint32_t context) {
    while (sequence_->length() < context) {
      const uint32_t count = std::min(kRowCountMax, context - sequence_->length());
      OUTRIDER_RETURN_IF_ERROR(Time(count, false).status());
      sequence_->Advance(count);
    }
    return absl::OkStatus();
  }

  absl::Status FindPieces() {
    for (uint32_t layer = 0; layer < spec_->layer_count(); ++layer) {
      OUTRIDER_ASSIGN_OR_RETURN(const LayerLease lease, weights_->Acquire(layer));
      const LayerWeights& weights = *lease;
      for (const Linear* linear :
           {&weights.query, &weights.key, &weights.value, &weights.attention_output, &weights.gate,
            &weights.up, &weights.down}) {
        AddPieces(linear->matrix);
      }
    }
    AddPieces(weights_->outer().head);
    return absl::OkStatus();
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
  std::unique_ptr<ModelSpec> spec_;
  std::unique_ptr<ResidentWeights> weights_;
  std::unique_ptr<KvCache> cache_;
  std::unique_ptr<KvSequence> sequence_;
  std::unique_ptr<Batch> batch_;
  std::unique_ptr<Transformer> transformer_;
  std::vector<std::span<const std::byte>> pieces_;  // of the matrices, for TimeRead()
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
