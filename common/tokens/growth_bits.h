// Growth on its way from a device to a verifier: some seventeen bits for each node, since a device
// far away drafts tens of nodes for every token of text, on an uplink that is not wide.
//
//   how many    G4
//   width - 1   5 bits: of the tokens that are told by their number, as many as the largest takes
//   each node   step    G1: from the parent of the node before it (of the first: the root) to its own,
//                       as ParentAfter() has it
//               doubt   G1: of this edge (sketch.h)
//               token   1 and G4: its place among those told of late (ToldTokens), or
//                       0 and width bits: its number
//   zeros       to the end of the byte
//
// Bits go from the highest of a byte to the lowest. Gk is the code of Golomb's that numbers of any
// size have: v + 2^k has n + k + 1 bits; n ones and a zero say how many, and all but the first of them
// follow. (Of the demonstration family, at a round trip of 60 ms, steps take some 5.4 bits, doubts 3.0
// and tokens 8.5 instead of 12. Parents rise within a batch: told by how far each is above its child
// they took half a bit more.)
//
// Nodes are written as they are; what they mean is the sketch's to know. No growth is no bytes.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace outrider {

struct GrownNode {
  uint32_t step;
  uint32_t doubt;
  uint32_t token;

  bool operator==(const GrownNode&) const = default;
};

// The different tokens that growth of an epoch has told of late, the newest first. Both sides keep
// them, and a draft says the same few hundred tokens in place after place. Where a token stands
// depends on those after it alone: who writes may forget what he told, or never look.
class ToldTokens {
 public:
  static constexpr uint32_t kCountMax = 256;

  // An epoch begins.
  void Clear() { count_ = 0; }
  // From 0, the newest, on. nullopt: it is not among them.
  std::optional<uint32_t> PlaceOf(uint32_t token) const;
  // nullopt: there are not so many.
  std::optional<uint32_t> At(uint32_t place) const;
  // It is the newest from now on.
  void Tell(uint32_t token);

 private:
  uint32_t count_ = 0;
  std::array<uint32_t, kCountMax> tokens_;
};

// From `parent`, that of the node before, to that of node `id`: 0, the same. Beside the root's
// children it is `id` less its parent. Beside others' they are near each other: 1, 3, 5 are the one,
// two, three after `parent`, and 2, 4, 6 those before it. Where this gives 0 or less it is the root.
uint32_t ParentAfter(uint32_t parent, uint32_t step, uint32_t id);
uint32_t StepBetween(uint32_t parent, uint32_t next_parent, uint32_t id);

// In place of what `bytes` held.
void WriteGrowthBits(std::span<const GrownNode> nodes, ToldTokens& told, std::string& bytes);

// One pass over bytes that anybody may have sent. They must outlive it.
class GrowthReader {
 public:
  explicit GrowthReader(std::string_view bytes);

  // What the bytes say, to be looked at before they are believed.
  uint32_t node_count() const { return node_count_; }
  // As many times as there are nodes. InvalidArgument: the bytes end before, or say no uint32, or a
  // token by a place where none is.
  absl::StatusOr<GrownNode> Next(ToldTokens& told);
  // After the last of them. InvalidArgument: something else follows, or not even the number of nodes
  // could be read.
  absl::Status End() const;

 private:
  uint32_t Bits(uint32_t count);
  uint32_t Golomb(uint32_t k);

  const std::string_view bytes_;
  size_t at_ = 0;  // in bits
  bool is_bad_ = false;
  uint32_t node_count_ = 0;
  uint32_t width_ = 1;
};

}  // namespace outrider
