// What one layer keeps of a sequence, as data: memory_layout.h finds places for it, whoever computes
// the layer (layers/mixer.h) fills them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace outrider {

struct AttentionCells {
  uint32_t kv_head_count;
  uint32_t key_length;  // of one head
  uint32_t value_length;
  std::optional<uint32_t> window;  // a row sees so many, its own the last

  bool operator==(const AttentionCells&) const = default;
};

// How a recurrent state takes in one row after another. A state is in parts (heads, say) that know
// nothing of each other.
class StateRule {
 public:
  virtual ~StateRule() = default;

  // `input` is the row's, of all parts. The same bits whoever calls it, in a pass or in a replay.
  virtual void Advance(uint32_t part, std::span<float> state,
                       std::span<const float> input) const = 0;
};

// The state of no tokens is all zeros.
struct RecurrentState {
  uint32_t part_count;
  uint32_t part_length;
  uint32_t input_length;
  const StateRule* rule;  // outlives the layout

  bool operator==(const RecurrentState&) const = default;
};

struct ConvolutionTail {
  uint32_t kernel;  // a row sees so many inputs, its own the last
  uint32_t input_length;

  bool operator==(const ConvolutionTail&) const = default;
};

struct LayerKeeps {
  std::optional<AttentionCells> attention = {};
  std::optional<uint32_t> attention_of = {};  // a layer further down, whose cells it looks at
  std::optional<RecurrentState> recurrent = {};
  std::optional<ConvolutionTail> convolution = {};
  std::optional<AttentionCells> encoder = {};  // without a window

  bool operator==(const LayerKeeps&) const = default;
};

}  // namespace outrider
