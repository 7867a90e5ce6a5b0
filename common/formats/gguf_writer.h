// Writes a GGUF v3 file: metadata and the tensor list first, then the tensors' bytes in that order.
//
//   GgufWriter writer(4096);                                   // general.alignment
//   writer.AddString("general.architecture", "llama");
//   writer.AddTensor("token_embd.weight", TensorType::kQ8_0, {288, 32000});
//   OUTRIDER_RETURN_IF_ERROR(writer.Begin("out.gguf"));        // header written; from here on only
//   bytes OUTRIDER_RETURN_IF_ERROR(writer.Write(chunk)); ...         // every tensor in order, in
//   chunks of any size OUTRIDER_RETURN_IF_ERROR(writer.Commit());                 // padded,
//   fsynced, renamed into place
//
// The output appears under its name complete or not at all: bytes go to "<path>.<pid>.partial"
// beside it, Commit() syncs and renames, and the destructor removes the partial file if Commit()
// was never reached.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "common/formats/gguf_file.h"
#include "common/formats/tensor_type.h"

namespace outrider {

class GgufWriter {
 public:
  static constexpr uint64_t kDefaultAlignment = 32;

  // `alignment` must be a power of two; anything but 32 is recorded as general.alignment.
  explicit GgufWriter(uint64_t alignment = kDefaultAlignment);
  ~GgufWriter();
  GgufWriter(const GgufWriter&) = delete;
  GgufWriter& operator=(const GgufWriter&) = delete;

  // Metadata, in the order given. Setting a key again replaces its value.
  void AddUint32(std::string_view key, uint32_t value);
  void AddUint64(std::string_view key, uint64_t value);
  void AddInt32(std::string_view key, int32_t value);
  void AddFloat32(std::string_view key, float value);
  void AddBool(std::string_view key, bool value);
  void AddString(std::string_view key, std::string_view value);
  void AddStrings(std::string_view key, std::span<const std::string> values);
  void AddUint32s(std::string_view key, std::span<const uint32_t> values);
  void AddInt32s(std::string_view key, std::span<const int32_t> values);
  void AddFloat32s(std::string_view key, std::span<const float> values);
  void AddBytes(std::string_view key, std::string_view values);  // an array of u8
  // A value as another file holds it, byte for byte, arrays included.
  void AddCopy(std::string_view key, const GgufValue& value);

  // InvalidArgument when the name is taken or 64 bytes or longer, or the type and dims do not fit.
  absl::Status AddTensor(std::string_view name, TensorType type, std::span<const uint64_t> dims);

  absl::Status Begin(const std::string& path);
  absl::Status Write(std::span<const std::byte> bytes);
  // InvalidArgument when the bytes written are not exactly those of the tensors added.
  absl::Status Commit();

 private:
  struct Output;
  struct Pending;
  std::unique_ptr<Pending> pending_;  // metadata and tensor list, until Begin()
  std::unique_ptr<Output> output_;    // the partial file, from Begin() to Commit()
};

}  // namespace outrider
