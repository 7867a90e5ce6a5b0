// Any bytes at all are a GGUF file that opens, or an error; and whatever opens can be read to the
// last element of the last array.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "common/base/check.h"
#include "common/formats/containers/gguf_file.h"

using outrider::GgufFile;
using outrider::GgufKeyValue;
using outrider::GgufTensor;

namespace {

// Keeps reads of views from being optimised away.
volatile uint64_t sink;

void Touch(std::span<const std::byte> bytes) {
  uint64_t sum = 0;
  for (const std::byte byte : bytes) sum += std::to_integer<uint64_t>(byte);
  sink = sum;
}

void ReadValue(const GgufFile& file, const GgufKeyValue& entry) {
  OUTRIDER_CHECK(file.Find(entry.key) == &entry.value, "every key is found, and once");
  (void)file.GetUint(entry.key);
  (void)file.GetFloat(entry.key);
  (void)file.GetBool(entry.key);
  (void)file.GetUints(entry.key);
  (void)file.GetInts(entry.key);
  (void)file.GetFloats(entry.key);
  if (const auto text = file.GetString(entry.key); text.ok()) {
    Touch(std::as_bytes(std::span(*text)));
  }
  if (const auto texts = file.GetStrings(entry.key); texts.ok()) {
    for (const std::string_view text : *texts) Touch(std::as_bytes(std::span(text)));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::StatusOr<GgufFile> file =
      GgufFile::Parse(std::as_bytes(std::span(data, size)), "fuzzed.gguf");
  if (!file.ok()) return 0;
  for (const GgufKeyValue& entry : file->metadata()) ReadValue(*file, entry);
  for (const GgufTensor& tensor : file->tensors()) {
    OUTRIDER_CHECK(file->FindTensor(tensor.name) == &tensor, "every tensor is found, and once");
    Touch(*file->ReadBytes(tensor));
  }
  return 0;
}
