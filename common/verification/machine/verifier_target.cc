// What the verifier machine has the target do.
#include <algorithm>
#include <chrono>
#include <cmath>

#include "common/base/check.h"
#include "common/verification/machine/verifier_machine.h"
#include "common/verification/wire_time.h"

namespace outrider {

// --- the next run ---

void VerifierMachine::Schedule() {
  if (run_.running()) return;
  sessions_.ForEach([this](VerifierSession& session) { Consider(session); });
  for (const Scheduler::Share& share : run_.Choose()) BeginWork(share);
  for (const uint64_t session : memory_.TakeForks()) BeginFork(*sessions_.Find(session));
  if (TargetRun* const run = run_.Begin(moment_.now)) moment_.Ask(RunTarget{run});
}

// Whatever it could have of a run now.
void VerifierMachine::Consider(VerifierSession& session) {
  const VerifiedSequence& sequence = *session.sequence;
  if (!session.stream || !memory_.Has(session) || !sequence.writing() ||
      session.stream->outbox.unread_verdict_count() >= config_.unread_verdicts_max) {
    return;
  }
  const SessionPace::Start start = session.pace.NextStart(sequence);
  const bool starts = start.at && moment_.now >= *start.at;
  if (start.at && !starts) sessions_.WakeNoLater(session, *start.at);
  const auto length = static_cast<uint32_t>(sequence.history().size());
  const uint32_t prompt_tokens = length - session.at_target.read_count();
  if (prompt_tokens == 0 && !starts) return run_.Expect();
  run_.Consider({.session = session.number,
                 .prompt_tokens = prompt_tokens,
                 .wants_pass = starts,
                 .node_count = std::min(sequence.pass_nodes_wanted(), sequence.node_count()),
                 .can_wait = start.can_wait});
}

// The device has a new root to grow from, or this root has a device again.
void VerifierMachine::RootKnown(VerifierSession& session) {
  session.pace.RootKnown(*session.sequence, run_.pass_seconds(), moment_.now);
}

void VerifierMachine::BeginWork(const Scheduler::Share& share) {
  VerifierSession& session = *sessions_.Find(run_.CandidateOf(share).session);
  VerifiedSequence& sequence = *session.sequence;
  TargetWork& work = run_.Add(session.number);
  session.at_target.BeginWork(
      sequence.history().tokens().subspan(session.at_target.read_count(), share.prompt_tokens),
      moment_.now, work);
  if (!share.has_pass) return;
  work.has_pass = true;
  work.nodes = sequence.BeginPass(share.node_count);
  work.chooser = &sequence.chooser();
  work.history = &sequence.history();
  session.seen_at.reset();
  if (sequence.last_id() != Sketch::kRoot) session.seen_at = session.pace.last_growth();
}

// What it begins with is there now, and may not be later.
void VerifierMachine::BeginFork(VerifierSession& session) {
  session.at_target.BeginWork({}, moment_.now, run_.Add(session.number));
}

// --- what came of it ---

void VerifierMachine::On(const TargetDone&) {
  for (TargetWork& work : run_.End()) EndWork(work);
  ReceiveHeld();
}

void VerifierMachine::EndWork(TargetWork& work) {
  VerifierSession& session = *sessions_.Find(work.session);
  session.at_target.EndWork(work);
  const bool came_to_something = work.status.ok() && !session.hidden;
  if (work.has_pass && !came_to_something) session.sequence->DropPass();
  if (session.hidden) return Erase(session);
  if (!work.status.ok()) return RemoveWithFault(session, v1::Fault::TARGET, work.status);
  memory_.Learned(session);
  if (!work.prompt.empty()) EndPrompt(session, static_cast<uint32_t>(work.prompt.size()));
  if (work.has_pass) EndPass(session, work);
}

// What took one run alone is not told of.
void VerifierMachine::EndPrompt(VerifierSession& session, uint32_t count) {
  const SequenceAtTarget::Reading reading = *session.at_target.reading();
  const auto total = static_cast<uint32_t>(session.sequence->history().size());
  session.at_target.PromptRead(count, total);
  const bool is_read = session.at_target.read_count() == total;
  if (is_read) RootKnown(session);
  if (!session.stream || (is_read && reading.since == run_.begun_at())) return;
  v1::PromptProgress& progress = session.stream->outbox.SetProgress();
  progress.set_total(total);
  progress.set_cache(reading.begin);
  progress.set_processed(session.at_target.read_count());
  progress.set_time_ms(WireMilliseconds(moment_.now - reading.since));
  streams_.Pump(*session.stream);
}

void VerifierMachine::EndPass(VerifierSession& session, const TargetWork& work) {
  VerifiedSequence& sequence = *session.sequence;
  VerifierStream* const stream = session.stream;
  const size_t before = sequence.history().size();
  // In turns verdicts say when the newest node came, and how long the pass has taken.
  const bool says_when = session.seen_at && sequence.verdict_count() % 2 == 1;
  const auto seen_at = says_when ? session.seen_at : std::nullopt;
  v1::Verdict& verdict = stream ? stream->outbox.AddVerdict(seen_at) : unsent_verdict_;
  const Outcome commit = sequence.EndPass(work.outcome, verdict);
  if (!says_when) verdict.set_pass_us(WireMicroseconds(run_.pass_time()));

  const size_t length = sequence.history().size();
  const auto node_count = static_cast<uint32_t>(work.nodes.size());
  const auto tokens = static_cast<uint32_t>(length - before);
  session.at_target.PassCommitted(commit, static_cast<uint32_t>(length));
  session.idle_since = moment_.now;
  session.pace.Yielded(node_count, tokens);
  RootKnown(session);
  ++counted_.passes;
  counted_.pass_nodes += node_count;
  counted_.tokens += tokens;
  if (node_count == 0) ++counted_.alone_passes;
  if (!stream) return;
  const bool has_ended = sequence.finish() != v1::FINISH_NONE;
  if (drain_deadline_ && has_ended) return TellDraining(*stream);
  streams_.Pump(*stream);
}

void VerifierMachine::On(const HintFound& event) {
  const VerifierSession* const session = sessions_.Find(event.session);
  if (!session || !session->wants_hints || !session->stream || !session->sequence->in_pass()) {
    return;
  }
  session->sequence->Describe(event.outcome, hint_);
  hint_.set_exit(event.exit);
  hint_.set_probability(
      static_cast<uint32_t>(std::lround(255 * std::clamp(event.probability, 0.0, 1.0))));
  if (session->stream->outbox.SetHint(hint_)) ++counted_.hints_sent;
  streams_.Pump(*session->stream);
}

}  // namespace outrider
