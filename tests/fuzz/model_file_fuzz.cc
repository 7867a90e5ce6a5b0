// Any bytes at all are a model that opens, or an error: as a GGUF file, or as the three files of a
// Hugging Face directory (config.json, tokenizer.json, model.safetensors). What opens is read to
// the last row of every tensor, its tokenizer encodes, and what a converted file would say of it
// can be said.
//
// The first byte: 0 for GGUF, which follows. Anything else: two lengths of two bytes, low one
// first, then config.json and tokenizer.json of so many bytes, then the rest.
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/check.h"
#include "common/formats/containers/gguf_writer.h"
#include "common/formats/models/model_file.h"
#include "common/formats/tensors/dequantize.h"
#include "common/text/tokenizer.h"

namespace outrider {
namespace {

// Files in memory where there is such a file system.
const std::string& Place() {
  static const auto& place = *new std::string([] {
    const char* const shared = "/dev/shm";
    const std::string root = std::filesystem::is_directory(shared) ? shared : "/tmp";
    return root + "/outrider_model_file_fuzz." + std::to_string(getpid());
  }());
  return place;
}

void Write(const std::string& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

std::string WriteModel(std::string_view bytes) {
  std::filesystem::remove_all(Place());
  std::filesystem::create_directories(Place());
  const bool is_gguf = bytes[0] == 0;
  bytes.remove_prefix(1);
  if (is_gguf) {
    Write(Place() + "/model.gguf", bytes);
    return Place() + "/model.gguf";
  }
  const auto take = [&](size_t length) {
    const std::string_view taken = bytes.substr(0, length);
    bytes.remove_prefix(taken.size());
    return taken;
  };
  const auto length = [&]() -> size_t {
    const std::string_view two = take(2);
    if (two.size() < 2) return 0;
    return static_cast<unsigned char>(two[0]) | static_cast<unsigned char>(two[1]) << 8;
  };
  const size_t config = length(), tokenizer = length();
  Write(Place() + "/config.json", take(config));
  if (tokenizer > 0) Write(Place() + "/tokenizer.json", take(tokenizer));
  Write(Place() + "/model.safetensors", bytes);
  return Place();
}

void ReadTensor(const ModelFile& model, const ModelTensor& tensor) {
  OUTRIDER_CHECK(model.Find(tensor.name) == &tensor, "every tensor is found, and once");
  std::vector<std::byte> row(RowBytes(tensor.type, tensor.dims[0]));
  std::vector<float> values(tensor.dims[0]);
  for (uint64_t i = 0; i < tensor.row_count(); ++i) {
    OUTRIDER_CHECK(model.ReadRows(tensor, i, 1, row).ok(), "what a tensor says is there is there");
    if (CanDequantize(tensor.type)) OUTRIDER_CHECK_OK(Dequantize(tensor.type, row, values));
  }
}

void Check(const std::string& path) {
  const absl::StatusOr<std::unique_ptr<ModelFile>> model = ModelFile::Open(path);
  if (!model.ok()) return;
  const Hyperparameters& numbers = (*model)->hyperparameters();
  OUTRIDER_CHECK(numbers.vocabulary_size > 0 && numbers.embedding_length > 0, "no size is zero");
  OUTRIDER_CHECK(numbers.head_count.size() == numbers.total_block_count(), "every block has heads");
  for (const ModelTensor& tensor : (*model)->tensors()) ReadTensor(**model, tensor);
  GgufWriter writer;
  (void)(*model)->AddMetadata(writer);
  absl::StatusOr<TokenizerSpec> spec = (*model)->ReadTokenizer();
  if (!spec.ok()) return;
  const auto tokenizer = Tokenizer::Create(*std::move(spec));
  if (tokenizer.ok()) (void)(*tokenizer)->Encode("Once upon a time\n 123 é語");
}

}  // namespace
}  // namespace outrider

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace outrider;
  if (size == 0) return 0;
  Check(WriteModel({reinterpret_cast<const char*>(data), size}));
  std::filesystem::remove_all(Place());
  return 0;
}
