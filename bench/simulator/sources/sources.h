// Where the tokens of a simulation come from, in place of models: what the target chooses, what the
// draft proposes, what exits guess. Synthetic (text.h, draft_skill.h, exits.h) or recorded
// (trace.h).
//
// All are functions: the same place gets the same answer for ever, whoever asks and however often.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/formats/tokenizers/tokenizer_spec.h"
#include "common/tokens/chooser.h"
#include "common/tokens/outcome.h"
#include "common/tokens/token_history.h"

namespace outrider {

// Where a next token is asked for: the root, or a node below it.
struct Place {
  NodeHistory history;
  uint64_t hash;  // of all its tokens

  uint32_t length() const { return static_cast<uint32_t>(history.size()); }
};

inline Place RootOf(const TokenHistory& committed) {
  return {{committed}, committed.hash()};
}

// A token somebody expects, and with which probability.
struct Guess {
  TokenId token;
  double probability;
};

// What a target would write.
class Text {
 public:
  virtual ~Text() = default;
  virtual int32_t vocabulary_size() const = 0;
  virtual TokenId After(const Place& place, const Chooser& chooser) const = 0;
};

// What a drafter proposes.
class Drafts {
 public:
  virtual ~Drafts() = default;
  // Up to `count` guesses, the most probable first, in place of what `guesses` held.
  virtual void Propose(const Place& place, uint32_t count, std::vector<Guess>& guesses) const = 0;
};

// What exits guess while a pass is running.
class Exits {
 public:
  struct Hint {
    Outcome outcome;
    double probability;          // that the exit gives it
    double largest_softmax = 1;  // ExitEvidence
  };

  virtual ~Exits() = default;
  // Shares of the layers before each exit, rising.
  virtual std::span<const double> depths() const = 0;
  // What exit `index` says of a pass over `nodes` from `root` that comes to `outcome`.
  virtual Hint Guess(size_t index, const Place& root, std::span<const DraftedNode> nodes,
                     const Outcome& outcome) const = 0;
};

}  // namespace outrider
