// Drafts what the text has said before: where the last few tokens have occurred already, what
// followed them then is proposed now. Good at names, quotations, code and lists; costs next to
// nothing; knows nothing else.
//
//   ... the outrider rides ahead ... behind the outrider ?
//           \----- matches -----/                 \----/      proposes "rides"
//
// The text is the committed tokens and the drafted path below them. A place matches as many tokens
// as its ending has in common with the text's, kMatchMin to kMatchMax of them. Longer matches come
// first, of equally long ones the later place; every token is proposed once.
//
// How sure it is of a proposal is how often such a one was right: for each length of match and each
// rank, a mean over about the last hundred tokens of the reply for which there was one, begun as
// if a few had been seen.
//
// The index holds, for every place, the place before it that ends in the same kMatchMin tokens (by
// hash; matches are compared in full), so that growing and cutting the text are cheap at its end.
// At most kPlacesMax places are looked at, the latest ones.
//
// Memory:  12 to 20 bytes a token of capacity, taken when it is made.
// Threads: one call at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "common/speculation/drafting/drafter.h"
#include "common/tokens/token_history.h"

namespace outrider {

class NgramDrafter final : public Drafter {
 public:
  static constexpr uint32_t kMatchMin = 2;
  static constexpr uint32_t kMatchMax = 16;
  static constexpr uint32_t kPlacesMax = 64;
  static constexpr uint32_t kChildrenMax = 4;

  // For texts of at most `capacity` tokens; beyond that it proposes nothing.
  explicit NgramDrafter(uint32_t capacity);

  absl::Status Propose(const TokenHistory& committed, std::span<const DraftedNode> nodes,
                       std::span<const Context> contexts, Proposals& proposals,
                       const Cancellation& cancellation = Cancellation::Never()) override;

 private:
  static constexpr uint32_t kNone = UINT32_MAX;

  // The committed tokens, and then a drafted path.
  struct Text {
    std::span<const TokenId> committed;
    std::span<const TokenId> path;

    size_t size() const { return committed.size() + path.size(); }
    TokenId operator[](size_t i) const {
      return i < committed.size() ? committed[i] : path[i - committed.size()];
    }
  };

  struct Match {
    TokenId next;
    uint32_t length;
  };

  struct Record {
    double right;
    double count;
  };

  void Follow(const TokenHistory& committed);
  void Learn(TokenId token);
  void Append(TokenId token);
  void Truncate(size_t length);

  void FindMatches(const Text& text);
  void Consider(const Text& text, size_t place);
  size_t BucketOf(const Text& text, size_t end) const;
  void ListMatches(size_t count);

  const uint32_t capacity_;
  std::vector<TokenId> tokens_;     // committed
  std::vector<uint32_t> previous_;  // by place: the one before it in its bucket, or kNone
  std::vector<uint32_t> latest_;    // by bucket; a power of two of them
  std::vector<Match> matches_;      // of the last text looked at, in order
  std::vector<TokenId> path_;
  std::vector<Proposal> list_;
  std::array<std::array<Record, kChildrenMax>, kMatchMax + 1> records_;
};

}  // namespace outrider
