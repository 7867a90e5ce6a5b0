#include "client/device/drafted_conversation.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "client/device/reply_times.h"
#include "common/base/clock.h"
#include "common/base/random_bits.h"
#include "common/base/status.h"

namespace outrider {
namespace {

Ending EndingOf(v1::Finish finish) {
  switch (finish) {
    case v1::FINISH_NONE:
      return Ending::kInterrupted;
    case v1::FINISH_LENGTH:
      return Ending::kContextFull;
    default:
      return Ending::kComplete;
  }
}

}  // namespace

// Hands on what a session tells of one reply, and takes its times.
class DraftedConversation::Relay final : public SessionDriver::Observer {
 public:
  // `trace` may be null.
  Relay(Conversation::Observer& observer, SessionTrace* trace)
      : observer_(observer), trace_(trace) {}

  void OnText(std::string_view text) override {
    const MonotonicTime begin = RealClock().Now();
    observer_.OnText(text);
    if (trace_ != nullptr) trace_->Shown(text.size(), begin, RealClock().Now());
  }
  void OnTokens(std::span<const TokenId> tokens) override {
    times_.Came(tokens.size());
    observer_.OnTokens(tokens);
  }
  void OnPromptProgress(uint32_t processed, uint32_t total) override {
    read_ = processed;
    observer_.OnPromptProgress(processed, total);
  }
  void OnReport(const absl::Status& status) override { observer_.OnReport(status); }
  bool Interrupted() override { return observer_.Interrupted(); }

  void AddTo(ConversationStats& stats) const {
    times_.AddTo(stats);
    stats.computed_tokens += read_;
  }

