// A device, as a library: a target, here or at a server, a draft beside it or none, and any number
// of conversations.
//
//   DeviceOptions options;
//   options.model = "target.gguf";                 // or options.server = "host:7373"
//   options.draft.model = "draft.gguf";            // or kNgramDraft, or none
//   OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<Device> device, Device::Open(options));
//   OUTRIDER_RETURN_IF_ERROR(device->Load(nullptr));
//   OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<Conversation> conversation,
//                             device->Converse({.stops = {.max_tokens = 100}}));
//   const std::vector<TokenId> prompt = device->tokenizer().Encode("Once upon a time");
//   OUTRIDER_ASSIGN_OR_RETURN(const Ending ending,
//                             conversation->Continue(prompt, /*is_reply=*/false, observer));
//
// Open() reads what is small (tokenizers, what a server says of itself), so that what cannot work is
// known before a model is loaded for nothing; Load() takes the time and the memory. Nothing here
// prints, draws or catches signals: progress goes to who asks, text to observers, and everything
// else comes back as a value.
//
// Threads: Open(), Load() and Converse() from one thread; each conversation from any one.
//          Conversations end before their device does.
// Errors:  a sentence, which begins with the file or address it is about.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/device/conversation.h"
#include "client/device/draft.h"
#include "client/device/drafted_conversation.h"
#include "client/planner/memory_plan.h"
#include "client/verifier/fallback_verifier.h"
#include "client/verifier/link_security.h"
#include "client/verifier/verifier.h"
#include "common/base/chrome_trace.h"
#include "common/base/monotonic_time.h"
#include "common/engine/projection.h"
#include "common/kernels/isa.h"
#include "common/model/weights/resident_weights.h"
#include "common/speculation/control/controller.h"
#include "common/speculation/policies/policies.h"
#include "common/text/tokenizer.h"
#include "common/verification/machine/pruning_way.h"
#include "proto/outrider/v1/verifier.pb.h"

namespace outrider {

class LocalTarget;

struct DraftOptions {
  std::string model = {};      // empty: nothing is drafted; kNgramDraft; or a model's path
  std::string engine = "cpu";  // that runs it (torch/load_engine.h)
  PolicyOptions policy = {.kind = PolicyKind::kAuto};
  uint32_t pass_nodes = 16;  // at the most; policy auto chooses how many
  uint32_t sketch_nodes = 256;
  v1::DryPolicy dry = v1::DRY_POLICY_ADAPTIVE;
  Objective objective = Objective::kTime;  // of policy auto
  HintBelief hint_belief = HintBelief::kNewest;
  // Of a target here: whether something is drafted while it waits for flash, or another processor computes it;
  // else they take turns, as they always do on one processor with all weights in memory.
  bool provisional = true;
  // Of a target here: its exits, as ChooseExits() is asked (formats/models/exits_file.h), whether
  // they take nodes out of its passes, and what rows its head is asked for.
  std::string exits = {};
  PruningWay pruning = PruningWay::kAuto;
  Projection projection = Projection::kAuto;

  bool is_model() const { return !model.empty() && model != kNgramDraft; }
  bool names_exits() const { return !exits.empty() && exits != "none"; }
  // Whether somebody wants them, or they only happen to lie beside the target.
  bool asks_for_exits() const { return names_exits() || pruning == PruningWay::kOn; }
};

struct DeviceOptions {
  static constexpr uint32_t kContextDefault = 4096;

  std::string model = {};      // the target here, or
  std::string server = {};     // at host:port
  LinkSecurity security = {};  // of the link to that
  // Of a target at a server: a copy of it here, from which conversations go on while the server
  // cannot be reached. Empty: they wait.
  std::string fallback = {};
  std::string engine = "cpu";  // that runs a target here
  // Of a target at a server: kSplit with a draft here, kServer with the server's own, or
  // kTargetAlone.
  Placement placement = Placement::kSplit;
  std::string tokenizer = {};  // of a target at a server; empty: the draft's
  DraftOptions draft = {};
  // Tokens of one conversation; nothing: as many as the target has, up to kContextDefault.
  std::optional<uint32_t> context = {};
  uint32_t conversation_count_max = 1;  // at a time
  // What keys and values of a target here may take; 0: all conversations at their longest.
  uint64_t kv_bytes = 0;
  // What this process may take of memory, all of it, with a target or fallback here that may be
  // larger: what does not fit comes from flash for every pass (planner/memory_plan.h). 0: the
  // target stays in memory, however much that is.
  uint64_t memory_bytes = 0;
  uint32_t threads = 1;
  Isa isa = Isa::kScalar;
  // Where it is written down what passes and drafts cost, for the next time (price_file.h). Empty:
  // nowhere.
  std::string price_file = {};
  // Where it is written down what happened when, in Chrome's trace format (base/chrome_trace.h): of all
  // conversations, runs of a target here, drafts, messages and text. Empty: nowhere.
  std::string trace_file = {};

