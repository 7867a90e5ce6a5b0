#include "common/text/bpe_model.h"

#include <cstddef>

namespace outrider {

namespace {

// Where in the ids the pieces merged so far ended up. The pieces are views into the text being
// encoded.
class MergedPieces {
 public:
  // Appends the ids of `piece` once more if they are known.
  bool Repeat(std::string_view piece, std::vector<TokenId>& ids) const {
    const auto it = places_.find(Key(piece));
    if (it == places_.end()) return false;
    const Place place = it->second;
    ids.reserve(ids.size() + place.count);  // then the range below stays where it is
    for (size_t i = 0; i < place.count; ++i) ids.push_back(ids[place.begin + i]);
    return true;
  }

  void Remember(std::string_view piece, size_t begin, size_t end) {
    if (places_.size() < kLimit) places_.emplace(Key(piece), Place{begin, end - begin});
  }

 private:
  static constexpr size_t kLimit = 1 << 16;  // 2.5 MB

  struct Place {
    size_t begin, count;
  };
  static absl::string_view Key(std::string_view text) { return {text.data(), text.size()}; }

  absl::flat_hash_map<absl::string_view, Place> places_;
};

}  // namespace

void BpeModel::Encode(std::string_view text, std::vector<TokenId>& ids) const {
  MergedPieces merged;
  std::vector<MergeTable::Symbol> symbols;
  ForEachPieceOf(text, [&](std::string_view piece) {
    const auto whole = lookup_.Find(piece);
    if (whole && (ignore_merges_ || whole_tokens_.Get(*whole) == WholeTokens::Answer::kYes)) {
      ids.push_back(*whole);
      return;
    }
    if (merged.Repeat(piece, ids)) return;
    const size_t begin = ids.size();
    MergePiece(piece, symbols, ids);
    merged.Remember(piece, begin, ids.size());
    if (whole) whole_tokens_.Set(*whole, ids.size() == begin + 1 && ids[begin] == *whole);
  });
}

}  // namespace outrider
