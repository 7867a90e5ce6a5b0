// The flags of a draft, and what they ask for.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/session/session.h"
#include "common/base/thread_pool.h"
#include "common/kernels/kernels.h"
#include "common/model/resident_weights.h"
#include "common/speculation/lm_drafter.h"
#include "common/speculation/tree_policy.h"
#include "common/text/tokenizer.h"
#include "common/tokens/sampling.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace outrider {

struct SpeculationFlags {
  std::string draft;  // empty: none
  std::string policy = "ours";
  uint32_t gamma = 4;
  uint32_t pass_nodes = 16;
  uint32_t sketch_nodes = 256;
  std::string dry = "adaptive";
};

// `server` needs a draft; without one the other flags mean nothing.
void AddSpeculationFlags(CLI::App& command, SpeculationFlags& flags, CLI::Option& server);

// InvalidArgument when there is no such policy.
absl::StatusOr<std::unique_ptr<TreePolicy>> MakePolicy(const SpeculationFlags& flags);

// What the flags say of a session.
void SetSession(const SpeculationFlags& flags, SessionOptions& options);

// FailedPrecondition when the draft does not speak the target's tokens.
absl::Status CheckFamily(const std::string& draft, const Tokenizer& target);

// A small model, and the drafter that runs it.
class Draft {
 public:
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
  std::unique_ptr<LmDrafter> drafter_;
  int32_t vocabulary_size_ = 0;
};

}  // namespace outrider
