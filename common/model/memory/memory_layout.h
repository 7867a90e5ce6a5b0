// What each layer of a model keeps of a sequence, and where in a page it lies.
//
//   attention cells   keys and values of every token; or of the last `window` ones
//   a recurrent state its base, after the committed tokens, and of each row that is not committed
//                     yet what the row put in (its input): a few vectors, where a state is a matrix
//   a convolution     of every row the vector it put in; a row looks at the last `kernel` ones
//   encoder cells     keys and values of an encoder's tokens, fixed once they are written
//   nothing, or another layer's attention cells
//
// Layers that keep cells of the same span of tokens share a *group* of pages: one page of a group
// has kPageTokens slots of all its layers, so one page number serves them all.
//
//   page              [layer] [keys | values] [kv head] [slot] [length]      halves
//                     [layer] [slot] [length]                                floats
//   page of bases     [layer] [part] [length]                                floats
//
// Every piece begins on a cache line of its own. A recurrent layer's inputs are cells of a window
// of one: a row sees its own, and those above it that are not committed. So a commit replays the
// taken path from the inputs, by the very rule that computed the rows, and a tree of any shape can
// hang below one base.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "common/model/memory/layer_keeps.h"
#include "common/model/memory/ledger.h"
#include "common/model/model_spec.h"

namespace outrider {

std::vector<LayerKeeps> KeepsOf(const ModelSpec& spec);

// Where a layer's keys and values lie in the pages of a group.
struct HeadCells {
  uint32_t group;
  size_t at;  // of the first key head's keys, in halves from the page's beginning
  AttentionCells shape;

  // Where slot 0 begins, likewise.
  size_t keys_at(uint32_t kv_head) const {
    return at + size_t{kv_head} * kPageTokens * shape.key_length;
  }
  size_t values_at(uint32_t kv_head) const {
    return keys_at(shape.kv_head_count) + size_t{kv_head} * kPageTokens * shape.value_length;
  }
};

class MemoryLayout {
 public:
  // `encoder_length_max` is of cells that encoder layers look at.
  explicit MemoryLayout(std::span<const LayerKeeps> layers, uint32_t encoder_length_max = 0);
  explicit MemoryLayout(const ModelSpec& spec, uint32_t encoder_length_max = 0)
      : MemoryLayout(KeepsOf(spec), encoder_length_max) {}

  uint32_t layer_count() const { return static_cast<uint32_t>(keeps_.size()); }
  const LayerKeeps& keeps(uint32_t layer) const { return keeps_[layer]; }

  uint32_t group_count() const { return static_cast<uint32_t>(groups_.size()); }
  // Its page_count is for others to choose.
  const PageGroup& group(uint32_t group) const { return groups_[group].shape; }
  // Those that have cells come first.
  uint32_t cell_group_count() const { return cell_group_count_; }
  size_t page_bytes(uint32_t group) const { return groups_[group].page_bytes; }

  // What of a slot lies where in a page: `bytes` of slot s begin at `at` + s * `bytes`.
  struct Piece {
    size_t at;
    size_t bytes;
  };
  std::span<const Piece> pieces(uint32_t group) const { return groups_[group].pieces; }

  const HeadCells& attention(uint32_t layer) const { return places_[layer].attention; }
  const HeadCells& encoder(uint32_t layer) const { return places_[layer].encoder; }

  // Where slot 0 begins, in floats from the page's.
  size_t input_at(uint32_t layer) const { return places_[layer].input_at; }
  uint32_t convolution_group(uint32_t layer) const { return places_[layer].convolution_group; }
  size_t convolution_at(uint32_t layer) const { return places_[layer].convolution_at; }
  size_t base_at(uint32_t layer) const { return places_[layer].base_at; }

  // Of all recurrent layers, and of all that look at an encoder; none: there are no such layers.
  std::optional<uint32_t> input_group() const { return input_group_; }
  std::optional<uint32_t> base_group() const { return base_group_; }
  std::optional<uint32_t> encoder_group() const { return encoder_group_; }

 private:
  struct Group {
    PageGroup shape;
    size_t page_bytes = 0;
    std::vector<Piece> pieces;
  };
  struct Place {
    HeadCells attention;
    HeadCells encoder;
    size_t input_at;
    size_t base_at;
    uint32_t convolution_group;
    size_t convolution_at;
  };

  void AddCells(uint32_t layer);
  void AddFixed(uint32_t layer, uint32_t encoder_length_max);
  uint32_t WindowGroup(uint32_t window);
  uint32_t FixedGroup(std::optional<uint32_t>& group, uint32_t pages_each);
  HeadCells AddHeads(uint32_t group, const AttentionCells& cells);
  size_t AddPiece(uint32_t group, size_t bytes);

  std::vector<LayerKeeps> keeps_;  // by layer
  std::vector<Place> places_;      // by layer; what a layer lacks has none
  std::vector<Group> groups_;
  uint32_t cell_group_count_ = 0;
  std::optional<uint32_t> input_group_;
  std::optional<uint32_t> base_group_;
  std::optional<uint32_t> encoder_group_;
};

}  // namespace outrider
