// How a session is attached to its verifier: the stream that counts, what was said on it to attach,
// and what is still to be said.
//
//   Ask() --> a stream whose first message is Open or Resume
//   Opened(), Resumed() --> what the verifier has committed (Answer); an epoch begins
//   TellAppend(), TellTruncate() ...    edits; each begins an epoch
//   Next() --> the message that is to be written now
//
// With Open until one was answered (the same nonce as long as it asks for the same), then with
// Resume, for as much of the text as no edit in doubt has touched (edits.h). Each says the number of
// its stream, so that one which was given up and arrives late is told from the one that counts. When
// the verifier knows the session no more: Open again, with the committed tokens as prompt and as many
// of them as the running reply has said to be its own, so that penalties, stops and limits count on.
//
// Epochs are numbered, so that whoever keeps ids of an epoch sees when they have gone.
//
// Queues:     messages wait in a SendQueue: edits (merged while no stream is attached, by attaching)
//             and one batch of growth.
// Randomness: nonces and the jitter of back-off, from the bits it is given.
// Threads:    as a vector.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/session/edits.h"
#include "client/session/link.h"
#include "client/session/send_queue.h"
#include "client/session/session_options.h"
#include "client/session/transcript.h"
#include "common/base/monotonic_time.h"
#include "proto/outrider/v1/verifier.pb.h"

namespace outrider {

class Attachment {
 public:
  // What a verifier has, when it has answered: of our tokens the first `shared`, and then `tokens`.
  struct Answer {
    size_t shared;
    std::span<const TokenId> tokens;  // valid until the next answer
    v1::Finish finish;
    std::optional<uint64_t> hash;  // of all of them
    bool is_of_a_past;             // there are edits that it has not taken in
  };

  // Both must outlive it.
  Attachment(const SessionOptions& options, const Transcript& transcript,
             std::function<uint64_t()> random_bits)
      : options_(options),
        transcript_(transcript),
        random_bits_(std::move(random_bits)),
        link_(options.link) {}

  const Link& link() const { return link_; }
  bool attached() const { return link_.attached(); }
  bool IsCurrent(uint64_t stream) const { return link_.has_stream() && stream == link_.stream(); }
  void Heard(MonotonicTime now) { link_.Heard(now); }
  void Progressed(MonotonicTime now) { link_.Progressed(now); }

  // --- streams ---

  // The number of a stream that is to be opened.
  uint64_t Ask(MonotonicTime now);
  // No stream is wanted; the one that is to be closed, if there is one.
  std::optional<uint64_t> Leave();
  // The stream has gone by itself.
  void Rest() { link_.Rest(); }
  // There is no stream, and one is asked for after back-off. False when patience has ended.
  bool Wait(MonotonicTime now, Duration at_least);
  // The verifier knows the session no more, or knows another one: it is opened anew. False when it
  // never was, or attempt after attempt has come to nothing, and so there is no hurry.
  bool ForgetSession();
  // What the Open under way asks for is not wanted any more. Whether there is one.
  bool ForgetOpen();

  // --- answers, which begin an epoch ---

  // An error is why the stream is of no use.
  absl::StatusOr<Answer> Opened(const v1::Opened& opened, MonotonicTime now);
  absl::StatusOr<Answer> Resumed(const v1::Resumed& resumed, MonotonicTime now);
  // The newest target's; empty before the first.
  const std::string& numerics_id() const { return numerics_id_; }

  uint64_t epoch() const { return epoch_; }

  // --- verdicts ---

  // Counts it. False: it is of a past that edits have ended.
  bool Counts(const v1::Verdict& verdict);
  bool contradicted() const { return edits_.contradicted(); }
  // A verdict that counts was about our tokens.
  void Settle() { edits_.Settle(); }
  uint32_t verdicts_seen() const { return verdicts_seen_; }

  // --- messages up ---

  // Edits are told now, or by attaching. Tokens are the transcript's.
  void TellTruncate(size_t length);
  void TellAppend(size_t begin, size_t end, bool reply);
  // What the verifier, whose tokens are the first `length` of ours, lacks.
  void TellMissing(size_t length);
  // The verifier has the first `common` of ours, and then others, from before edits it has not seen.
  void TellEdited(size_t common);

  // For all that one event may add.
  bool has_ample_room() const { return queue_.room() >= kMessagesPerEvent; }
  // One waits at the most: a link that stalls while verdicts come has no room for more.
  bool TakesTune() const { return attached() && !queue_.has_tune(); }
  v1::Tune& AddTune() { return queue_.AddTune(); }
  // Growth waits until all else has been written.
  bool TakesGrowth() const { return attached() && !queue_.writing() && queue_.empty(); }
  // It tells which verdicts have been seen, too.
  v1::Grow& AddGrow();
  // The verifier knows by itself what growth leaves out.
  bool growth_follows() const { return growth_follows_; }
  // Several verdicts have been seen since the verifier was told: it does not go on for ever untold.
  bool OwesWord() const { return verdicts_seen_ - verdicts_told_ >= kVerdictsUntold; }
  // The last message.
  void SayFarewell(MonotonicTime now);

  // Null: there is none, or one is being written.
  v1::ClientMessage* Next() { return link_.has_stream() ? queue_.Next() : nullptr; }
  void Written() { queue_.Written(); }

  void CheckInvariants() const;

 private:
  // Truncate, Append, Append of a reply, Tune, growth.
  static constexpr size_t kMessagesPerEvent = 5;
  static constexpr uint32_t kVerdictsUntold = 3;

  void WriteOpen(v1::Open& open);
  void WriteStops(v1::Stops& stops) const;
  void WriteResume(v1::Resume& resume);
  void MakeEdit(size_t length);
  void BeginEpoch(MonotonicTime now);
  absl::Status ReadTokens(const google::protobuf::RepeatedField<uint32_t>& wire);
  uint32_t attempt() const { return static_cast<uint32_t>(link_.stream()); }

  const SessionOptions& options_;
  const Transcript& transcript_;
  const std::function<uint64_t()> random_bits_;

  Link link_;
  SendQueue queue_;
  uint64_t epoch_ = 0;

  // The session at the verifier.
  std::string name_;  // empty: not opened
  std::string resume_token_;
  std::string numerics_id_;
  std::optional<uint64_t> nonce_;  // of the Open that has not been answered
  size_t asked_length_ = 0;        // of the tokens in the newest Open or Resume
  uint32_t verdicts_seen_ = 0;
  uint32_t verdicts_told_ = 0;  // of them, those that the verifier was told were seen
  bool growth_follows_ = false;
  Edits edits_;

  std::vector<TokenId> tokens_;  // of the newest answer
};

}  // namespace outrider
