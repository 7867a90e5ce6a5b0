// Models of random weights, small enough to run in milliseconds and wide enough for every element
// type: one GGUF file for any architecture and type, the same bytes every time.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "common/formats/models/hyperparameters.h"
#include "common/formats/models/model_file.h"
#include "common/formats/tensors/tensor_type.h"

namespace outrider {

// "llama" (grouped heads, llama3 scaling), "mistral" (window of 24), "ministral3" (queries that grow
// every 20 positions), "qwen2" (yarn), "qwen3" (tied), "gpt2", "mixtral" (2 of 5 experts),
// "qwen3moe" (4 of 12), "olmoe" (8 of 20, with weights as they are), "gemma", "gemma2", "gemma3",
// "cohere2" and "exaone4" (windows of 24 and layers that see everything), "phi3" (longrope),
// "smollm3", "granite", "granitemoe" (4 of 12), "olmo2", "stablelm", "stablelm2" (parallel layers,
// norms of each head), "qwen2moe" (4 of 12 and a shared one), "gptoss" (4 of 12, windows of 24): two
// to four layers, widths of 256 and 512, a vocabulary of 200, a context of 160.
Hyperparameters SmallModel(const std::string& family);
// Of so many layers, like those it has.
Hyperparameters SmallModel(const std::string& family, uint32_t block_count);

// Matrices are of `type`; norms, biases, tables and routers are F32.
void WriteRandomModel(const Hyperparameters& model, TensorType type, const std::string& path);
// Each of a type of its own.
void WriteRandomModel(const Hyperparameters& model,
                      const std::function<TensorType(std::string_view tensor)>& type_of,
                      const std::string& path);

// The same model as `outrider convert --flash` writes it.
void ConvertForFlash(const ModelFile& model, const std::string& path);

}  // namespace outrider
