// Real passes for the sake of their exits: a draft proposes, the target checks whole trees of it
// with exits attached, the outcome is committed and the next tree grown, as in a session. What the
// exits say and what comes of it is logged.
//
//   OUTRIDER_ASSIGN_OR_RETURN(const auto rehearsal, Rehearsal::Open({target, draft, exits}, 2));
//   OUTRIDER_ASSIGN_OR_RETURN(const GuessLog log, rehearsal->Replies(prompts, sampling, 4000));
//
// The tree is that of policy `awaited` with a pass's nodes and no more: what a device would send
// that has drafted while it was worth it. Exits look among the tree's tokens, the draft's
// runners-up and the frequent set, as they do at a server.
//
// What is written is the target's own text, whatever drafts and exits say.
//
// Threads: one call at a time; target and draft share their work out over a pool.
// Errors:  a sentence that names the file for those that do not belong together.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "adapters/calibration/guess_log.h"
#include "common/base/monotonic_time.h"
#include "common/base/thread_pool.h"
#include "common/engine/cpu_engine.h"
#include "common/engine/cpu_target.h"
#include "common/engine/engine.h"
#include "common/formats/models/exits_file.h"
#include "common/kernels/kernels.h"
#include "common/text/tokenizer.h"
#include "common/tokens/sampling.h"

namespace outrider {

class Rehearsal final : private ExitSink {
 public:
  static constexpr uint32_t kReplyTokens = 96;
  static constexpr uint32_t kPassNodes = 16;
  static constexpr uint32_t kContextMax = 1024;

  struct Files {
    std::string target;
    std::string draft;
    std::string exits;
  };

  static absl::StatusOr<std::unique_ptr<Rehearsal>> Open(const Files& files, uint32_t thread_count);

  const TrainedExits& exits() const { return trained_; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }

  // What the target writes after the prompt: kReplyTokens or a few more, fewer where the text or
  // the context ends. Its passes go to `log`. InvalidArgument for a prompt that is empty or leaves
  // no room in the context. Cancelled after Ctrl-C (base/interrupt.h).
  absl::StatusOr<std::vector<TokenId>> Reply(std::span<const TokenId> prompt,
                                             const SamplingOptions& sampling, GuessLog& log);

  // Replies to one prompt after the other, sample i to prompt i, until there are `pass_count`
  // passes or no more prompts. Progress is shown.
  absl::StatusOr<GuessLog> Replies(std::span<const std::vector<TokenId>> prompts,
                                   SamplingOptions sampling, size_t pass_count);

  // All that passes took so far, and of that each exit.
  double pass_seconds() const { return pass_seconds_; }
  std::span<const double> exit_seconds() const { return exit_seconds_; }

 private:
  class Session;

  Rehearsal() = default;
  absl::Status LoadTarget(const Files& files);
  absl::Status LoadDraft(const Files& files);

  void OnGuess(const ExitGuess& guess) override { log_->Hear(guess); }
  void OnExitTime(uint32_t exit, Duration time) override;

  std::unique_ptr<ThreadPool> pool_;
  const Kernels* kernels_ = nullptr;
  TrainedExits trained_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<EngineTarget> target_;
  std::unique_ptr<CpuEngine> draft_;

  GuessLog* log_ = nullptr;  // of the reply that is written
  double pass_seconds_ = 0;
  std::vector<double> exit_seconds_;
};

}  // namespace outrider
