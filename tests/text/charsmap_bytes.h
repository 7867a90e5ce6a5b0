// Writes the normalisation table of a SentencePiece model, for tests.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace outrider {

// The double array of Darts-clone, laid out by first fit.
class CharsmapBytes {
 public:
  explicit CharsmapBytes(const std::map<std::string, std::string>& replacements) {
    std::map<std::string, uint32_t> offsets;
    for (const auto& [key, replacement] : replacements) {
      offsets[key] = static_cast<uint32_t>(replacements_.size());
      replacements_ += replacement + '\0';
    }
    units_.resize(1);
    used_.insert(0);
    Place(0, offsets, 0);
  }

  std::string bytes() const {
    std::string out;
    const auto append = [&out](uint32_t number) {
      for (int shift = 0; shift < 32; shift += 8)
        out.push_back(static_cast<char>(number >> shift & 0xFF));
    };
    append(static_cast<uint32_t>(units_.size() * 4));
    for (const uint32_t unit : units_) append(unit);
    return out + replacements_;
  }

 private:
  static constexpr uint32_t kLeaf = 0x100;

  // Gives the node in units_[at] its children: `keys` share the first `depth` bytes.
  void Place(size_t at, const std::map<std::string, uint32_t>& keys, size_t depth) {
    std::map<unsigned char, std::map<std::string, uint32_t>> children;  // label 0: a key ends here
    for (const auto& [key, value] : keys) {
      children[key.size() == depth ? 0 : static_cast<unsigned char>(key[depth])][key] = value;
    }
    const size_t base = FreeBase(children);
    units_[at] |= static_cast<uint32_t>(at ^ base) << 10 | (children.contains(0) ? kLeaf : 0);
    for (const auto& [label, rest] : children) {
      const size_t child = base ^ label;
      if (child >= units_.size()) units_.resize(child + 1);
      used_.insert(child);
      units_[child] = label == 0 ? 0x80000000 | rest.begin()->second : label;
    }
    for (const auto& [label, rest] : children) {
      if (label != 0) Place(base ^ label, rest, depth + 1);
    }
  }

  template <typename Children>
  size_t FreeBase(const Children& children) {
    for (size_t base = 1;; ++base) {
      bool free =
          bases_.insert(base).second;  // two nodes on one base would see each other's children
      for (const auto& [label, rest] : children) free = free && !used_.contains(base ^ label);
      if (free) return base;
    }
  }

  std::vector<uint32_t> units_;
  std::set<size_t> used_, bases_;
  std::string replacements_;
};

}  // namespace outrider
