// The flags of a draft, and what they ask for.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/session/session.h"
#include "common/base/thread_pool.h"
#include "common/kernels/kernels.h"
#include "common/model/resident_weights.h"
#include "common/speculation/drafter.h"
#include "common/speculation/tree_policy.h"
#include "common/text/tokenizer.h"
#include "common/tokens/sampling.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace outrider {

// As a draft: what the text has said before (ngram_drafter.h). A file of that name is ./ngram.
inline constexpr std::string_view kNgramDraft = "ngram";

struct SpeculationFlags {
  std::string draft;  // empty: none; kNgramDraft; or a model
  std::string policy = "auto";
  uint32_t gamma = 4;
  uint32_t pass_nodes = 16;
  uint32_t sketch_nodes = 256;
  std::string dry = "adaptive";

  bool drafts() const { return !draft.empty(); }
  bool draft_is_model() const { return drafts() && draft != kNgramDraft; }
};

// `server` needs a draft; without one the other flags mean nothing.
void AddSpeculationFlags(CLI::App& command, SpeculationFlags& flags, CLI::Option& server);

// InvalidArgument when the policy and what the target does at a dry root make a draft useless.
absl::Status CheckSpeculation(const SpeculationFlags& flags);

// InvalidArgument when there is no such policy.
absl::StatusOr<std::unique_ptr<TreePolicy>> MakePolicy(const SpeculationFlags& flags);

// What the flags say of a session.
void SetSession(const SpeculationFlags& flags, SessionOptions& options);

// FailedPrecondition when the draft is a model that does not speak the target's tokens.
absl::Status CheckFamily(const SpeculationFlags& flags, const Tokenizer& target);

// A drafter, and the small model that it runs if it runs one.
class Draft {
 public:
  // One without a model. The target speaks the tokenizer's tokens, at most `context` of them.
  static std::unique_ptr<Draft> OfText(const Tokenizer& tokenizer, uint32_t context);

  // Kernels and pool outlive it. `context` is the target's: the model's own may be less, and then
  // it drafts up to there.
  static absl::StatusOr<std::unique_ptr<Draft>> Load(const SpeculationFlags& flags,
                                                     const SamplingOptions& sampling,
                                                     uint32_t context, const Kernels& kernels,
                                                     ThreadPool& pool);

  Drafter& drafter() { return *drafter_; }
  int32_t vocabulary_size() const { return vocabulary_size_; }

 private:
  Draft() = default;

  std::unique_ptr<ResidentWeights> weights_;
  std::unique_ptr<Drafter> drafter_;
  int32_t vocabulary_size_ = 0;
};

}  // namespace outrider
