#include "adapters/training/model_writer.h"

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/base/status.h"
#include "common/formats/containers/gguf_writer.h"
#include "common/formats/models/quantization_mix.h"
#include "common/formats/tensors/quantize.h"
#include "common/formats/tokenizers/tokenizer_files.h"

namespace outrider {
namespace {

TensorType TypeOf(const NamedParameter& parameter, TensorType type) {
  return parameter.value.dim() == 1 ? TensorType::kF32 : type;
}

}  // namespace

absl::Status WriteModel(const std::string& path, const Hyperparameters& hyperparameters,
                        const TokenizerSpec& tokenizer, std::span<const NamedParameter> parameters,
                        TensorType type) {
  GgufWriter writer;
  AddHyperparameterMetadata(hyperparameters, writer);
  writer.AddUint32("general.file_type", FileTypeNumber(type));
  AddTokenizerMetadata(tokenizer, writer);
  for (const NamedParameter& parameter : parameters) {
    const std::vector<uint64_t> dims(parameter.value.sizes().rbegin(),
                                     parameter.value.sizes().rend());
    OUTRIDER_RETURN_IF_ERROR(writer.AddTensor(parameter.name, TypeOf(parameter, type), dims));
  }
  OUTRIDER_RETURN_IF_ERROR(writer.Begin(path));
  for (const NamedParameter& parameter : parameters) {
    const at::Tensor value = parameter.value.detach().to(at::kCPU, at::kFloat).contiguous();
    const auto count = static_cast<size_t>(value.numel());
    std::vector<std::byte> bytes(RowBytes(TypeOf(parameter, type), count));
    const absl::Status narrowed =
        Quantize(TypeOf(parameter, type), {value.data_ptr<float>(), count}, bytes);
    if (!narrowed.ok()) return Annotate(narrowed, path + ": " + parameter.name);
    OUTRIDER_RETURN_IF_ERROR(writer.Write(bytes));
  }
  return writer.Commit();
}

}  // namespace outrider
