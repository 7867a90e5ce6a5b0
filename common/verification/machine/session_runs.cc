#include "common/verification/machine/session_runs.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>

#include "common/base/check.h"
#include "common/verification/wire_time.h"

namespace outrider {

SessionRuns::SessionRuns(VerifierState& state, Attachments& attachments)
    : state_(state), attachments_(attachments) {}

// --- the next run ---

void SessionRuns::Begin() {
  if (state_.run.running()) return;
  state_.sessions.ForEach([this](VerifierSession& session) { Consider(session); });
  for (const Scheduler::Share& share : state_.run.Choose()) BeginWork(share);
  for (const uint64_t session : state_.memory.TakeForks())
    BeginFork(*state_.sessions.Find(session));
  if (TargetRun* const run = state_.run.Begin(state_.moment.now))
    state_.moment.Ask(VerifierEvents::RunTarget{run});
}

// Whatever it could have of a run now.
void SessionRuns::Consider(VerifierSession& session) {
  const VerifiedSequence& sequence = *session.sequence;
  if (!session.stream || !state_.memory.Has(session) || !sequence.writing() ||
      session.stream->outbox.unread_verdict_count() >= state_.config.unread_verdicts_max) {
    return;
  }
  const SessionPace::Start start = session.pace.NextStart(sequence);
  const bool starts = start.at && state_.moment.now >= *start.at;
  if (start.at && !starts) state_.sessions.WakeNoLater(session, *start.at);
  const auto length = static_cast<uint32_t>(sequence.history().size());
  const uint32_t prompt_tokens = length - session.at_target.read_count();
  if (prompt_tokens == 0 && !starts) return state_.run.Expect();
  state_.run.Consider({.session = session.number,
                       .prompt_tokens = prompt_tokens,
                       .wants_pass = starts,
                       .node_count = NodesWorthTheirRows(session),
                       .can_wait = start.can_wait});
}

// One who is alone chooses for himself what pays.
uint32_t SessionRuns::NodesWorthTheirRows(const VerifierSession& session) const {
  const VerifiedSequence& sequence = *session.sequence;
  if (state_.sessions.size() == 1) {
    return std::min(sequence.pass_nodes_wanted(), sequence.node_count());
  }
  return sequence.NodesOfChance(state_.run.LeastChance() / session.record.truth());
}

void SessionRuns::BeginWork(const Scheduler::Share& share) {
  VerifierSession& session = *state_.sessions.Find(state_.run.CandidateOf(share).session);
  VerifiedSequence& sequence = *session.sequence;
  TargetWork& work = state_.run.Add(session.number);
  session.at_target.BeginWork(
      sequence.history().tokens().subspan(session.at_target.read_count(), share.prompt_tokens),
      state_.moment.now, work);
  if (!share.has_pass) return;
  work.has_pass = true;
  session.promised = sequence.Promise(share.node_count);
  work.nodes = sequence.BeginPass(share.node_count);
  work.chooser = &sequence.chooser();
  work.history = &sequence.history();
  session.seen_at.reset();
  // Of a pass over what was drafted here the time since then would tell of no round trip.
  if (sequence.last_id() != Sketch::kRoot && !sequence.drafted_here()) {
    session.seen_at = session.pace.last_growth();
  }
}

// What it begins with is there now, and may not be later.
void SessionRuns::BeginFork(VerifierSession& session) {
  session.at_target.BeginWork({}, state_.moment.now, state_.run.Add(session.number));
}

// --- what came of it ---

void SessionRuns::End() {
  for (TargetWork& work : state_.run.End()) EndWork(work);
}

void SessionRuns::EndWork(TargetWork& work) {
  VerifierSession& session = *state_.sessions.Find(work.session);
  session.at_target.EndWork(work);
  const bool came_to_something = work.status.ok() && !session.hidden;
  if (work.has_pass && !came_to_something) session.sequence->DropPass();
  if (session.hidden) return attachments_.Erase(session);
  if (!work.status.ok())
    return attachments_.RemoveWithFault(session, v1::Fault::TARGET, work.status);
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
  // In turns verdicts say when the newest node came, and how long the pass has taken.
  const bool says_when = session.seen_at && sequence.verdict_count() % 2 == 1;
  const auto seen_at = says_when ? session.seen_at : std::nullopt;
  v1::Verdict& verdict = stream ? stream->outbox.AddVerdict(seen_at) : unsent_verdict_;
  const Outcome commit = sequence.EndPass(work.outcome, verdict);
  if (!says_when) verdict.set_pass_us(WireMicroseconds(state_.run.pass_time()));

  const size_t length = sequence.history().size();
  const auto node_count = static_cast<uint32_t>(work.nodes.size());
  const auto tokens = static_cast<uint32_t>(length - before);
  session.at_target.PassCommitted(commit, static_cast<uint32_t>(length));
  session.idle_since = state_.moment.now;
  session.pace.Yielded(node_count, tokens);
  session.record.Passed(session.promised, tokens - 1);
  state_.run.Committed(tokens);
  attachments_.RootKnown(session);
  ++counts_.passes;
  counts_.pass_nodes += node_count;
  counts_.tokens += tokens;
  if (node_count == 0) ++counts_.alone_passes;
  if (!stream) return;
  const bool has_ended = sequence.finish() != v1::FINISH_NONE;
  if (has_ended && attachments_.draining()) return attachments_.ReplyEnded(*stream);
  state_.streams.Pump(*stream);
}

void SessionRuns::Hear(const VerifierEvents::HintFound& event) {
  const VerifierSession* const session = state_.sessions.Find(event.session);
  if (!session || !session->wants_hints || !session->stream || !session->sequence->in_pass()) {
    return;
  }
  if (session->sequence->drafted_here()) return;  // nobody drafts by it
  session->sequence->Describe(event.outcome, hint_);
  hint_.set_exit(event.exit);
  hint_.set_probability(
      static_cast<uint32_t>(std::lround(255 * std::clamp(event.probability, 0.0, 1.0))));
  if (session->stream->outbox.SetHint(hint_)) ++counts_.hints_sent;
  state_.streams.Pump(*session->stream);
}

void SessionRuns::CheckInvariants() const {
  state_.sessions.ForEach([this](const VerifierSession& session) {
    OUTRIDER_CHECK(!session.at_target.in_run() || state_.run.running(),
                   "who is in the run is in one that runs");
  });
}

}  // namespace outrider
