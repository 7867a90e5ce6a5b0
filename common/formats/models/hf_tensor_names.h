// What Hugging Face calls a tensor, what GGUF calls it, and how the one is made from the other.
// Tables only; hf_tensors.h puts them to work. Private to this room.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/formats/models/hyperparameters.h"

namespace outrider {

enum class HfTransform {
  kNone,
  kPairHalves,   // Llama's queries and keys, weights and biases (RowSource::Order)
  kTransposed,   // GPT-2's matrices; their biases are as they are
  kSkipTwoRows,  // BART's positions count from 2
  kVector,       // stored with a leading dimension of one
  kExpert,       // one expert's matrix of a stack
  kStacked,      // all experts in one, already GGUF's order
  kNormOfHead,   // one head's, of a stack
  kGateAndUp,    // all experts in one, each a gate's rows and then an up matrix's: two GGUF tensors
  // gpt-oss's experts, all in one: rows of gate and up by turns, which are two GGUF tensors; or those
  // of down. As they were trained (rows and columns exchanged, and biases), or as MXFP4's blocks.
  kTurns,
  kFloats,  // biases of down
  kTurnsTransposed,
  kTurnsBlocks,
  kStackTransposed,
  kStackBlocks,
  kScales,   // of blocks
  kPlusOne,  // Gemma's norms, which are stored as what they have more than one
  kCopy,     // stands in for a tensor shared under another name, when that is not in the file
  kIgnored,  // buffers that old checkpoints carry along, and what looks at images
};

// Where one stored tensor goes.
struct HfTarget {
  std::string name;  // in GGUF; empty when ignored
  HfTransform transform = HfTransform::kNone;
  uint32_t part = 0;  // of a stack: which expert's (kExpert), which head's (kNormOfHead)
};

// Whether a tensor is of the part that looks at images, which nothing here does.
bool IsOfImages(std::string_view hf_name);

// Empty for a name no table knows.
std::optional<HfTarget> FindHfTarget(Architecture architecture, std::string_view hf_name);

// The name a Hugging Face checkpoint usually has for a GGUF tensor, or for what holds it together
// with another; `gguf_name` itself when there is none. `packed`: its experts are MXFP4's blocks.
std::string UsualHfName(Architecture architecture, std::string_view gguf_name, bool packed);

}  // namespace outrider
