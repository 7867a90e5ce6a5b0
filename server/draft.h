// The draft of a server that drafts for those who ask Generate to: a small model of the target's
// family, whose weights all of them share.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/base/thread_pool.h"
#include "common/kernels/kernels.h"
#include "common/model/model_spec.h"
#include "common/model/weights/resident_weights.h"
#include "common/text/tokenizer.h"
#include "common/verification/generation.h"

namespace outrider {

class ServerDraft {
 public:
  // FailedPrecondition for a draft of another family than `target`'s. Kernels and pool outlive it;
  // nobody else uses the pool.
  static absl::StatusOr<std::unique_ptr<ServerDraft>> Load(const std::string& path,
                                                           const Tokenizer& target,
                                                           const Kernels& kernels,
                                                           ThreadPool& pool);

  // It outlives what this makes. One drafter is asked at a time.
  Generation::NewDrafter NewDrafter() const;

 private:
  ServerDraft(const ModelSpec& spec, std::shared_ptr<ResidentWeights> weights,
              const Kernels& kernels, ThreadPool& pool)
      : spec_(spec), weights_(std::move(weights)), kernels_(kernels), pool_(pool) {}

  const ModelSpec spec_;
  const std::shared_ptr<ResidentWeights> weights_;
  const Kernels& kernels_;
  ThreadPool& pool_;
};

}  // namespace outrider
