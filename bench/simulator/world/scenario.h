// What is simulated: where the tokens come from (World), and the link, the target, the draft and
// the sessions (Scenario). Everything has a default, so a scenario says what is special about it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/simulator/sources/draft_skill.h"
#include "bench/simulator/sources/exits.h"
#include "bench/simulator/sources/sources.h"
#include "bench/simulator/sources/trace.h"
#include "bench/simulator/world/device.h"
#include "bench/simulator/world/link.h"
#include "bench/simulator/world/processor.h"
#include "bench/simulator/world/time_profile.h"
#include "common/speculation/control/controller.h"
#include "common/speculation/policies/policies.h"
#include "common/tokens/sampling.h"
#include "common/verification/machine/verifier_config.h"

namespace outrider {

// Where tokens come from, made once for many simulations. Synthetic unless there is a trace.
class World {
 public:
  struct Options {
    int32_t vocabulary_size = 32000;
    bool sampled = false;  // real logits and the real Chooser, of a small vocabulary
    double end_rate = 0;   // of synthetic text, per token
    std::string exits = "none";
    std::string trace_path = "";
    uint64_t seed = 1;
  };

  static absl::StatusOr<std::unique_ptr<World>> Create(const Options& options);

  const Text& text() const { return *text_; }
  const Exits& exits() const { return *exits_; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  const Trace* trace() const { return trace_ ? &*trace_ : nullptr; }

 private:
  World() = default;

  std::optional<Trace> trace_;
  std::unique_ptr<const Tokenizer> tokenizer_;
  std::unique_ptr<const Text> text_;
  std::unique_ptr<const Exits> exits_;
};

// What happens to a link, a target and a draft in the middle of everything.
struct Change {
  uint32_t after_tokens = 0;  // shown by the first device
  double link_delay = 1;      // factors
  double pass_time = 1;
  std::optional<DraftSkill> skill = {};
};

struct Scenario {
  // The way between.
  LinkShape link;

  // The target.
  TimeProfile pass_time = TimeProfile::Constant(Milliseconds(20));
  std::optional<Duration> prompt_token_time;  // Host::Options
  uint32_t pass_nodes_max = 63;
  std::optional<uint32_t> sessions_in_memory;      // nothing: all of them
  double exit_share = 0;                           // Host::Options
  HintOrder hint_order = HintOrder::kProbability;  // of hints that wait for the link
  uint32_t rows_max = 1024;                        // of passes of a run, if it takes so many
  // Of a token of the server's own draft, which is as good as the devices'; nothing: it has none.
  std::optional<Duration> server_draft_time;

  // Target and draft share a processor, in one process, and take turns: what one does, the other
  // waits for. There is no link then, whatever `link` says.
  bool one_processor = false;
  // Every policy chooses how many nodes a pass takes that does so in programs.
  bool sizes_passes = false;

  // The draft.
  DraftSkill skill = *DraftSkill::Parse("good");
  TimeProfile draft_time = TimeProfile::Constant(Milliseconds(8));
  uint32_t draft_workers = 1;  // SimulatedDevice::Options
  // All devices draft on one processor, which may stand still at times. Nothing: each has its own.
  std::optional<Stalls> one_draft_processor;
  PolicyOptions policy;
  std::optional<Baseline> baseline;  // in place of the policy
  Sketcher::Options sketch;
  CostModel::Assumed assumed;

  // The sessions.
  uint32_t session_count = 1;
  // Whose they are: so many of the first key, so many of the next. Nothing: each has its own.
  std::vector<uint32_t> sessions_of_key;
  // The first one wants more of the target than the others: larger passes, drafted in less time.
  struct Greed {
    uint32_t pass_nodes;
    TimeProfile draft_time;
  };
  std::optional<Greed> greed;
  Duration stagger{0};  // from one's start to the next one's
  uint32_t prompt_length = 16;
  // The first session's prompt, the next one's, and from the start again. None: drawn.
  std::vector<std::vector<TokenId>> prompts;
  uint32_t max_tokens = 1000;
  bool ends_at_end_token = true;  // and not only at max_tokens
  std::vector<Turn> turns;
  SamplingOptions sampling;
  v1::DryPolicy dry_policy = v1::DRY_POLICY_ADAPTIVE;
  bool hints = true;
  Objective objective = Objective::kTime;  // of policy auto
  LinkOptions patience;
  std::optional<Duration> alone_time;   // SimulatedDevice::Options
  std::optional<uint32_t> moves_every;  // the same

  std::optional<Change> change;

  uint64_t seed = 1;
};

}  // namespace outrider
