#include "common/formats/models/content_record.h"

#include "absl/status/statusor.h"
#include "common/formats/containers/gguf_file.h"
#include "common/formats/containers/gguf_writer.h"
#include "common/formats/models/content_hash.h"

namespace outrider {

uint64_t HashTensorTable(std::span<const ModelTensor> tensors) {
  ContentHash hash;
  for (const ModelTensor& tensor : tensors) {
    hash.Add(tensor.name);
    hash.Add(static_cast<uint32_t>(tensor.type));
    for (const uint64_t dim : tensor.dims) hash.Add(dim);
  }
  return hash.value();
}

ContentRecorder::ContentRecorder(const Hyperparameters& model, std::span<const ModelTensor> tensors,
                                 GgufWriter& writer)
    : hasher_(model, tensors), writer_(writer) {
  writer.AddLateUint64(kContentHashKey);
  writer.AddUint64(kContentTableKey, HashTensorTable(tensors));
}

absl::Status ContentRecorder::Add(const ModelTensor& tensor, std::span<const std::byte> rows) {
  return hasher_.Add(tensor, rows);
}

absl::Status ContentRecorder::Finish() {
  return writer_.SetLate(kContentHashKey, hasher_.value());
}

std::optional<uint64_t> ReadContentRecord(const GgufFile& file,
                                          std::span<const ModelTensor> tensors) {
  const absl::StatusOr<uint64_t> hash = file.GetUint(kContentHashKey);
  const absl::StatusOr<uint64_t> table = file.GetUint(kContentTableKey);
  if (!hash.ok() || !table.ok() || *table != HashTensorTable(tensors)) return std::nullopt;
  return *hash;
}

}  // namespace outrider
