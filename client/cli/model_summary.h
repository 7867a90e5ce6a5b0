// What `outrider inspect` knows of a model: gathered once, printed as a table or as JSON.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cli/model_prospects.h"
#include "common/formats/models/exits_file.h"
#include "common/formats/models/hyperparameters.h"
#include "common/formats/models/model_file.h"
#include "common/formats/models/unsound_weights.h"
#include "common/formats/tensors/tensor_type.h"
#include "nlohmann/json_fwd.hpp"

namespace outrider {

struct TypeSummary {
  TensorType type;
  uint64_t tensor_count = 0;
  uint64_t element_count = 0;
  uint64_t bytes = 0;
};

// One block of the model, or what stands outside the blocks.
struct LayerSummary {
  std::string name;  // "blk.3", "enc.blk.0", "token_embd", "output"
  uint64_t tensor_count = 0;
  uint64_t bytes = 0;
  std::vector<TensorType> types;  // of its matrices, ascending, each once
};

struct TokenizerSummary {
  std::string model;  // "byte-level BPE"
  std::string pre_tokenizer;
  uint64_t token_count = 0;
  uint64_t merge_count = 0;
  uint64_t added_token_count = 0;
  std::vector<std::pair<std::string, std::string>> special_tokens;  // "bos" -> "<s> (1)"
  std::vector<std::string> chat_templates;
  uint64_t fingerprint = 0;
};

struct MemoryEstimate {
  uint64_t weight_bytes = 0;  // all tensors, resident as they are stored
  uint64_t kv_bytes = 0;      // f16 keys and values of `kv_tokens`
  uint64_t kv_tokens = 0;     // 0: what a token takes is not known
};

// A tensor with a weight that is no finite number, and its first one.
struct UnsoundTensor {
  std::string name;
  UnsoundWeight weight;
};

// What a file of an architecture that is not known here says of its shape, as far as it does.
struct RoughShape {
  std::optional<uint64_t> context_length;
  std::optional<uint64_t> block_count;
  std::optional<uint64_t> embedding_length;
};

struct ModelSummary {
  std::string path;
  std::string format;
  uint64_t file_count = 0;
  uint64_t file_bytes = 0;
  std::string architecture;
  std::string name;
  std::variant<Hyperparameters, RoughShape> shape;
  uint64_t parameter_count = 0;
  uint64_t tensor_count = 0;
  std::vector<TypeSummary> types;    // most bytes first
  std::vector<LayerSummary> layers;  // in execution order
  std::optional<TokenizerSummary> tokenizer;
  std::string tokenizer_trouble;  // why there is none though the files have one; else empty
  MemoryEstimate memory;
  std::vector<std::string> notices;  // ModelFile's
  ModelProspects prospects;
  std::optional<std::vector<UnsoundTensor>> unsound;  // nothing: weights have not been read
};

ModelSummary Summarize(const ModelFile& model, const std::string& path);

// Of a file that ModelFile::Open() has refused with `refusal`: what a GGUF file says of itself all
// the same. `refusal` again for what is none.
absl::StatusOr<ModelSummary> SummarizeRefused(const std::string& path, const absl::Status& refusal);

// So many bytes of all tensors are done with; the last of them was of `tensor`.
using TensorsRead = std::function<void(uint64_t done, std::string_view tensor)>;

// Reads all of the model.
absl::StatusOr<std::vector<UnsoundTensor>> FindUnsoundTensors(const ModelFile& model,
                                                              const std::string& path,
                                                              const TensorsRead& on_read);

std::string ToTable(const ModelSummary& summary);
nlohmann::ordered_json ToJson(const ModelSummary& summary);

// Of a file of exits at `path`.
std::string ToTable(const TrainedExits& exits, const std::string& path);
nlohmann::ordered_json ToJson(const TrainedExits& exits, const std::string& path);

}  // namespace outrider
