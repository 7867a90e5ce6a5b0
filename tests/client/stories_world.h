// The stories model as draft and target, what the target alone writes, and a screen to look at.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client/driver/session_driver.h"
#include "client/session/session.h"
#include "client/verifier/verifier.h"
#include "common/engine/cpu_engine.h"
#include "common/engine/cpu_target.h"
#include "common/kernels/isa.h"
#include "common/speculation/control/controllers.h"
#include "common/speculation/drafting/lm_drafter.h"
#include "common/speculation/policies/policies.h"
#include "common/tokens/stop_conditions.h"
#include "tests/model/engine.h"
#include "tests/model/stories.h"

namespace outrider {

inline constexpr uint32_t kContext = 200;

struct StoriesModel {
  explicit StoriesModel(const std::string& path)
      : file(OrDie(ModelFile::Open(path))), pool(OrDie(ThreadPool::Create(1))) {}

  std::unique_ptr<ModelFile> file;
  std::unique_ptr<ThreadPool> pool;  // the drafter's; the target has one of its own
};

inline const StoriesModel& Good() {
  static const StoriesModel& model = *new StoriesModel(Stories());
  return model;
}

inline const StoriesModel& Damaged() {
  static const StoriesModel& model = *new StoriesModel(DamagedStories());
  return model;
}

inline const Tokenizer& TheTokenizer() {
  static const Tokenizer& tokenizer =
      *OrDie(Tokenizer::Create(OrDie(Good().file->ReadTokenizer()))).release();
  return tokenizer;
}

inline std::unique_ptr<Target> NewTarget(uint32_t sequence_count = 1) {
  static ThreadPool& pool = *OrDie(ThreadPool::Create(1)).release();
  return OrDie(LoadCpuTarget(
      *Good().file, "stories",
      {.context_length = kContext, .sequence_count_max = sequence_count, .node_count_max = 32},
      KernelsFor(BestIsa()), pool, nullptr));
}

struct Written {
  std::vector<TokenId> tokens;
  std::string text;
};

// What the target alone writes.
inline Written Alone(const std::vector<TokenId>& prompt, const SamplingOptions& sampling,
                     const StopOptions& stops, bool continues_text) {
  const std::unique_ptr<Target> target = NewTarget();
  const Chooser chooser = OrDie(Chooser::Create(sampling, TheTokenizer().vocabulary_size()));
  const StopConditions conditions = OrDie(StopConditions::Create(stops, TheTokenizer()));
  TokenHistory history({.vocabulary_size = TheTokenizer().vocabulary_size(),
                        .capacity = kContext + 1,
                        .counts_tokens = sampling.penalizes()});
  OUTRIDER_CHECK_OK(history.Append(prompt));
  history.StartReply();
  Reply reply(conditions,
              continues_text ? std::span<const TokenId>(prompt) : std::span<const TokenId>());
  const SequenceId sequence = OrDie(target->CreateSequence());
  OUTRIDER_CHECK_OK(target->Prefill(sequence, prompt, nullptr));
  Written text;
  while (!reply.finish() && history.size() <= kContext) {
    const Pass pass = {sequence, {}, &chooser, &history};
    PassResult result;
    target->Run({}, {&pass, 1}, {&result, 1});
    OUTRIDER_CHECK_OK(result.status);
    OUTRIDER_CHECK_OK(target->Commit(sequence, result.outcome));
    OUTRIDER_CHECK_OK(history.Append({&result.outcome.next, 1}));
    text.text += reply.Take({&result.outcome.next, 1}).text;
  }
  if (!reply.finish()) text.text += reply.Abandon();
  text.tokens.assign(history.tokens().begin(), history.tokens().end());
  return text;
}

class Screen final : public SessionDriver::Observer {
 public:
  void OnText(std::string_view text) override {
    text_ += text;
    has_text_ = true;
  }
  void OnPromptProgress(uint32_t, uint32_t) override {}
  void OnReport(const absl::Status& status) override { reports_.push_back(status); }
  bool Interrupted() override { return interrupted_ && has_text_; }

  void Interrupt() { interrupted_ = true; }
  // Between replies.
  std::string Take() { return std::exchange(text_, {}); }
  const std::vector<absl::Status>& reports() const { return reports_; }

 private:
  std::string text_;
  std::vector<absl::Status> reports_;
  bool interrupted_ = false;
  std::atomic<bool> has_text_ = false;
};

inline SamplingOptions Sampled(uint64_t seed) {
  SamplingOptions options;
  options.temperature = 0.9;
  options.top_p = 0.95;
  options.repetition_penalty = 1.1;
  options.frequency_penalty = 0.2;
  options.seed = seed;
  return options;
}

// No two sessions of a program are given the same nonce.
inline uint64_t NextBits() {
  static std::atomic<uint64_t> bits = 0;
  return bits += 0x9e3779b97f4a7c15;
}

// A session with a draft, and a thread for it.
class DraftedSession {
 public:
  DraftedSession(SessionOptions options, const StoriesModel& draft, PolicyKind kind,
                 Verifier& verifier)
      : DraftedSession(std::move(options), draft, MakeController({.kind = kind}, {}), verifier) {}

  DraftedSession(SessionOptions options, const StoriesModel& draft,
                 std::unique_ptr<Controller> controller, Verifier& verifier)
      : engine_(
            OrDie(LoadCpuEngine(*draft.file, "draft", {.node_count_max = 256, .row_count_max = 64},
                                KernelsFor(BestIsa()), *draft.pool, nullptr))),
        drafter_(OrDie(LmDrafter::Create(
            *engine_, OrDie(Chooser::Create(options.sampling, TheTokenizer().vocabulary_size()))))),
        controller_(std::move(controller)) {
    const TokenHistory::Options history = {.vocabulary_size = TheTokenizer().vocabulary_size(),
                                           .capacity = kContext + 1,
                                           .counts_tokens = options.sampling.penalizes()};
    options.length_max = kContext;
    options.sketch.node_count_max = 64;
    session_ = OrDie(
        Session::Create(std::move(options), {TheTokenizer(), *controller_, costs_, NextBits}));
    driver_ = std::make_unique<SessionDriver>(*session_, *drafter_, history, verifier);
  }

  Session& session() { return *session_; }
  SessionDriver& driver() { return *driver_; }

 private:
  const std::unique_ptr<Engine> engine_;
  const std::unique_ptr<LmDrafter> drafter_;
  const std::unique_ptr<Controller> controller_;
  CostModel costs_;
  std::unique_ptr<Session> session_;
  std::unique_ptr<SessionDriver> driver_;
};

}  // namespace outrider
