// Writes a GGUF v3 file: metadata and the tensor list first, then the tensors' bytes in that order,
// laid out as llama.cpp demands (GGUF.md).
//
//   GgufWriter writer(4096);                                   // general.alignment
//   writer.AddString("general.architecture", "llama");
//   OUTRIDER_RETURN_IF_ERROR(writer.AddTensor("token_embd.weight", TensorType::kQ8_0, dims));
//   OUTRIDER_RETURN_IF_ERROR(writer.Begin("out.gguf"));        // the header is written
//   OUTRIDER_RETURN_IF_ERROR(writer.Write(chunk));             // every tensor in order, in chunks
//   ...                                                        // of any size
//   OUTRIDER_RETURN_IF_ERROR(writer.Commit());                 // synced, renamed into place
//
// The padding between tensors is the writer's business: chunks hold the tensors' bytes alone, and
// one chunk may end one tensor and begin the next.
//
// The output appears under its name complete or not at all: bytes go to a partial file beside it
// (base/atomic_file.h), which the destructor removes if Commit() was never reached.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "common/formats/containers/gguf_format.h"
#include "common/formats/containers/gguf_value.h"
#include "common/formats/tensors/panels.h"
#include "common/formats/tensors/tensor_type.h"

namespace outrider {

class GgufWriter {
 public:
  // `alignment` must be a power of two of at least 8; anything but 32 is recorded as
  // general.alignment.
  explicit GgufWriter(uint64_t alignment = kGgufDefaultAlignment);
  ~GgufWriter();
  GgufWriter(const GgufWriter&) = delete;
  GgufWriter& operator=(const GgufWriter&) = delete;

  // Metadata, in the order given. Setting a key again replaces its value where it stands. Keys that
  // describe how a file is laid out (general.alignment, split.*) are the writer's own: setting them
  // does nothing, so all of another file's metadata can be copied.
  void AddUint32(std::string_view key, uint32_t value);
  void AddUint64(std::string_view key, uint64_t value);
  void AddFloat32(std::string_view key, float value);
  void AddBool(std::string_view key, bool value);
  void AddString(std::string_view key, std::string_view value);
  void AddStrings(std::string_view key, std::span<const std::string> values);
  void AddUint32s(std::string_view key, std::span<const uint32_t> values);
  void AddBools(std::string_view key, const std::vector<bool>& values);
  void AddInt32s(std::string_view key, std::span<const int32_t> values);
  void AddFloat32s(std::string_view key, std::span<const float> values);
  void AddBytes(std::string_view key, std::string_view values);  // an array of u8
  // A value as another file holds it, type and all.
  void AddCopy(std::string_view key, const GgufValue& value);

  // A u64 that is known only when the tensors have been written: SetLate() gives it its value, once,
  // before Commit().
  void AddLateUint64(std::string_view key) { AddUint64(key, 0); }
  absl::Status SetLate(std::string_view key, uint64_t value);

  // InvalidArgument, naming the tensor, when the name is taken or 64 bytes or longer, or type, dims
  // and layout do not fit.
  absl::Status AddTensor(std::string_view name, TensorType type, std::span<const uint64_t> dims,
                         WeightLayout layout = WeightLayout::kRows);

  // InvalidArgument when the metadata holds what no reader would take: an empty key or one of more
  // than 65535 bytes, a string or an array of more than 2^30.
  absl::Status Begin(const std::string& path);
  absl::Status Write(std::span<const std::byte> bytes);
  // InvalidArgument when the bytes written are not exactly those of the tensors added.
  absl::Status Commit();

 private:
  struct Output;
  struct Pending;
  Pending& pending();

  std::unique_ptr<Pending> pending_;  // metadata and tensor list, until Begin()
  std::unique_ptr<Output> output_;    // the partial file, from Begin() to Commit()
};

}  // namespace outrider
