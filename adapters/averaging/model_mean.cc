#include "adapters/averaging/model_mean.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/formats/containers/gguf_writer.h"
#include "common/formats/tensors/dequantize.h"
#include "common/formats/tensors/quantize.h"
#include "common/formats/tokenizers/tokenizer_spec.h"

namespace outrider {
namespace {

constexpr uint64_t kWeightsAtATime = 1 << 20;

bool IsFloat(TensorType type) {
  return type == TensorType::kF32 || type == TensorType::kF16 || type == TensorType::kBF16;
}

absl::Status CheckShape(const NamedModel& model, const NamedModel& first) {
  Hyperparameters shape = model.file->hyperparameters();
  shape.name = first.file->hyperparameters().name;
  if (shape == first.file->hyperparameters()) return absl::OkStatus();
  return InvalidArgument(model.path, ": has another shape than ", first.path,
                         "; only models that began as one have a mean");
}

// None where the model carries no vocabulary.
absl::StatusOr<std::vector<TokenizerSpec::Token>> TokensOf(const NamedModel& model) {
  absl::StatusOr<TokenizerSpec> spec = model.file->ReadTokenizer();
  if (absl::IsNotFound(spec.status())) return std::vector<TokenizerSpec::Token>();
  OUTRIDER_RETURN_IF_ERROR(spec.status());
  return std::move(spec->tokens);
}

absl::Status CheckVocabulary(const NamedModel& model, const NamedModel& first) {
  using Token = TokenizerSpec::Token;
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<Token> one, TokensOf(model));
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<Token> other, TokensOf(first));
  if (std::ranges::equal(one, other, {}, &Token::text, &Token::text)) return absl::OkStatus();
  return InvalidArgument(model.path, ": has another vocabulary than ", first.path,
                         "; only models that began as one have a mean");
}

absl::Status CheckTensors(const NamedModel& model, const NamedModel& first) {
  for (const ModelTensor& tensor : first.file->tensors()) {
    const ModelTensor* const same = model.file->Find(tensor.name);
    if (same == nullptr || same->dims != tensor.dims) {
      return InvalidArgument(model.path, ": has no tensor ", tensor.name, " like that of ",
                             first.path, "; only models that began as one have a mean");
    }
    if (!IsFloat(same->type)) {
      return InvalidArgument(model.path, ": tensor ", tensor.name, " is ", Name(same->type),
                             "; take the mean of F32, F16 or BF16 models and quantise that");
    }
  }
  return absl::OkStatus();
}

class MeanWriter {
 public:
  MeanWriter(std::span<const NamedModel> models, const MeanProgress& progress)
      : models_(models), progress_(progress) {}

  absl::Status Write(const std::string& out) {
    const ModelFile& first = *models_[0].file;
    OUTRIDER_RETURN_IF_ERROR(first.AddMetadata(writer_));
    writer_.AddString("general.name", std::filesystem::path(out).stem().string());
    for (const ModelTensor& tensor : first.tensors()) {
      OUTRIDER_RETURN_IF_ERROR(writer_.AddTensor(tensor.name, tensor.type, tensor.dims));
    }
    OUTRIDER_RETURN_IF_ERROR(writer_.Begin(out));
    for (const ModelTensor& tensor : first.tensors()) {
      const absl::Status written = WriteTensor(tensor);
      if (!written.ok()) return Annotate(written, out + ": " + tensor.name);
    }
    return writer_.Commit();
  }

 private:
  absl::Status WriteTensor(const ModelTensor& tensor) {
    const uint64_t rows_at_a_time = std::max<uint64_t>(1, kWeightsAtATime / tensor.dims[0]);
    for (uint64_t row = 0; row < tensor.row_count(); row += rows_at_a_time) {
      const uint64_t count = std::min(rows_at_a_time, tensor.row_count() - row);
      OUTRIDER_RETURN_IF_ERROR(WriteRows(tensor, row, count));
      progress_(count * RowBytes(tensor.type, tensor.dims[0]), tensor.name);
    }
    return absl::OkStatus();
  }

  // The sum is exact to far below what a float tells apart, whatever the order of the models.
  absl::Status WriteRows(const ModelTensor& tensor, uint64_t row, uint64_t count) {
    weights_.resize(count * tensor.dims[0]);
    sums_.assign(weights_.size(), 0);
    for (const NamedModel& model : models_) {
      const ModelTensor& same = *model.file->Find(tensor.name);
      bytes_.resize(RowBytes(same.type, weights_.size()));
      OUTRIDER_RETURN_IF_ERROR(model.file->ReadRows(same, row, count, bytes_));
      OUTRIDER_RETURN_IF_ERROR(Dequantize(same.type, bytes_, weights_));
      for (size_t i = 0; i < sums_.size(); ++i) sums_[i] += weights_[i];
    }
    const auto model_count = static_cast<double>(models_.size());
    for (size_t i = 0; i < sums_.size(); ++i) {
      weights_[i] = static_cast<float>(sums_[i] / model_count);
    }
    bytes_.resize(RowBytes(tensor.type, weights_.size()));
    OUTRIDER_RETURN_IF_ERROR(Quantize(tensor.type, weights_, bytes_));
    return writer_.Write(bytes_);
  }

  const std::span<const NamedModel> models_;
  const MeanProgress& progress_;
  GgufWriter writer_;
  std::vector<std::byte> bytes_;
  std::vector<float> weights_;
  std::vector<double> sums_;
};

}  // namespace

absl::Status WriteMean(std::span<const NamedModel> models, const std::string& out,
                       const MeanProgress& progress) {
  if (models.size() < 2) return InvalidArgument("a mean takes two models at least");
  for (const NamedModel& model : models) {
    OUTRIDER_RETURN_IF_ERROR(CheckShape(model, models[0]));
    OUTRIDER_RETURN_IF_ERROR(CheckVocabulary(model, models[0]));
    OUTRIDER_RETURN_IF_ERROR(CheckTensors(model, models[0]));
  }
  return MeanWriter(models, progress).Write(out);
}

}  // namespace outrider
