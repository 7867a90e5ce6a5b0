// Beside a session: chooses how it decodes from now on, of what its setup allows.
//
//   after a verdict     controller.Decided(draft);      what it costs, what it promises
//   from then on        controller.course()             what the session acts on, and tells in Tune
//
// Policies (policies/tree_policy.h) know nothing of this: they grow what they are asked to grow.
//
// A function of what it was told: no clock, no randomness, no allocation after its making.
#pragma once

#include <cstdint>
#include <optional>

#include "common/speculation/control/server_trial.h"
#include "common/speculation/policies/tree_policy.h"

namespace outrider {

// What the target does at a root that has no children: proto's DryPolicy.
enum class Dry : uint8_t { kAdaptive, kWait, kAlone };

// Where the tokens of a session are drafted and checked.
enum class Placement : uint8_t {
  kSplit,        // drafted here, checked at a server
  kLocal,        // both here
  kServer,       // both at the server
  kTargetAlone,  // nothing is drafted
};

// How a session decodes. Of the nodes that it was opened with, none become more.
struct Course {
  Placement placement = Placement::kSplit;
  TreePolicy* growth;                // never null; it grows nothing where nothing is drafted here
  uint32_t pass_nodes = UINT32_MAX;  // R, as far as it was granted
  bool hints = true;                 // of early exits, where the session can use them
  std::optional<Dry> dry = {};       // none: as the session was opened
};

// What is to be little: the time until text comes, or the work that a server has with it. A pass at a
// root below which nothing was drafted brings a token sooner than growth would, and for the price of
// a whole pass.
enum class Objective : uint8_t {
  kTime,
  kBalanced,  // time is not bought with more work than it is of itself worth
  kServer,
};

// What a controller has come to, for one that begins where it ended.
struct Findings {
  uint32_t pass_nodes = UINT32_MAX;  // of a pass that is drafted here
  bool hints = true;
  ServerFindings server = {};  // of the draft that the server has

  bool operator==(const Findings&) const = default;
};

// What can be chosen where a session stands. What cannot be done is not chosen.
struct ControlSetup {
  bool target_is_here = false;  // in this process, and not at a server
  // It computes on the cores that draft: rows of a pass are dear there, and what the one takes the
  // other lacks, unless the one waits for flash. A target here on a GPU does not.
  bool shares_cores = false;
  // Most of its weights come from flash for every pass, whatever rows it has: that takes far longer than
  // a batch of the draft, and hides what rows cost until they are many. Not where experts do: of those
  // each row brings some of its own.
  bool target_streams = false;
  bool server_drafts = false;  // it has a draft of its own
  std::optional<Findings> before = {};
  Objective objective = Objective::kTime;
};

// What hints had done for a verdict when it came.
enum class HintWorth : uint8_t {
  kNone,     // none had come
  kIdle,     // nothing: the last was wrong, or what it named was drafted or not all the same
  kDrafted,  // below the new root was drafted what a hint had named first
};

class Controller {
 public:
  virtual ~Controller() = default;

  virtual const Course& course() const = 0;
  virtual Findings findings() const {
    return {.pass_nodes = course().pass_nodes, .hints = course().hints};
  }

  // Before Decided(), of the same verdict.
  virtual void Hinted(HintWorth /*worth*/) {}

  // A verdict, which the view's costs have been told of; its root has not moved yet, and the policy
  // has learned from it.
  virtual void Decided(const DraftView& draft) = 0;
};

}  // namespace outrider
