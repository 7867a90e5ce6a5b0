// What the verifier machine has the target do, and the memory that takes.
#include <algorithm>
#include <cmath>
#include <utility>

#include "common/base/check.h"
#include "common/base/status.h"
#include "server/verifier_machine.h"
#include "server/verifier_parts.h"
#include "server/wire_time.h"

namespace outrider {

// --- memory ---

uint32_t VerifierMachine::PagesFor(uint32_t tokens) const {
  return (tokens + config_.page_tokens - 1) / config_.page_tokens;
}

// For its longest history, and the nodes of a pass behind it.
uint32_t VerifierMachine::PagesOf(const VerifiedSequence& sequence) const {
  return PagesFor(sequence.length_max()) + PagesFor(sequence.pass_nodes());
}

// Whether so many pages and a sequence are free, if need be once somebody idle has lost its own.
bool VerifierMachine::MakeRoom(uint32_t pages) {
  uint32_t could_be_pages = free_pages_;
  uint32_t could_be_sequences = free_sequences_;
  for (const auto& [number, session] : sessions_) {
    if (!CanEvict(*session)) continue;
    could_be_pages += session->page_count;
    ++could_be_sequences;
  }
  if (could_be_pages < pages || could_be_sequences == 0) return false;
  while (free_pages_ < pages || free_sequences_ == 0) {
    ReleaseMemory(LongestIdle());
    ++stats_.evictions;
  }
  return true;
}

bool VerifierMachine::CanEvict(const Session& session) const {
  const bool is_idle = !session.stream || !session.sequence->writing();
  return session.memory == Session::Memory::kReserved && !session.in_run && is_idle;
}

VerifierMachine::Session& VerifierMachine::LongestIdle() {
  Session* longest = nullptr;
  for (const auto& [number, session] : sessions_) {
    if (!CanEvict(*session)) continue;
    if (!longest || session->idle_since < longest->idle_since) longest = session.get();
  }
  OUTRIDER_CHECK(longest != nullptr, "room is made where there is some to be had");
  return *longest;
}

void VerifierMachine::TakeMemory(Session& session) {
  OUTRIDER_CHECK(free_pages_ >= session.page_count && free_sequences_ > 0, "room has been made");
  free_pages_ -= session.page_count;
  --free_sequences_;
  session.memory = Session::Memory::kReserved;
}

void VerifierMachine::ReleaseMemory(Session& session) {
  if (session.memory != Session::Memory::kReserved) return;
  session.memory = Session::Memory::kNone;
  free_pages_ += session.page_count;
  ++free_sequences_;
  if (session.target_id) to_close_.push_back(*session.target_id);
  session.target_id.reset();
  session.read_count = 0;
  session.commit.reset();
  session.truncate_to.reset();
}

void VerifierMachine::WantMemory(Session& session) {
  if (session.memory != Session::Memory::kNone || !session.sequence->writing()) return;
  session.memory = Session::Memory::kQueued;
  memory_queue_.push_back(&session);
}

void VerifierMachine::LeaveMemoryQueue(Session& session) {
  if (session.memory != Session::Memory::kQueued) return;
  session.memory = Session::Memory::kNone;
  std::erase(memory_queue_, &session);
}

void VerifierMachine::ServeMemoryQueue() {
  while (!memory_queue_.empty() && MakeRoom(memory_queue_.front()->page_count)) {
    TakeMemory(*memory_queue_.front());
    memory_queue_.pop_front();
  }
}

// --- the next run ---

void VerifierMachine::Schedule() {
  if (running_) return;
  FindCandidates();
  scheduler_.Choose(candidates_, shares_);
  if (shares_.empty() && to_close_.empty()) return;
  run_.works.clear();
  run_.closed.clear();
  run_.closed.swap(to_close_);
  for (const Scheduler::Share& share : shares_) {
    BeginWork(*candidate_sessions_[share.candidate], share);
  }
  running_ = true;
  run_begin_ = now_;
  ++stats_.runs;
  actions_->push_back(RunTarget{&run_});
}

void VerifierMachine::FindCandidates() {
  candidates_.clear();
  candidate_sessions_.clear();
  for (const auto& [number, session] : sessions_) {
    const std::optional<Scheduler::Candidate> candidate = CandidateOf(*session);
    if (!candidate) continue;
    candidates_.push_back(*candidate);
    candidate_sessions_.push_back(session.get());
  }
}

// What a session could have of a run; none: nothing now.
std::optional<Scheduler::Candidate> VerifierMachine::CandidateOf(Session& session) {
  const VerifiedSequence& sequence = *session.sequence;
  if (!session.stream || session.memory != Session::Memory::kReserved || !sequence.writing() ||
      session.stream->outbox.unread_verdict_count() >= config_.unread_verdicts_max) {
    return std::nullopt;
  }
  Scheduler::Candidate candidate = {
      session.number, static_cast<uint32_t>(sequence.history().size()) - session.read_count};
  if (session.dry_policy == v1::DRY_POLICY_ALONE && !sequence.told_to_go()) {
    const MonotonicTime begin_at = session.due.BeginAt();
    candidate.wants_pass = now_ >= begin_at;
    candidate.node_count = std::min(sequence.pass_nodes(), sequence.node_count());
    if (now_ < begin_at) session_deadlines_.SetNoLater(session.number, begin_at);
  } else if (sequence.has_growth() || sequence.told_to_go()) {
    candidate.wants_pass = true;
    candidate.node_count = std::min(sequence.pass_nodes(), sequence.node_count());
  } else if (session.dry_policy != v1::DRY_POLICY_WAIT) {
    const MonotonicTime alone_at = session.dry.AloneAt();
    candidate.wants_pass = candidate.can_wait = now_ >= alone_at;
    if (now_ < alone_at) session_deadlines_.SetNoLater(session.number, alone_at);
  }
  if (candidate.prompt_tokens == 0 && !candidate.wants_pass) return std::nullopt;
  return candidate;
}

// That answers the root, which has become known or has a device again.
void VerifierMachine::TimeGrowth(Session& session) {
  const VerifiedSequence& sequence = *session.sequence;
  session.dry.RootKnown(sequence.verdict_count(), !sequence.has_growth(), pass_seconds_.value(),
                        now_);
  session.due.RootKnown(sequence.verdict_count(), sequence.Promise(), now_);
}

void VerifierMachine::BeginWork(Session& session, const Scheduler::Share& share) {
  VerifiedSequence& sequence = *session.sequence;
  TargetWork& work = run_.works.emplace_back();
  work.session = session.number;
  work.sequence = session.target_id;
  work.commit = std::exchange(session.commit, std::nullopt);
  work.truncate_to = std::exchange(session.truncate_to, std::nullopt);
  if (share.prompt_tokens > 0) {
    work.prompt = sequence.history().tokens().subspan(session.read_count, share.prompt_tokens);
    if (!session.reading_since) {
      session.reading_since = now_;
      session.read_before = session.read_count;
    }
  }
  if (share.has_pass) {
    work.has_pass = true;
    work.nodes = sequence.BeginPass(share.node_count);
    work.chooser = &sequence.chooser();
    work.history = &sequence.history();
    session.seen_at = std::nullopt;
    if (sequence.last_id() != Sketch::kRoot) session.seen_at = session.last_growth;
  }
  session.in_run = true;
}

// --- what came of it ---

void VerifierMachine::On(const TargetDone&) {
  OUTRIDER_CHECK(running_, "what is done was begun");
  running_ = false;
  ChargeRun();
  for (TargetWork& work : run_.works) EndWork(work);
  TakeHeld();
}

// Everybody pays for its rows and its prompt's tokens.
void VerifierMachine::ChargeRun() {
  uint32_t rows = 0;
  uint32_t tokens = 0;
  for (const TargetWork& work : run_.works) {
    if (work.has_pass) rows += static_cast<uint32_t>(1 + work.nodes.size());
    tokens += static_cast<uint32_t>(work.prompt.size());
  }
  for (const TargetWork& work : run_.works) {
    Duration cost{};
    if (work.has_pass) cost += run_.pass_time * (1 + work.nodes.size()) / rows;
    if (!work.prompt.empty()) cost += run_.prompt_time * work.prompt.size() / tokens;
    scheduler_.Charge(work.session, cost);
  }
  if (tokens > 0) scheduler_.LearnPromptTime(tokens, run_.prompt_time);
  if (rows > 0) pass_seconds_.Add(std::chrono::duration<double>(run_.pass_time).count());
  stats_.prompt_tokens += tokens;
}

void VerifierMachine::EndWork(TargetWork& work) {
  Session& session = *sessions_.at(work.session);
  session.in_run = false;
  session.target_id = work.sequence;
  if (work.has_pass && (session.gone || !work.status.ok())) session.sequence->DropPass();
  if (session.gone) return Erase(session);
  if (!work.status.ok()) return RemoveWithFault(session, v1::Fault::TARGET, work.status);
  if (!work.prompt.empty()) EndPrompt(session, work);
  if (work.has_pass) EndPass(session, work);
}

void VerifierMachine::EndPrompt(Session& session, const TargetWork& work) {
  session.read_count += static_cast<uint32_t>(work.prompt.size());
  const auto total = static_cast<uint32_t>(session.sequence->history().size());
  const bool is_read = session.read_count == total;
  const MonotonicTime since = *session.reading_since;
  if (is_read) {
    session.reading_since.reset();
    TimeGrowth(session);
  }
  if (!session.stream || (is_read && since == run_begin_)) return;
  v1::PromptProgress& progress = session.stream->outbox.SetProgress();
  progress.set_total(total);
  progress.set_cache(session.read_before);
  progress.set_processed(session.read_count);
  progress.set_time_ms(WireMilliseconds(now_ - since));
  Pump(*session.stream);
}

void VerifierMachine::EndPass(Session& session, const TargetWork& work) {
  VerifiedSequence& sequence = *session.sequence;
  Stream* const stream = session.stream;
  const size_t before = sequence.history().size();
  // In turns verdicts say when the newest node came, and how long the pass has taken.
  const bool says_when = session.seen_at && sequence.verdict_count() % 2 == 1;
  const auto seen_at = says_when ? session.seen_at : std::nullopt;
  v1::Verdict& verdict = stream ? stream->outbox.AddVerdict(seen_at) : unsent_verdict_;
  session.commit = sequence.EndPass(work.outcome, verdict);
  if (!says_when) verdict.set_pass_us(WireMicroseconds(run_.pass_time));

  const auto node_count = static_cast<uint32_t>(work.nodes.size());
  const auto tokens = static_cast<uint32_t>(sequence.history().size() - before);
  session.read_count = static_cast<uint32_t>(sequence.history().size());
  session.idle_since = now_;
  session.dry.Yielded(node_count, tokens);
  session.due.Yielded(tokens);
  TimeGrowth(session);
  ++stats_.passes;
  stats_.pass_nodes += node_count;
  stats_.tokens += tokens;
  if (node_count == 0) ++stats_.alone_passes;
  if (!stream) return;
  const bool has_ended = sequence.finish() != v1::FINISH_NONE;
  if (drain_deadline_ && has_ended) return TellDraining(*stream);
  Pump(*stream);
}

void VerifierMachine::On(const HintFound& event) {
  const auto found = sessions_.find(event.session);
  if (found == sessions_.end()) return;
  Session& session = *found->second;
  if (!session.wants_hints || !session.stream || !session.sequence->in_pass()) return;
  session.sequence->Describe(event.outcome, hint_);
  hint_.set_exit(event.exit);
  hint_.set_probability(
      static_cast<uint32_t>(std::lround(255 * std::clamp(event.probability, 0.0, 1.0))));
  if (session.stream->outbox.SetHint(hint_)) ++stats_.hints_sent;
  Pump(*session.stream);
}

}  // namespace outrider
