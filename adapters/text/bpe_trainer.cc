#include "adapters/text/bpe_trainer.h"

#include <algorithm>
#include <array>
#include <queue>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "adapters/text/text_file.h"
#include "common/base/status.h"
#include "common/formats/tokenizers/byte_alphabet.h"
#include "common/text/pre_tokenizer.h"

namespace outrider {
namespace {

// A pair that occurs once says nothing about language.
constexpr int64_t kLeastCount = 2;

using Pair = std::pair<TokenId, TokenId>;

// A distinct piece, as the tokens it is made of by now.
struct Piece {
  std::vector<TokenId> tokens;
  int64_t count;
};

// The bytes in the order in which their printable spellings sort.
std::array<unsigned char, 256> AlphabetOrder() {
  std::array<unsigned char, 256> bytes;
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<unsigned char>(i);
  const auto spelled = [](unsigned char byte) {
    return SpellBytes(std::string(1, static_cast<char>(byte)));
  };
  std::ranges::sort(bytes, {}, spelled);
  return bytes;
}

TokenizerSpec WithBytes() {
  TokenizerSpec spec;
  spec.model = TokenizerSpec::Model::kByteLevelBpe;
  spec.pre_tokenizer = BpeTrainer::kPreTokenizer;
  spec.tokens.push_back({.text = std::string(kEndOfText), .kind = TokenKind::kControl});
  spec.added_tokens.push_back({.id = 0, .text = std::string(kEndOfText), .special = true});
  spec.bos = spec.eos = 0;
  spec.add_bos = true;
  for (const unsigned char byte : AlphabetOrder()) {
    spec.tokens.push_back({.text = std::string(1, static_cast<char>(byte))});
  }
  return spec;
}

// How often each pair occurs, and in which pieces. The heap may hold stale counts; what is popped
// is held against the true one.
class PairCounts {
 public:
  struct Entry {
    int64_t count;
    Pair pair;
    // The heap's top: most frequent, then of lowest ids.
    bool operator<(const Entry& other) const {
      return count != other.count ? count < other.count : pair > other.pair;
    }
  };

  void Change(const Pair& pair, int64_t by, uint32_t piece) {
    Occurrences& found = occurrences_[pair];
    found.count += by;
    if (by > 0 && (found.pieces.empty() || found.pieces.back() != piece)) {
      found.pieces.push_back(piece);
      changed_.push_back(pair);
    }
  }

  // Puts what has grown since the last call on the heap.
  void Settle() {
    std::ranges::sort(changed_);
    changed_.erase(std::unique(changed_.begin(), changed_.end()), changed_.end());
    for (const Pair& pair : changed_) {
      const int64_t count = occurrences_[pair].count;
      if (count >= kLeastCount) heap_.push({count, pair});
    }
    changed_.clear();
  }

  // The most frequent pair and the pieces that hold it (some may no longer); false when none occurs
  // often enough.
  bool Pop(Pair& pair, std::vector<uint32_t>& pieces) {
    while (!heap_.empty()) {
      const Entry top = heap_.top();
      heap_.pop();
      const auto found = occurrences_.find(top.pair);
      if (found == occurrences_.end() || found->second.count < kLeastCount) continue;
      if (found->second.count != top.count) {
        heap_.push({found->second.count, top.pair});
        continue;
      }
      pair = top.pair;
      pieces = std::move(found->second.pieces);
      occurrences_.erase(found);
      return true;
    }
    return false;
  }

 private:
  struct Occurrences {
    int64_t count = 0;
    std::vector<uint32_t> pieces;
  };

  absl::flat_hash_map<Pair, Occurrences> occurrences_;
  std::vector<Pair> changed_;
  std::priority_queue<Entry> heap_;
};

// Replaces every `pair` of the piece by `joined`, leftmost first, and counts what that changes.
void MergeIn(Piece& piece, uint32_t index, const Pair& pair, TokenId joined, PairCounts& counts) {
  std::vector<TokenId>& tokens = piece.tokens;
  for (size_t i = 0; i + 1 < tokens.size(); ++i) {
    if (tokens[i] != pair.first || tokens[i + 1] != pair.second) continue;
    if (i > 0) {
      counts.Change({tokens[i - 1], pair.first}, -piece.count, index);
      counts.Change({tokens[i - 1], joined}, piece.count, index);
    }
    if (i + 2 < tokens.size()) {
      counts.Change({pair.second, tokens[i + 2]}, -piece.count, index);
      counts.Change({joined, tokens[i + 2]}, piece.count, index);
    }
    tokens[i] = joined;
    tokens.erase(tokens.begin() + static_cast<ptrdiff_t>(i) + 1);
  }
}

}  // namespace

void BpeTrainer::Add(std::string_view document) {
  ForEachPiece(kPreTokenizer, document, [&](std::string_view piece) {
    const auto found = counts_.find(piece);
    if (found != counts_.end()) {
      ++found->second;
    } else {
      counts_.emplace(piece, 1);
    }
  });
}

absl::StatusOr<TokenizerSpec> BpeTrainer::Train(size_t vocabulary_size) const {
  if (vocabulary_size < kSmallestVocabulary || vocabulary_size > kLargestVocabulary) {
    return InvalidArgument("a vocabulary of ", vocabulary_size, " tokens: expected ",
                           kSmallestVocabulary, " (the bytes and ", kEndOfText, ") to ",
                           kLargestVocabulary);
  }
  TokenizerSpec spec = WithBytes();
  std::array<TokenId, 256> id_of_byte{};
  absl::flat_hash_map<std::string, TokenId> ids;
  for (size_t id = 1; id < spec.tokens.size(); ++id) {
    id_of_byte[static_cast<unsigned char>(spec.tokens[id].text[0])] = static_cast<TokenId>(id);
    ids[spec.tokens[id].text] = static_cast<TokenId>(id);
  }

  std::vector<Piece> pieces;
  pieces.reserve(counts_.size());
  PairCounts counts;
  for (const auto& [text, count] : counts_) {
    const auto index = static_cast<uint32_t>(pieces.size());
    Piece& piece = pieces.emplace_back();
    piece.count = static_cast<int64_t>(count);
    for (const char c : text) piece.tokens.push_back(id_of_byte[static_cast<unsigned char>(c)]);
    for (size_t i = 0; i + 1 < piece.tokens.size(); ++i) {
      counts.Change({piece.tokens[i], piece.tokens[i + 1]}, piece.count, index);
    }
  }
  counts.Settle();

  absl::flat_hash_set<Pair> rules;
  Pair pair;
  std::vector<uint32_t> holders;
  while (spec.tokens.size() < vocabulary_size) {
    if (!counts.Pop(pair, holders)) {
      return InvalidArgument("the text has pairs for ", spec.tokens.size(), " tokens, and ",
                             vocabulary_size, " were asked for; give more text or ask for fewer");
    }
    // Two pairs may make the same text, "a"+"bc" and "ab"+"c"; the second may bring back a pair
    // that has its rule already.
    if (rules.insert(pair).second) spec.merges.push_back(pair);
    const std::string text = spec.tokens[static_cast<size_t>(pair.first)].text +
                             spec.tokens[static_cast<size_t>(pair.second)].text;
    const auto [place, is_new] = ids.emplace(text, static_cast<TokenId>(spec.tokens.size()));
    if (is_new) spec.tokens.push_back({.text = text});
    for (const uint32_t holder : holders) {
      MergeIn(pieces[holder], holder, pair, place->second, counts);
    }
    counts.Settle();
  }
  return spec;
}

}  // namespace outrider
