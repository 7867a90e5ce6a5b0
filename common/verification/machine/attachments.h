// How streams and sessions of the verifier machine come together, and how they part.
//
//   stream    new --Open, Resume--> attached --Fault, Close--> ending --EndStream--> ended
//   session   attached <--Resume, Open again-- detached --time to live--> gone
//                 |   --stream closed, fenced, stalled-->
//                 +-- Close, a broken contract, a failing target --> gone
//
// A session has one stream at a time: whoever attaches fences the one before. A session that is in
// the target's run when it ends is hidden, and erased when the run is over.
//
//   draining: no new sessions; those that write may go on until the deadline, and then none is left
//
// Memory:  counts alone.
// Threads: as a vector.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/monotonic_time.h"
#include "common/text/tokenizer.h"
#include "common/verification/machine/verifier_state.h"
#include "proto/outrider/v1/verifier.pb.h"

namespace outrider {

class Attachments {
 public:
  using SessionEnd = VerifierEvents::SessionEnd;

  // Both outlive it.
  Attachments(VerifierState& state, const Tokenizer& tokenizer);

  // On any thread.
  VerifierEvents::Prepared Prepare(const v1::ClientMessage& message,
                                   VerifierEvents::Work work) const;
  // If it still listens, its next message may come. Of a new stream's, an Open that there is room for
  // has its place kept until it comes.
  void ReadNext(VerifierStream& stream);
  // First messages of a stream. Whoever cannot be let in is refused, with the reason. An Open is
  // prepared here if nobody else had to (null).
  void Open(VerifierStream& stream, const v1::Open& open, VerifierEvents::Prepared* prepared);
  void Resume(VerifierStream& stream, const v1::Resume& resume);
  // The device, or the draft here, has a new root to grow from, or this root has a device again.
  void RootKnown(VerifierSession& session);
  bool IsWorthDrafting(const VerifierSession& session) const;
  // Its caller is charged with what it keeps now; ResourceExhausted when that is too much.
  absl::Status Charge(VerifierSession& session);
  // Whether a device that wants to may leave drafting to this side.
  absl::Status CheckDraft(bool wanted) const;

  // The stream's session, if it has one, stays without it.
  void Detach(VerifierStream& stream);
  void Refuse(VerifierStream& stream, v1::Fault::Kind kind, const absl::Status& why);
  // The session is gone, now or when its run is over.
  void Remove(VerifierSession& session, SessionEnd why);
  void RemoveWithFault(VerifierSession& session, v1::Fault::Kind kind, const absl::Status& why);
  // A hidden one, whose run is over.
  void Erase(VerifierSession& session);

  // Ends all that this caller has here.
  void Revoke(const Caller& caller);

  void Drain(MonotonicTime deadline);
  bool draining() const { return drain_deadline_.has_value(); }
  bool drained() const { return drained_; }
  // While draining: the stream's session has nothing more to write.
  void ReplyEnded(VerifierStream& stream);
  // Says Drained when the last one has gone.
  void EndDrain();
  std::optional<MonotonicTime> next_deadline() const;

  // Tokens of a session that takes all the memory there is.
  uint32_t length_max() const { return length_max_; }
  uint64_t opened_count() const { return opened_count_; }
  uint64_t refused_count() const { return refused_count_; }  // for want of room
  uint64_t attachment_count() const { return attachment_count_; }
  uint64_t resume_count() const { return resume_count_; }  // of those

  // For tests.
  void CheckInvariants() const;

 private:
  using PreparedSequence = absl::StatusOr<std::unique_ptr<VerifiedSequence>>;

  PreparedSequence Prepare(const v1::Open& open) const;
  void OpenNew(VerifierStream& stream, const v1::Open& open, size_t hash,
               VerifierEvents::Prepared* prepared);
  void OpenAgain(VerifierStream& stream, const v1::Open& open, size_t hash,
                 VerifierSession& session);
  bool HasPlaceFor(VerifierStream& stream) const;
  OpenRate* RateOf(VerifierStream& stream) const;
  uint32_t OpensPerMinute(const VerifierStream& stream) const;
  absl::Status CheckCompatible(const v1::Open& open) const;
  absl::Status WhyNoPlace(VerifierStream& stream) const;
  absl::Status CheckBytes(const Caller& caller, uint64_t more) const;
  uint64_t BytesOf(uint32_t session_count) const;
  void RefuseForWantOfRoom(VerifierStream& stream, const absl::Status& why);
  void RefuseLate(VerifierStream& stream);
  void Fence(VerifierSession& session);
  void AnswerOpen(VerifierStream& stream, VerifierSession& session, v1::Opened& opened);
  void Attach(VerifierStream& stream, VerifierSession& session);
  void TellDraining(VerifierStream& stream);
  void EndAll();

  VerifierState& state_;
  const Tokenizer& tokenizer_;
  const uint32_t length_max_;
  std::optional<MonotonicTime> drain_deadline_;
  bool drained_ = false;
  uint64_t opened_count_ = 0;
  uint64_t refused_count_ = 0;
  uint64_t attachment_count_ = 0;
  uint64_t resume_count_ = 0;
};

}  // namespace outrider
