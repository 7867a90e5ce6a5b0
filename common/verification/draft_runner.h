// Executes draft jobs with the draft that stands beside a target: a drafter for each session, which
// chooses as its target does, and the session's tokens as the draft was told them.
//
//   DraftRunner runner(new_drafter, context_length);
//   const std::span<const TokenId> chain = runner.Execute(std::move(job));
//   runner.Forget(session);                          // it is gone
//
// A session for which there is no drafter to be had, or whose drafter fails, gets chains of no
// tokens: its target writes alone.
//
// Memory:  per session a drafter and its tokens.
// Threads: as a vector.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "common/speculation/drafting/cancellation.h"
#include "common/speculation/drafting/drafter.h"
#include "common/tokens/chooser.h"
#include "common/tokens/token_history.h"
#include "common/verification/draft_job.h"

namespace outrider {

class DraftRunner {
 public:
  // A draft that chooses as the target does.
  using NewDrafter =
      std::function<absl::StatusOr<std::unique_ptr<Drafter>>(const Chooser& chooser)>;

  DraftRunner(NewDrafter new_drafter, uint32_t context_length)
      : new_drafter_(std::move(new_drafter)), context_length_(context_length) {}

  // What it has drafted stays until the next call. A job that is cancelled ends early, with less.
  std::span<const TokenId> Execute(DraftJob job,
                                   const Cancellation& cancellation = Cancellation::Never());
  void Forget(uint64_t session) { sessions_.erase(session); }

 private:
  struct Session {
    std::unique_ptr<Drafter> drafter;  // null: none was to be had
    TokenHistory history;
  };

  Session& Find(DraftJob& job);
  static void Tell(const DraftJob& job, TokenHistory& history);

  const NewDrafter new_drafter_;
  const uint32_t context_length_;
  absl::flat_hash_map<uint64_t, Session> sessions_;
  // Working memory.
  std::vector<DraftedNode> nodes_;
  std::vector<TokenId> chain_;
  Proposals proposals_;
};

}  // namespace outrider
