#include "client/cli/speculative_generator.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>
#include <utility>

#include "common/base/clock.h"
#include "common/base/interrupt.h"
#include "common/base/progress_bar.h"
#include "common/base/random_bits.h"
#include "common/base/status.h"
#include "common/base/units.h"

namespace outrider {
namespace {

double Seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

std::string PerPass(uint64_t count, uint64_t passes) {
  return Fixed(passes > 0 ? static_cast<double>(count) / static_cast<double>(passes) : 0, 2);
}

}  // namespace

// Of one reply.
class SpeculativeGenerator::Screen final : public SessionDriver::Observer {
 public:
  explicit Screen(const TextSink& sink) : sink_(sink), begin_(RealClock().Now()) {}

  void OnText(std::string_view text) override {
    if (!first_text_) first_text_ = RealClock().Now();
    if (bar_) bar_->Finish();
    bar_.reset();
    sink_(text);
  }

  void OnPromptProgress(uint32_t processed, uint32_t total) override {
    if (!bar_) bar_.emplace("reading the prompt", total, ProgressUnit::kTokens);
    bar_->Advance(processed - std::min(processed, read_), "");
    read_ = processed;
  }

  void OnReport(const absl::Status& status) override {
    std::fprintf(stderr, "outrider: %s\n", std::string(Message(status)).c_str());
  }

  bool Interrupted() override { return outrider::Interrupted(); }

  void AddTo(GenerationTimes& times) {
    const MonotonicTime end = RealClock().Now();
    const MonotonicTime first = first_text_.value_or(end);
    times.prompt_seconds += Seconds(first - begin_);
    times.generation_seconds += Seconds(end - first);
    times.computed_tokens += read_;
    if (bar_) bar_->Finish();
  }

 private:
  const TextSink& sink_;
  const MonotonicTime begin_;
  std::optional<MonotonicTime> first_text_;
  std::optional<ProgressBar> bar_;
  uint32_t read_ = 0;
};

SpeculativeGenerator::SpeculativeGenerator(SessionOptions options, const Parts& parts)
    : options_(std::move(options)), parts_(parts), costs_(parts.verifier.Forecast()) {}

SpeculativeGenerator::~SpeculativeGenerator() {
  if (driver_) driver_->Close();
}

absl::Status SpeculativeGenerator::Continue(std::span<const TokenId> tokens, bool is_reply,
                                            const TextSink& sink) {
  Screen screen(sink);
  const uint64_t written = session_ ? session_->stats().tokens : 0;
  const absl::Status status = session_ ? GoOn(tokens, screen) : Begin(tokens, is_reply, screen);
  screen.AddTo(times_);
  if (session_) times_.generated_tokens += session_->stats().tokens - written;
  return status;
}

absl::Status SpeculativeGenerator::Begin(std::span<const TokenId> tokens, bool is_reply,
                                         Screen& screen) {
  options_.prompt.assign(tokens.begin(), tokens.end());
  options_.continues_text = !is_reply;
  OUTRIDER_ASSIGN_OR_RETURN(
      session_, Session::Create(options_, {parts_.tokenizer, parts_.policy, costs_, RandomBits}));
  driver_ = std::make_unique<SessionDriver>(
      *session_, parts_.drafter,
      TokenHistory::Options{.vocabulary_size = parts_.draft_vocabulary_size,
                            .capacity = size_t{options_.length_max} + 1,
                            .counts_tokens = options_.sampling.penalizes()},
      parts_.verifier);
  times_.prompt_tokens += tokens.size();
  return driver_->Run(Session::Start{}, screen);
}

absl::Status SpeculativeGenerator::GoOn(std::span<const TokenId> tokens, Screen& screen) {
  const auto committed = session_->committed();
  auto shared = static_cast<size_t>(std::ranges::mismatch(tokens, committed).in1 - tokens.begin());
  if (shared == tokens.size() && shared > 0) --shared;  // a turn has a token
  OUTRIDER_RETURN_IF_ERROR(
      driver_->Run(Session::UserTruncate{static_cast<uint32_t>(shared)}, screen));
  const auto turn = tokens.subspan(shared);
  OUTRIDER_RETURN_IF_ERROR(session_->CheckTurn(turn));
  times_.prompt_tokens += turn.size();
  return driver_->Run(Session::UserAppend{turn}, screen);
}

bool SpeculativeGenerator::context_is_full() const {
  return driver_ && driver_->finish() == v1::FINISH_LENGTH;
}

uint32_t SpeculativeGenerator::context_length() const {
  return session_ ? session_->length_max() : options_.length_max;
}

std::string SpeculativeGenerator::Details() const {
  if (!session_) return {};
  const SessionStats& stats = session_->stats();
  std::string text =
      Concat("passes: ", stats.passes, " (", PerPass(stats.tokens, stats.passes),
             " tokens each of ", PerPass(stats.nodes_passed, stats.passes), " drafted); up ",
             HumanBytes(stats.bytes_up), ", down ", HumanBytes(stats.bytes_down));
  if (stats.attachments > 1) text += Concat("; attached ", stats.attachments, " times");
  return text;
}

}  // namespace outrider
