// Proposes likely children of nodes of a sketch, many nodes at a time: a small language model
// (lm_drafter.h), or what the text has said before (ngram_drafter.h).
//
//   const std::array<Drafter::Context, 2> contexts = {{{DraftedNode::kRoot, 4}, {7, 4}}};
//   OUTRIDER_RETURN_IF_ERROR(drafter.Propose(history, nodes, contexts, proposals));
//   proposals.children()[1]                    // what may follow node 7, most probable first
//
// A drafter is asked about text, not about ids: the committed tokens, and below them drafted nodes.
// What it proposes is a function of those, of how it was made, and of how often it was right before
// (which moves confidences, and never the order). Its cache follows by itself: it looks how much of
// the text it knows already, whether tokens were committed, forgotten or edited since, and computes
// what is new. So nobody has to tell it anything, and it can never be out of step.
//
// It learns in the same way, from the reply's tokens as they are committed: what it would have
// proposed there is compared with what the target wrote.
//
// Threads: one call at a time.
// Memory:  taken when it is made; Propose() does not allocate once `proposals` has grown.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "common/formats/tokenizers/tokenizer_spec.h"
#include "common/speculation/drafting/cancellation.h"
#include "common/tokens/outcome.h"
#include "common/tokens/token_history.h"

namespace outrider {

// A child that a drafter proposes, and the probability that the target chooses it where it has
// chosen its parent.
struct Proposal {
  TokenId token;
  double confidence;
};

// The proposals for several nodes, in lists. Moves and does not copy.
class Proposals {
 public:
  Proposals() = default;
  Proposals(Proposals&&) = default;
  Proposals& operator=(Proposals&&) = default;

  // Empty again, with room for so many lists of so many proposals altogether.
  void Clear(size_t list_count, size_t proposal_count);
  // There is room for it.
  void Add(std::span<const Proposal> list);

  // Valid until the next change.
  std::span<const std::span<const Proposal>> children() const { return children_; }

 private:
  std::vector<Proposal> all_;
  std::vector<std::span<const Proposal>> children_;  // pieces of it
};

class Drafter {
 public:
  // A node whose children are asked for.
  struct Context {
    uint32_t node;  // DraftedNode::kRoot or an index
    uint32_t child_count;
  };

  virtual ~Drafter() = default;

  // proposals.children()[i] are the child_count most confident children of contexts[i], the most
  // confident first; fewer where it knows no more. `nodes` are the whole sketch: what is not among
  // them may be forgotten.
  //
  // InvalidArgument when nodes or tokens contradict each other, or the history is of another
  // vocabulary; ResourceExhausted when it has no room for so many nodes; otherwise what the model
  // has to say, and then there are no proposals. The next call may succeed.
  //
  // A drafter that computes in several runs (a long text that it has not read yet) looks between
  // two of them whether the answer is still wanted, and is Cancelled if not. What it has read by
  // then it keeps.
  virtual absl::Status Propose(const TokenHistory& committed, std::span<const DraftedNode> nodes,
                               std::span<const Context> contexts, Proposals& proposals,
                               const Cancellation& cancellation = Cancellation::Never()) = 0;
};

// What makes a Propose() impossible for any drafter: InvalidArgument for a parent that does not
// come before its child, a token outside the vocabulary, a context that is no node.
absl::Status CheckRequest(std::span<const DraftedNode> nodes,
                          std::span<const Drafter::Context> contexts, int32_t vocabulary_size);

}  // namespace outrider
