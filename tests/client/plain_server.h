// A server as plain as the protocol lets one be: sessions in a list, a pass when a test says so.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/verification/verified_sequence.h"
#include "proto/outrider/v1/verifier.pb.h"
#include "tests/client/oracle.h"

namespace outrider {

class PlainServer {
 public:
  PlainServer(const Oracle& oracle, VerifiedSequence::Limits limits)
      : oracle_(oracle), limits_(limits) {}

  // What it says to the stream that is attached, in order.
  std::deque<v1::ServerMessage>& down() { return down_; }

  void BeginStream() {
    attached_ = nullptr;
    down_.clear();
  }
  // Sessions live on.
  void LoseStream() { BeginStream(); }
  // They do not.
  void Restart() {
    BeginStream();
    sessions_.clear();
  }

  void Take(const v1::ClientMessage& message) {
    if (message.has_open()) return TakeOpen(message.open());
    if (message.has_resume()) return TakeResume(message.resume());
    if (attached_ == nullptr) return;
    VerifiedSequence& sequence = *attached_->sequence;
    if (message.has_grow()) return Answer(sequence.Grow(message.grow()));
    if (message.has_append()) return Answer(sequence.Append(message.append()));
    if (message.has_truncate()) return Answer(sequence.Truncate(message.truncate()));
    if (message.has_tune()) attached_->dry_policy = message.tune().dry_policy();
    if (message.has_close()) closed_ = true;
  }

  // Whether a pass would have something to do.
  bool CanPass() const {
    if (attached_ == nullptr || !attached_->sequence->writing()) return false;
    return attached_->dry_policy == v1::DRY_POLICY_ALONE || attached_->sequence->has_growth() ||
           attached_->sequence->told_to_go();
  }

  void Pass() {
    VerifiedSequence& sequence = *attached_->sequence;
    const auto nodes = sequence.BeginPass(sequence.pass_nodes());
    std::vector<TokenId> path;
    const auto outcome = WalkDown(
        nodes, path, [&](uint32_t, std::span<const TokenId> below) -> absl::StatusOr<TokenId> {
          const auto committed = sequence.history().tokens();
          std::vector<TokenId> all(committed.begin(), committed.end());
          all.insert(all.end(), below.begin(), below.end());
          return oracle_.Next(all);
        });
    OUTRIDER_CHECK_OK(outcome.status());
    v1::Verdict& verdict = *down_.emplace_back().mutable_verdict();
    sequence.EndPass(*outcome, verdict);
    verdict.set_pass_us(20000);
    ++passes_;
  }

  const VerifiedSequence* attached() const {
    return attached_ == nullptr ? nullptr : attached_->sequence.get();
  }
  bool closed() const { return closed_; }
  size_t session_count() const { return sessions_.size(); }
  size_t passes() const { return passes_; }
  // The newest fault it gave, but for UNKNOWN_SESSION, which is a device's right to be told.
  const std::string& complaint() const { return complaint_; }

 private:
  struct Kept {
    uint64_t nonce;
    std::string name;
    std::string token;
    std::unique_ptr<VerifiedSequence> sequence;
    v1::DryPolicy dry_policy;  // all but ALONE wait here
  };

  // A device counts its streams.
  bool Rises(uint32_t attempt) {
    if (attempt > attempt_) {
      attempt_ = attempt;
      return true;
    }
    Answer(InvalidArgument("attempt ", attempt, " comes after ", attempt_));
    return false;
  }

  void TakeOpen(const v1::Open& open) {
    if (!Rises(open.attempt())) return;
    for (const auto& kept : sessions_) {
      if (kept->nonce == open.nonce()) return SayOpened(*kept);
    }
    auto sequence = VerifiedSequence::Create(open, oracle_.tokenizer(), limits_);
    if (!sequence.ok()) return Answer(sequence.status());
    const std::string name = Concat("session ", ++names_);
    sessions_.push_back(std::make_unique<Kept>(
        Kept{open.nonce(), name, "", *std::move(sequence), open.dry_policy()}));
    SayOpened(*sessions_.back());
  }

  void SayOpened(Kept& kept) {
    attached_ = &kept;
    v1::Opened& opened = *down_.emplace_back().mutable_opened();
    opened.set_session(kept.name);
    opened.set_token(kept.token = Concat("token ", ++names_));
    opened.set_numerics_id("oracle");
    Answer(kept.sequence->Attach(opened));
  }

  // Strict: only the newest token it gave is good, whether or not it arrived.
  void TakeResume(const v1::Resume& resume) {
    if (!Rises(resume.attempt())) return;
    for (const auto& kept : sessions_) {
      if (kept->name != resume.session() || kept->token != resume.token()) continue;
      attached_ = kept.get();
      v1::ServerMessage message;
      v1::Resumed& resumed = *message.mutable_resumed();
      if (const absl::Status status = kept->sequence->Resume(resume, resumed); !status.ok()) {
        return Answer(status);
      }
      resumed.set_token(kept->token = Concat("token ", ++names_));
      down_.push_back(message);
      return;
    }
    SayFault(v1::Fault::UNKNOWN_SESSION, "there is no such session");
  }

  void Answer(const absl::Status& status) {
    if (status.ok()) return;
    complaint_ = std::string(Message(status));
    SayFault(absl::IsFailedPrecondition(status) ? v1::Fault::DRIFTED : v1::Fault::MALFORMED,
             complaint_);
  }

  void SayFault(v1::Fault::Kind kind, const std::string& sentence) {
    attached_ = nullptr;
    v1::Fault& fault = *down_.emplace_back().mutable_fault();
    fault.set_kind(kind);
    fault.set_message(sentence);
  }

  const Oracle& oracle_;
  const VerifiedSequence::Limits limits_;
  std::vector<std::unique_ptr<Kept>> sessions_;
  Kept* attached_ = nullptr;
  std::deque<v1::ServerMessage> down_;
  uint64_t names_ = 0;
  uint32_t attempt_ = 0;  // the newest
  bool closed_ = false;
  size_t passes_ = 0;
  std::string complaint_;
};

}  // namespace outrider
