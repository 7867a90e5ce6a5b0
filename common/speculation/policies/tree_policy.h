// Which nodes of a sketch to grow, which of the drafted children join it, and when the target is
// shown what has joined.
//
// A policy is asked after every event; it looks at the draft and answers. It owns nothing of the
// draft: a Sketcher (sketcher.h) keeps it, on a device that talks to a server as on one that runs
// the target itself, and carries the answers out.
//
//   Expand() -- drafter --> candidates -- Join() --> nodes, held -- Send() --> nodes, sent
//
//   expand      to have the drafter propose children of a node
//   candidate   a proposed child that has not joined: it costs nobody anything
//   held        a node of the device's sketch that the target has not been shown; a pre-draft
//   sent        a node that passes may take. Nodes are sent in the order they joined, all that are
//               held at once, because that is the order of their ids
//
// An answer is a function of the view and of the verdicts before it: no clock, no randomness. Once
// its vectors have grown, a policy allocates nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "common/base/monotonic_time.h"
#include "common/formats/tokenizers/tokenizer_spec.h"
#include "common/tokens/sketch.h"

namespace outrider {

class CostModel;

// nodes[0] is the root; parents come before their children, and ids ascend.
struct DraftNode {
  enum class Children : uint8_t { kUnknown, kAsked, kDrafted };

  NodeId id = Sketch::kRoot;
  uint32_t parent = 0;  // index; the root's is its own
  TokenId token = 0;    // the root's is not known here
  uint32_t depth = 0;
  double confidence = 1;  // that the target chooses it where it has chosen its parent
  double claimed = 0;     // the sum of its children's
  double path = 1;        // the probability that the text passes here, by the draft
  double reach = 1;       // and in the light of hints
  double hint = 0;  // the rank of the newest hint of the outcome that ends here; 0: there is none
  Children children = Children::kUnknown;  // whether the drafter has been asked for them
  bool sent = true;
  MonotonicTime sent_at = {};
  // As far as this side can know; what a verdict has told of its pass, when that is what they are asked about.
  bool at_target = true;  // when the running pass began
  bool in_pass = true;    // which has taken it
};

struct DraftCandidate {
  uint32_t parent = 0;  // index
  TokenId token = 0;
  uint32_t rank = 0;  // among the drafted children of its parent, 0 the most probable
  double confidence = 0;
  double hint = 0;  // as of a node; when it is not 0, it may be the hint alone that names it
};

struct Expansion {
  uint32_t node;         // index
  uint32_t child_count;  // at the most
};

// The answer to "what now": whether the target is shown what is held.
enum class Sending {
  kHold,
  kSend,  // more may follow before the next verdict
  kGo,    // nothing more will: a pass is to start with what is there
};

struct DraftView {
  std::span<const DraftNode> nodes;
  std::span<const DraftCandidate> candidates;  // in the order they were drafted
  const CostModel& costs;
  MonotonicTime now;

  // The target is running a pass, or will without being sent anything more. If not, it waits for
  // growth, and every moment of holding delays the next verdict.
  bool pass_running;
  MonotonicTime pass_begin;  // when it is; an estimate
  bool target_waits;         // at a root without children; or else it writes on alone
  bool takes_turns;          // nothing is drafted while a pass runs

  uint32_t pass_node_count_max;   // R
  uint32_t batch_node_count_max;  // what the drafter runs at once
  uint32_t child_count_max;       // what it proposes for a node
  uint32_t room;                  // nodes that may still join
};

// A verdict, in terms of the draft as it was before the root moved.
struct DraftVerdict {
  uint32_t leaf;  // index
  TokenId next;
};

class TreePolicy {
 public:
  virtual ~TreePolicy() = default;

  virtual std::string_view name() const = 0;

  // Indices of the candidates that join now, ascending, at most `room`. A candidate whose parent is
  // a candidate does not exist. Asked whenever candidates are new or the draft has changed.
  virtual void Join(const DraftView& draft, std::vector<uint32_t>& candidates) = 0;

  // What the drafter runs next, in one batch: nodes whose children are kUnknown. None: nothing is
  // worth drafting before something happens. Asked when the drafter takes another batch.
  virtual void Expand(const DraftView& draft, std::vector<Expansion>& batch) = 0;

  // Asked when Join() and Expand() have had their say. `drafting`: a batch is under way, and Send()
  // will be asked again when it is done.
  virtual Sending Send(const DraftView& draft, bool drafting) = 0;

  // What the policies learn from.
  virtual void Learn(const DraftView& /*draft*/, const DraftVerdict& /*verdict*/) {}
};

}  // namespace outrider