  // Of a model that was made for so many tokens.
  uint32_t ContextOf(uint32_t trained) const {
    return context.value_or(std::min(trained, kContextDefault));
  }
  // Whose tokenizer is used: a server tells its own only by fingerprint.
  const std::string& tokenizer_path() const {
    return !model.empty() ? model : tokenizer.empty() ? draft.model : tokenizer;
  }
};

// Of the target; of one here once it is loaded.
struct DeviceInfo {
  std::string model_name;
  std::string numerics_id;
  uint32_t context_length = 0;
};

// Of experts that come from flash by those rows that choose them.
struct ExpertReads {
  uint64_t bytes_read = 0;
  uint64_t uses = 0;  // by runs
  uint64_t hits = 0;  // of those, of experts that were in memory, or on their way there
  uint64_t evicted = 0;
  uint64_t read_ahead = 0;        // on a guess at what will be chosen,
  uint64_t read_ahead_right = 0;  // and chosen then
};

// Of a target whose weights come from flash, since it was loaded.
struct FlashUse {
  uint64_t bytes_read = 0;                  // experts and all
  std::optional<ExpertReads> experts = {};  // nothing: it has none, or none was asked
  Duration stalled = {};                    // that passes have waited for what they read
  std::string backend = {};                 // how it is read,
  std::vector<std::string> refusals = {};   // and why in no better way (base/direct_file.h)
};

// Of passes of a target here that exits have taken nodes out of (engine/tree_pruning.h).
struct PruningUse {
  uint64_t runs = 0;
  uint64_t nodes = 0;
};

// Exits that lie beside a target here and are not used, though nobody has left them out.
struct ExitsLeftOut {
  std::string why = {};  // begins with their file
  // They are broken, or another model's: whoever has put them there wants to know. Else they are
  // what a budget has better use for.
  bool are_wrong = false;
};

class Device {
 public:
  // InvalidArgument for options that make no sense together; FailedPrecondition for a draft that
  // does not speak the target's tokens; else what files and servers have to say.
  static absl::StatusOr<std::unique_ptr<Device>> Open(DeviceOptions options);
  virtual ~Device() = default;

  // Whether there can be such a conversation, but for room.
  absl::Status Check(const ConversationOptions& asked) const;

  // Once. `progress` is told of each model's loading in turn.
  virtual absl::Status Load(const LoadProgress& progress) = 0;

  // After Load(). ResourceExhausted when there are conversation_count_max.
  virtual absl::StatusOr<std::unique_ptr<Conversation>> Converse(
      const ConversationOptions& asked) = 0;

  // To trace_file, when all conversations have ended.
  absl::Status WriteTrace();

  // What of DeviceOptions::memory_bytes goes where; null: there is no such budget.
  virtual const MemoryPlan* plan() const { return nullptr; }
  // Of a target here, for good once it is loaded.
  virtual std::optional<ExitsLeftOut> exits_left_out() const { return std::nullopt; }
  // Of a target with such a budget, once it is loaded.
  virtual std::optional<FlashUse> flash_use() const { return std::nullopt; }
  // Of a target here that has exits, once it is loaded.
  virtual std::optional<PruningUse> pruning_use() const { return std::nullopt; }

  const Tokenizer& tokenizer() const { return *tokenizer_; }
  const DeviceInfo& info() const { return info_; }

 protected:
  Device(DeviceOptions options, std::unique_ptr<Tokenizer> tokenizer)
      : options_(std::move(options)), tokenizer_(std::move(tokenizer)) {}

  // One for conversations of `context` tokens: beside a target here it takes turns at its threads where
  // those are all cores, and else has others. Null: the target is elsewhere.
  absl::StatusOr<std::unique_ptr<Draft>> LoadDraft(uint32_t context, LocalTarget* target,
                                                   const LoadProgress& progress) const;
  uint32_t DraftThreads(const LocalTarget* target) const;
  // What is known of a place where drafts are checked, before any have been.
  struct Start {
    ControlSetup setup;  // what can be chosen there
    CostModel::Assumed assumed;
    const FlashMeter* flash_meter = nullptr;  // null: nobody waits for flash
    uint64_t target_content_hash = 0;         // 0: not known, of a server's
    bool drafts_in_waits = false;             // of the target's, for flash
  };
  // With a target here, which `verifier` leads to, and this draft.
  static Start StartAt(const LocalTarget& target, const Draft& draft, const Verifier& verifier);
  // A conversation that is drafted here and checked by `verifier`, or as its setup allows besides.
  absl::StatusOr<std::unique_ptr<Conversation>> Drafted(const ConversationOptions& asked,
                                                        Draft& draft, uint32_t context,
                                                        std::unique_ptr<Verifier> verifier,
                                                        const Start& start) const;
  // Or by `fallback` where `verifier` says so.
  absl::StatusOr<std::unique_ptr<Conversation>> DraftedWithFallback(
      const ConversationOptions& asked, Draft& draft, uint32_t context,
      std::unique_ptr<FallbackVerifier> verifier, const ControlSetup& setup,
      const LocalTarget& fallback) const;

  const DeviceOptions options_;
  const std::unique_ptr<Tokenizer> tokenizer_;
  DeviceInfo info_;
  std::unique_ptr<ChromeTrace> trace_;  // null: nobody asked for one

 private:
  absl::StatusOr<SessionOptions> SessionFor(const ConversationOptions& asked, const Draft& draft,
                                            uint32_t context, const Verifier& verifier) const;
  // With what is known of prices, and as `start` says where nothing is.
  DraftedConversation::Control ControlFor(const Draft& draft, Start start,
                                          const std::string& numerics_id) const;
  std::unique_ptr<SessionTrace> NewSessionTrace(bool target_is_here) const;
  // What prices are known by.
  uint64_t PriceKey(const Draft& draft, bool target_is_here, const std::string& numerics_id) const;
};

}  // namespace outrider
