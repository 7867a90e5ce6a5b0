// The draft of a server that drafts for those who leave it to it: a small model of the target's
// family, with room for as many sessions as the target has.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/base/thread_pool.h"
#include "common/engine/engine.h"
#include "common/kernels/kernels.h"
#include "common/text/tokenizer.h"
#include "common/verification/draft_runner.h"
#include "server/operations/event_log.h"

namespace outrider {

class ServerDraft {
 public:
  // FailedPrecondition for a draft of another family than `target`'s. Kernels and pool outlive it.
  static absl::StatusOr<std::unique_ptr<ServerDraft>> Load(const std::string& path,
                                                           const Tokenizer& target,
                                                           uint32_t session_count,
                                                           const Kernels& kernels, ThreadPool& pool,
                                                           EventLog& log);

  // It outlives what this makes. One drafter is asked, made or ended at a time.
  DraftRunner::NewDrafter NewDrafter() const;

 private:
  explicit ServerDraft(std::unique_ptr<Engine> engine) : engine_(std::move(engine)) {}

  const std::unique_ptr<Engine> engine_;
};

}  // namespace outrider