 private:
  Conversation::Observer& observer_;
  SessionTrace* const trace_;
  ReplyTimes times_;
  uint32_t read_ = 0;
};

DraftedConversation::Parts DraftedConversation::Metered(Parts parts, CostModel& costs) {
  const auto meter = [&costs](Control& control) {
    if (control.flash_meter == nullptr) return;
    control.controller = std::make_unique<MeteredController>(std::move(control.controller),
                                                             *control.flash_meter, costs);
  };
  meter(parts.control);
  if (parts.fallback) meter(parts.fallback->control);
  return parts;
}

DraftedConversation::DraftedConversation(SessionOptions options, Parts parts)
    : options_(std::move(options)),
      costs_(parts.control.assumed),
      parts_(Metered(std::move(parts), costs_)) {
  if (parts_.fallback) {
    const Control& control = parts_.fallback->control;
    FallbackVerifier& both = parts_.fallback->verifier;
    places_ = std::make_unique<PlaceController>(
        *parts_.control.controller, PlaceController::Side{*control.controller, control.assumed},
        costs_, [&both](FallbackVerifier::Place place) { both.Prefer(place); });
    both.TellMoves([this](FallbackVerifier::Place place) { places_->Moved(place); });
  }
  if (parts_.trace) traced_drafter_.emplace(*parts_.drafter, *parts_.trace);
}

DraftedConversation::~DraftedConversation() {
  if (!driver_) return;
  driver_->Close();
  KeepPrices();
}

void DraftedConversation::KeepPrices() const {
  using Place = FallbackVerifier::Place;
  if (!places_) {
    const SessionStats& stats = session_->stats();
    KeepAccepted(stats);
    return KeepPrices(parts_.control, costs_, stats.passes);
  }
  const auto keep = [this](const Control& control, Place place) {
    KeepPrices(control, places_->costs_at(place), places_->verdicts_at(place));
  };
  keep(parts_.control, Place::kServer);
  keep(parts_.fallback->control, Place::kDevice);
}

// Of one target alone: with a fallback there are two.
void DraftedConversation::KeepAccepted(const SessionStats& stats) const {
  if (!parts_.control.keep_accepted) return;
  parts_.control.keep_accepted({.verdicts = stats.passes,
                                .tokens = stats.passes + stats.nodes_accepted,
                                .nodes = stats.nodes_passed});
}

// Fewer passes than this know little. Where the server drafts all of them have as many rows, but what is
// known of its draft is kept.
void DraftedConversation::KeepPrices(const Control& control, const CostModel& costs,
                                     uint64_t verdicts) const {
  constexpr uint64_t kPassesMin = 20;
  const CostModel::Assumed learned = costs.Learned();
  Findings findings = control.controller->findings();
  const bool knows_something = learned.knows_rows || findings.server != ServerFindings();
  if (verdicts < kPassesMin || !knows_something) return;
  findings.pass_nodes = std::min(findings.pass_nodes, options_.sketch.pass_node_count_max);
  control.keep({.pass_ms = learned.pass_ms,
                .row_ms = learned.pass_node_ms,
                .draft_ms = learned.draft_ms,
                .draft_node_ms = learned.draft_node_ms,
                .findings = findings,
                .passes = learned.passes,
                .knows_rows = learned.knows_rows});
}

absl::StatusOr<Ending> DraftedConversation::Continue(std::span<const TokenId> tokens, bool is_reply,
                                                     Observer& observer) {
  Relay relay(observer, parts_.trace.get());
  const absl::Status status = session_ ? GoOn(tokens, relay) : Begin(tokens, is_reply, relay);
  relay.AddTo(stats_);
  if (session_) SetTokens(session_->committed());
  OUTRIDER_RETURN_IF_ERROR(status);
  return EndingOf(driver_->finish());
}

absl::Status DraftedConversation::Begin(std::span<const TokenId> tokens, bool is_reply,
                                        Relay& relay) {
  options_.prompt.assign(tokens.begin(), tokens.end());
  options_.continues_text = !is_reply;
  OUTRIDER_ASSIGN_OR_RETURN(
      session_, Session::Create(options_, {parts_.tokenizer, controller(), costs_, RandomBits}));
  Drafter& drafter = traced_drafter_ ? *traced_drafter_ : *parts_.drafter;
  driver_ = std::make_unique<SessionDriver>(
      *session_, drafter,
      TokenHistory::Options{.vocabulary_size = parts_.draft_vocabulary_size,
                            .capacity = size_t{options_.length_max} + 1,
                            .counts_tokens = options_.sampling.penalizes()},
      *parts_.verifier, parts_.trace.get());
  stats_.prompt_tokens += tokens.size();
  return driver_->Run(Session::Start{}, relay);
}

absl::Status DraftedConversation::GoOn(std::span<const TokenId> tokens, Relay& relay) {
  const auto committed = session_->committed();
  auto shared = static_cast<size_t>(std::ranges::mismatch(tokens, committed).in1 - tokens.begin());
  if (shared == tokens.size() && shared > 0) --shared;  // a turn has a token
  OUTRIDER_RETURN_IF_ERROR(
      driver_->Run(Session::UserTruncate{static_cast<uint32_t>(shared)}, relay));
  const auto turn = tokens.subspan(shared);
  OUTRIDER_RETURN_IF_ERROR(session_->CheckTurn(turn));
  stats_.prompt_tokens += turn.size();
  return driver_->Run(Session::UserAppend{turn}, relay);
}

ConversationStats DraftedConversation::stats() const {
  ConversationStats stats = stats_;
  stats.placement = controller().course().placement;
  if (places_) {
    stats.moves = places_->moves();
    stats.passes_here = places_->verdicts_at(FallbackVerifier::Place::kDevice);
    stats.fallback_failure = parts_.fallback->verifier.device_failure();
  }
  if (session_) {
    stats.session = session_->stats();
    stats.times = session_->times();
  }
  if (driver_) stats.answers = driver_->answer_times();
  return stats;
}

uint32_t DraftedConversation::context_length() const {
  return session_ ? session_->length_max() : options_.length_max;
}

}  // namespace outrider
