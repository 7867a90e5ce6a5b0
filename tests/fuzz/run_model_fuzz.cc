// A model of any family and any type whose file was spoilt somewhere is refused with a sentence, or
// opens, and is then inspected as `outrider inspect` does and runs three tokens, or says why not.
//
// The first byte chooses the family, the second the type and whether it lies in panels, as `outrider
// convert --flash` writes it; then come edits of a small random model of these (spoiling.h).
// tests/fuzz/campaign --runs 20000 run_model spoils so many files, of every family and type alike.
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <tuple>

#include "tests/fuzz/model_trial.h"
#include "tests/fuzz/spoiling.h"
#include "tests/model/random_model.h"

namespace outrider {
namespace {

constexpr std::array kFamilies = {
    "llama",    "mistral",   "qwen2",    "qwen3",   "gpt2",    "mixtral", "qwen3moe",   "olmoe",
    "gemma",    "gemma2",    "gemma3",   "phi3",    "smollm3", "granite", "granitemoe", "olmo2",
    "stablelm", "stablelm2", "qwen2moe", "cohere2", "exaone4", "gptoss",  "ministral3"};

constexpr std::array kTypes = {
    TensorType::kF32,     TensorType::kF16,    TensorType::kBF16,   TensorType::kQ8_0,
    TensorType::kQ4_0,    TensorType::kQ4_1,   TensorType::kQ5_0,   TensorType::kQ5_1,
    TensorType::kQ2_K,    TensorType::kQ3_K,   TensorType::kQ4_K,   TensorType::kQ5_K,
    TensorType::kQ6_K,    TensorType::kIQ4_NL, TensorType::kIQ4_XS, TensorType::kMXFP4,
    TensorType::kIQ2_XXS, TensorType::kIQ2_XS, TensorType::kIQ2_S,  TensorType::kIQ3_XXS,
    TensorType::kIQ3_S,   TensorType::kIQ1_S,  TensorType::kIQ1_M,  TensorType::kTQ1_0,
    TensorType::kTQ2_0};

std::string ReadBytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Small enough that there are many of them.
Hyperparameters Shrunk(Hyperparameters model) {
  if (model.experts.count > 0) {
    model.experts.count = std::min(model.experts.count, 5u);
    model.experts.used_count = std::min(model.experts.used_count, 2u);
  }
  model.feed_forward_length = std::min(model.feed_forward_length, 256u);
  model.vocabulary_size = 48;
  return model;
}

const WholeFile& WholeModel(const char* family, TensorType type, bool in_panels,
                            const std::string& folder) {
  static auto& made = *new std::map<std::tuple<std::string, TensorType, bool>, WholeFile>;
  WholeFile& whole = made[{family, type, in_panels}];
  if (!whole.bytes.empty()) return whole;
  const std::string path = folder + "/whole.gguf";
  WriteRandomModel(Shrunk(SmallModel(family)), type, path);
  if (in_panels) ConvertForFlash(**ModelFile::Open(path), path);
  whole = WholeGguf(ReadBytes(path));
  std::filesystem::remove(path);  // else a model inspected beside it has a draft
  return whole;
}

}  // namespace
}  // namespace outrider

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t size_max,
                                          unsigned int seed) {
  return outrider::MutateSpoilt(data, size, size_max, seed);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace outrider;
  if (size < 2) return 0;
  static const auto& folder = *new std::string(TrialFolder("run_model_fuzz"));
  std::filesystem::create_directories(folder);
  const WholeFile& whole =
      WholeModel(kFamilies[data[0] % kFamilies.size()], kTypes[data[1] % kTypes.size()],
                 data[1] / kTypes.size() % 2 == 1, folder);
  const std::string bytes = Spoilt(whole, data, size, 2);
  const std::string path = folder + "/model.gguf";
  std::ofstream(path, std::ios::binary)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  TryModel(path);
  std::filesystem::remove_all(folder);
  return 0;
}
