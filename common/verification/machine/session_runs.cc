#include "common/verification/machine/session_runs.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/speculation/costs/nearly_sure.h"
#include "common/verification/machine/gathering.h"
#include "common/verification/machine/run_time.h"
#include "common/verification/wire_time.h"

namespace outrider {

SessionRuns::SessionRuns(VerifierState& state, Attachments& attachments)
    : state_(state), attachments_(attachments), exit_worth_(state.config.exit_depths.size()) {
  state_.memory.SetWhenIdle([this](const VerifierSession& session) { return WhenIdle(session); });
}

// --- the next run ---

// While a run waits for others to get ready, an event costs what it changes: who is ready already is
// not looked at again before the run begins.
void SessionRuns::Begin() {
  if (state_.run.running()) return;
  begin_at_.reset();
  state_.sessions.TakeTouched([this](VerifierSession& session) { Gather(session); });
  if (const Duration wait = GatheringTime(); wait > Duration::zero()) {
    begin_at_ = state_.moment.now + wait;
    return;
  }
  if (beside_count_ < gathered_.size()) ConsiderGathered();  // else nobody begins a run
  for (const Scheduler::Share& share : state_.run.Choose(state_.sessions.expected_count())) {
    BeginWork(share);
  }
  for (const uint64_t session : state_.memory.TakeForks())
    BeginFork(*state_.sessions.Find(session));
  std::vector<bool>& exits_on = state_.run.exits_on();
  exits_on.resize(exit_worth_.exit_count());
  for (size_t i = 0; i < exits_on.size(); ++i) exits_on[i] = exit_worth_.on(i);
  if (TargetRun* const run = state_.run.Begin(state_.moment.now))
    state_.moment.Ask(VerifierEvents::RunTarget{run});
}

void SessionRuns::ConsiderGathered() {
  const auto ready = static_cast<uint32_t>(gathered_.size()) - beside_count_;
  state_.run.SetAtWork(ready + state_.sessions.expected_count());
  for (const auto& [number, claim] : std::exchange(gathered_, {})) {
    if (VerifierSession* const session = state_.sessions.Find(number)) Consider(*session);
  }
  ready_count_ = 0;
  beside_count_ = 0;
}

void SessionRuns::Gather(VerifierSession& session) {
  if (const auto known = gathered_.find(session.number); known != gathered_.end()) {
    if (known->second == Scheduler::Claim::kPart) --ready_count_;
    if (known->second == Scheduler::Claim::kBeside) --beside_count_;
    gathered_.erase(known);
  }
  const std::optional<Turn> turn = TurnOf(session);
  if (!turn) return;
  gathered_.insert({session.number, turn->claim});
  if (turn->claim == Scheduler::Claim::kPart) ++ready_count_;
  if (turn->claim == Scheduler::Claim::kBeside) ++beside_count_;
}

// For how long the run is to wait for those who are nearly ready.
Duration SessionRuns::GatheringTime() const {
  const uint32_t ready = ready_count_;
  const std::optional<RunTime::Line> line = state_.run.run_line();
  if (ready == 0 || !line) return Duration::zero();
  const std::chrono::duration<double> seconds(line->run_seconds);
  const auto run = std::chrono::duration_cast<Duration>(seconds);
  const MonotonicTime now = state_.moment.now;
  auto next = state_.sessions.due().lower_bound({now, 0});
  return GatherFor(ready, run, [&]() -> std::optional<Duration> {
    if (next == state_.sessions.due().end()) return std::nullopt;
    return next++->first - now;
  });
}

// Whatever it could have of a run now; none: nothing.
std::optional<SessionRuns::Turn> SessionRuns::TurnOf(VerifierSession& session) {
  const VerifiedSequence& sequence = *session.sequence;
  state_.sessions.Expect(session, false);
  if (!session.stream || !state_.memory.Has(session) || !sequence.writing() ||
      MustBeSeenFirst(session)) {
    return std::nullopt;
  }
  const SessionPace::Start start = session.pace.NextStart(sequence);
  const bool starts = start.at && state_.moment.now >= *start.at;
  if (start.at && !starts) state_.sessions.WakeNoLater(session, *start.at);
  const auto length = static_cast<uint32_t>(sequence.history().size());
  const uint32_t prompt_tokens = length - session.at_target.read_count();
  if (prompt_tokens == 0 && !starts) {
    state_.sessions.Expect(session, true,
                           sequence.drafted_here() ? session.draft.due() : session.pace.GrowthAt());
    if (state_.sessions.size() == 1) return std::nullopt;
    return Turn{0, true, Scheduler::Claim::kBeside};
  }
  return Turn{prompt_tokens, starts,
              start.can_wait ? Scheduler::Claim::kSpare : Scheduler::Claim::kPart};
}

void SessionRuns::Consider(VerifierSession& session) {
  const std::optional<Turn> turn = TurnOf(session);
  if (!turn) return;
  state_.sessions.Touch(session);  // until it has had its turn
  if (turn->claim == Scheduler::Claim::kBeside && !Joins(session)) return session.pace.LetPass();
  Scheduler::Candidate candidate = {.session = session.number,
                                    .prompt_tokens = turn->prompt_tokens,
                                    .wants_pass = turn->starts,
                                    .claim = turn->claim};
  if (turn->claim != Scheduler::Claim::kBeside) CountNodes(session, candidate);
  state_.run.Consider(candidate);
}

// Whether one that waits for growth has its root in a run of others.
bool SessionRuns::Joins(const VerifierSession& session) const {
  const std::optional<DryWait::PassTime> pass = state_.run.pass_time_known();
  return pass && session.pace.Joins(*session.sequence, {pass->seconds, state_.run.row_price()},
                                    state_.moment.now);
}

// One that has a stream and a reply to write is at work, or waits for its device, and is idle after a
// while.
SessionMemory::Idle SessionRuns::WhenIdle(const VerifierSession& session) const {
  const VerifiedSequence& sequence = *session.sequence;
  if (!session.stream || !sequence.writing()) {
    return SessionMemory::Idle{.since = session.idle_since, .from = session.idle_since};
  }
  const bool is_read = session.at_target.read_count() == sequence.history().size();
  const bool waits = MustBeSeenFirst(session) ||
                     (is_read && !sequence.drafted_here() && !session.pace.NextStart(sequence).at);
  if (!waits) return MemoryLender::kAtWork;
  return SessionMemory::Idle{.since = session.idle_since,
                             .from = session.idle_since + state_.config.idle_max};
}

bool SessionRuns::MustBeSeenFirst(const VerifierSession& session) const {
  const VerifierConfig& config = state_.config;
  const uint32_t unseen_max = std::min(
      config.unseen_verdicts_max, config.unseen_verdicts_first + session.sequence->seen_count());
  return session.sequence->unseen_count() >= unseen_max ||
         session.stream->outbox.unread_verdict_count() >= config.unread_verdicts_max;
}

// As its device reckons chances. One who is alone chooses for himself what pays.
double SessionRuns::LeastChanceOf(const VerifierSession& session) const {
  if (state_.sessions.size() == 1) return 0;
  return state_.run.least_chance() / session.record.truth();
}

// Those that are worth their rows.
void SessionRuns::CountNodes(const VerifierSession& session,
                             Scheduler::Candidate& candidate) const {
  const VerifiedSequence& sequence = *session.sequence;
  candidate.node_count = sequence.NodesOfChance(LeastChanceOf(session), candidate.by_doubt);
  // What comes true half as often is two halves of a power of two less likely.
  const auto shift = static_cast<size_t>(std::lround(-2 * std::log2(session.record.truth())));
  const size_t count = std::min(shift, candidate.by_doubt.size());
  std::shift_right(candidate.by_doubt.begin(), candidate.by_doubt.end(),
                   static_cast<ptrdiff_t>(count));
  std::ranges::fill(std::span(candidate.by_doubt).first(count), 0);
}

void SessionRuns::BeginWork(const Scheduler::Share& share) {
  VerifierSession& session = *state_.sessions.Find(state_.run.CandidateOf(share).session);
  VerifiedSequence& sequence = *session.sequence;
  TargetWork& work = state_.run.Add(session.number);
  state_.sessions.UseMayHaveChanged(session);  // none may take it away while it is in the run
  session.tally.RunBegun(state_.moment.now, stats_);
  session.at_target.BeginWork(
      sequence.history().tokens().subspan(session.at_target.read_count(), share.prompt_tokens),
      state_.moment.now, work);
  if (!share.has_pass) return;
  work.has_pass = true;
  work.is_guessed = WantsHints(session);
  session.guesses.clear();
  session.pace.Begins(sequence, state_.moment.now);
  if (const auto runs = session.kept_here.RunsLetPass(state_.run.stats().runs)) {
    state_.draft_worth.LetPass(*runs);
  }
  session.promised = sequence.Promise(share.node_count);
  work.nodes = sequence.BeginPass(share.node_count);
  const bool is_pruned = state_.run.pruning() != Pruning::kOff && !work.nodes.empty();
  if (work.is_guessed || is_pruned) work.candidates = sequence.TokensBeside();
  work.chooser = &sequence.chooser();
  work.history = &sequence.history();
  session.seen_at.reset();
  // Of a pass over what was drafted here the time since then would tell of no round trip.
  if (sequence.last_id() != Sketch::kRoot && !sequence.drafted_here()) {
    session.seen_at = session.pace.last_growth();
  }
}

// Where drafting is left to the server, nobody drafts by them; nor where next to no node is taken.
bool SessionRuns::WantsHints(const VerifierSession& session) const {
  return session.wants_hints && session.stream != nullptr && !session.sequence->drafted_here() &&
         LeastChanceOf(session) < kNearlySure;
}

// What it begins with is there now, and may not be later.
void SessionRuns::BeginFork(VerifierSession& session) {
  state_.sessions.UseMayHaveChanged(session);
  session.at_target.BeginWork({}, state_.moment.now, state_.run.Add(session.number));
}

// --- what came of it ---

void SessionRuns::End() {
  const std::span<TargetWork> works = state_.run.End();
  // Where nodes are pruned, or it is watched what that would come to, exits score for that as well:
  // it is no price of guesses.
  if (state_.run.pruning() == Pruning::kOff) {
    exit_worth_.Spent(state_.run.exit_time(), works.size());
  }
  for (TargetWork& work : works) EndWork(work);
  state_.memory.MayHaveRoom();  // nobody is in the run now
}

void SessionRuns::EndWork(TargetWork& work) {
  VerifierSession& session = *state_.sessions.Find(work.session);
  session.at_target.EndWork(work);
  session.tally.Charged(work.cost);
  state_.sessions.Touch(session);
  const bool came_to_something = work.status.ok() && !session.hidden;
  if (work.has_pass && !came_to_something) session.sequence->DropPass();
  if (session.hidden) return attachments_.Erase(session);
  if (!work.status.ok()) {
    state_.memory.Distrust(session);
    return attachments_.RemoveWithFault(session, v1::Fault::TARGET, work.status);
  }
  state_.memory.Learned(session);
  if (!work.prompt.empty()) EndPrompt(session, static_cast<uint32_t>(work.prompt.size()));
  if (work.has_pass) EndPass(session, work);
}

// What took one run alone is not told of.
void SessionRuns::EndPrompt(VerifierSession& session, uint32_t count) {
  const SequenceAtTarget::Reading reading = *session.at_target.reading();
  const auto total = static_cast<uint32_t>(session.sequence->history().size());
  session.at_target.PromptRead(count, total);
  const bool is_read = session.at_target.read_count() == total;
  if (is_read) attachments_.RootKnown(session);
  if (!session.stream || (is_read && reading.since == state_.run.begun_at())) return;
  v1::PromptProgress& progress = session.stream->outbox.SetProgress();
  progress.set_total(total);
  progress.set_cache(reading.begin);
  progress.set_processed(session.at_target.read_count());
  progress.set_time_ms(WireMilliseconds(state_.moment.now - reading.since));
  state_.streams.Pump(*session.stream);
}

void SessionRuns::EndPass(VerifierSession& session, const TargetWork& work) {
  VerifiedSequence& sequence = *session.sequence;
  VerifierStream* const stream = session.stream;
  const size_t before = sequence.history().size();
  if (work.is_guessed) exit_worth_.Judge(session.guesses, work.outcome, state_.moment.now);
  // In turns verdicts say when the newest node came, and how long the pass has taken.
  const bool says_when = session.seen_at && sequence.verdict_count() % 2 == 1;
  const auto seen_at = says_when ? session.seen_at : std::nullopt;
  v1::Verdict& verdict = stream ? stream->outbox.AddVerdict(seen_at) : unsent_verdict_;
  const Outcome commit = sequence.EndPass(work.outcome, verdict);
  if (!says_when) verdict.set_pass_us(WireMicroseconds(state_.run.pass_time()));
  verdict.set_least_chance(static_cast<uint32_t>(100 * std::min(1.0, LeastChanceOf(session))));

  const size_t length = sequence.history().size();
  const auto node_count = static_cast<uint32_t>(work.nodes.size());
  const auto tokens = static_cast<uint32_t>(length - before);
  session.at_target.PassCommitted(commit, static_cast<uint32_t>(length));
  session.idle_since = state_.moment.now;
  session.pace.Yielded(node_count, tokens);
  session.record.Passed(session.promised, tokens - 1);
  session.kept_here.Passed(node_count, tokens - 1);
  state_.run.Committed(tokens);
  attachments_.RootKnown(session);
  session.tally.PassEnded(node_count, tokens, sequence.finish(), state_.moment.now, stats_);
  const bool has_ended = sequence.finish() != v1::FINISH_NONE;
  if (!stream) return;
  if (has_ended && attachments_.draining()) return attachments_.ReplyEnded(*stream);
  state_.streams.Pump(*stream);
}

void SessionRuns::Hear(const VerifierEvents::HintFound& event) {
  VerifierSession* const session = state_.sessions.Find(event.session);
  if (!session || !session->sequence->in_pass()) return;
  OUTRIDER_CHECK(event.exit < exit_worth_.exit_count(), "an exit of this target guesses");
  session->guesses.push_back({.exit = event.exit,
                              .outcome = event.outcome,
                              .at = state_.moment.now,
                              .was_grown = session->sequence->IsGrownBelow(event.outcome)});
  if (!WantsHints(*session)) return;
  const bool by_softmax = state_.config.hint_order == HintOrder::kSoftmax;
  const double probability = by_softmax ? event.largest_softmax : event.probability;
  session->sequence->Describe(event.outcome, hint_);
  hint_.set_exit(event.exit);
  hint_.set_probability(
      static_cast<uint32_t>(std::lround(255 * std::clamp(probability, 0.0, 1.0))));
  if (session->stream->outbox.AddHint(hint_, RankOf(hint_))) ++hints_sent_;
  state_.streams.Pump(*session->stream);
}

double SessionRuns::RankOf(const v1::Hint& hint) {
  switch (state_.config.hint_order) {
    case HintOrder::kProbability:
    case HintOrder::kSoftmax:
      return hint.probability();
    case HintOrder::kArrival:
      return 0;  // of equal ranks the oldest goes first
    case HintOrder::kRandom:
      return static_cast<double>(state_.random_bits());
  }
  return 0;
}

void SessionRuns::CheckInvariants() const {
  state_.sessions.ForEach([this](const VerifierSession& session) {
    OUTRIDER_CHECK(!session.at_target.in_run() || state_.run.running(),
                   "who is in the run is in one that runs");
  });
}

}  // namespace outrider
