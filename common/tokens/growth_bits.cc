#include "common/tokens/growth_bits.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <optional>
#include <span>

#include "common/base/status.h"

namespace outrider {
namespace {

constexpr uint32_t kCountBits = 4;
constexpr uint32_t kWidthBits = 5;
constexpr uint32_t kStepBits = 1;
constexpr uint32_t kDoubtBits = 1;
constexpr uint32_t kPlaceBits = 4;

class BitWriter {
 public:
  explicit BitWriter(std::string& bytes) : bytes_(bytes) { bytes_.clear(); }

  void Bits(uint64_t value, uint32_t count) {
    while (count-- > 0) {
      if (used_ == 0) bytes_.push_back(0);
      const auto bit = static_cast<uint8_t>(value >> count & 1);
      bytes_.back() = static_cast<char>(static_cast<uint8_t>(bytes_.back()) | bit << (7 - used_));
      used_ = (used_ + 1) % 8;
    }
  }

  void Golomb(uint32_t value, uint32_t k) {
    const uint64_t shifted = uint64_t{value} + (uint64_t{1} << k);
    const auto more = static_cast<uint32_t>(std::bit_width(shifted)) - 1 - k;
    Bits((uint64_t{1} << (more + 1)) - 2, more + 1);  // ones and a zero
    Bits(shifted, more + k);
  }

 private:
  std::string& bytes_;
  uint32_t used_ = 0;  // of the last byte
};

// Of the tokens that are told by their number: those that were not told before, and those that the
// ones of this growth may push out of the list.
uint32_t LargestToTell(std::span<const GrownNode> nodes, const ToldTokens& told) {
  uint32_t largest = 1;
  for (uint32_t before = 0; const GrownNode& node : nodes) {
    const std::optional<uint32_t> place = told.PlaceOf(node.token);
    const bool stays = place && *place + before < ToldTokens::kCountMax;
    if (!stays) largest = std::max(largest, node.token);
    ++before;
  }
  return largest;
}

}  // namespace

std::optional<uint32_t> ToldTokens::PlaceOf(uint32_t token) const {
  const auto told = std::span(tokens_).first(count_);
  const auto at = std::ranges::find(told, token);
  if (at == told.end()) return std::nullopt;
  return static_cast<uint32_t>(at - told.begin());
}

std::optional<uint32_t> ToldTokens::At(uint32_t place) const {
  if (place >= count_) return std::nullopt;
  return tokens_[place];
}

void ToldTokens::Tell(uint32_t token) {
  const std::optional<uint32_t> place = PlaceOf(token);
  if (!place) count_ = std::min(count_ + 1, kCountMax);
  // A new one takes a new place, or that of the oldest, which goes.
  const auto first = tokens_.begin();
  const uint32_t newer = place.value_or(count_ - 1);
  std::copy_backward(first, first + newer, first + newer + 1);
  tokens_.front() = token;
}

uint32_t ParentAfter(uint32_t parent, uint32_t step, uint32_t id) {
  if (step == 0) return parent;
  if (parent == 0) return step < id ? id - step : 0;
  const uint32_t distance = step / 2 + step % 2;
  if (step % 2 == 0) return distance < parent ? parent - distance : 0;
  // The node itself is as wrong as what is further, and is no smaller number.
  return static_cast<uint32_t>(std::min<uint64_t>(uint64_t{parent} + distance, id));
}

uint32_t StepBetween(uint32_t parent, uint32_t next_parent, uint32_t id) {
  if (next_parent == parent) return 0;
  if (parent == 0) return id - next_parent;
  return next_parent > parent ? 2 * (next_parent - parent) - 1 : 2 * (parent - next_parent);
}

void WriteGrowthBits(std::span<const GrownNode> nodes, ToldTokens& told, std::string& bytes) {
  BitWriter out(bytes);
  if (nodes.empty()) return;
  const auto width = static_cast<uint32_t>(std::bit_width(LargestToTell(nodes, told)));
  out.Golomb(static_cast<uint32_t>(nodes.size()), kCountBits);
  out.Bits(width - 1, kWidthBits);
  for (const GrownNode& node : nodes) {
    out.Golomb(node.step, kStepBits);
    out.Golomb(node.doubt, kDoubtBits);
    const std::optional<uint32_t> place = told.PlaceOf(node.token);
    out.Bits(place ? 1 : 0, 1);
    if (place) {
      out.Golomb(*place, kPlaceBits);
    } else {
      out.Bits(node.token, width);
    }
    told.Tell(node.token);
  }
}

GrowthReader::GrowthReader(std::string_view bytes) : bytes_(bytes) {
  if (bytes_.empty()) return;
  node_count_ = Golomb(kCountBits);
  width_ = 1 + Bits(kWidthBits);
}

// Zero bits behind the end.
uint32_t GrowthReader::Bits(uint32_t count) {
  uint32_t value = 0;
  while (count-- > 0) {
    const size_t byte = at_ / 8;
    is_bad_ = is_bad_ || byte >= bytes_.size();
    const uint32_t bit = is_bad_ ? 0 : static_cast<uint8_t>(bytes_[byte]) >> (7 - at_ % 8) & 1;
    value = value << 1 | bit;
    ++at_;
  }
  return value;
}

uint32_t GrowthReader::Golomb(uint32_t k) {
  uint32_t more = 0;
  while (more + k <= 32 && Bits(1) == 1) ++more;
  if (more + k > 32) {
    is_bad_ = true;
    return 0;
  }
  const uint64_t shifted = uint64_t{1} << (more + k) | Bits(more + k);
  const uint64_t value = shifted - (uint64_t{1} << k);
  is_bad_ = is_bad_ || value > std::numeric_limits<uint32_t>::max();
  return static_cast<uint32_t>(value);
}

absl::StatusOr<GrownNode> GrowthReader::Next(ToldTokens& told) {
  const uint32_t step = Golomb(kStepBits);
  const uint32_t doubt = Golomb(kDoubtBits);
  const bool is_by_place = Bits(1) != 0;
  const uint32_t word = is_by_place ? Golomb(kPlaceBits) : Bits(width_);
  const std::optional<uint32_t> token = is_by_place ? told.At(word) : word;
  if (is_bad_) {
    return InvalidArgument("growth of ", node_count_, " nodes has ", bytes_.size(),
                           " bytes, which end before its last node");
  }
  if (!token) {
    return InvalidArgument("growth names a token by its place ", word,
                           " among those told of late, ", "and there are not so many");
  }
  told.Tell(*token);
  return GrownNode{step, doubt, *token};
}

absl::Status GrowthReader::End() const {
  const size_t used = (at_ + 7) / 8;
  if (!is_bad_ && used == bytes_.size()) return absl::OkStatus();
  if (is_bad_) return InvalidArgument("growth of ", bytes_.size(), " bytes has no number of nodes");
  return InvalidArgument("growth of ", node_count_, " nodes ends after ", used, " of its ",
                         bytes_.size(), " bytes");
}

}  // namespace outrider
