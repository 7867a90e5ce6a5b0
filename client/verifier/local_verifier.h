// A verifier whose target is in this process.
//
// It keeps one session at a time, as a server keeps many: messages come into a mailbox, and one
// thread takes them, reads prompts and runs passes. A pass starts when there is growth below the
// root, when the device says that none will come, or, where it asked for that (DRY_POLICY_ALONE),
// without either as soon as growth that is due is not worth waiting for (growth_due.h). There is no
// load to weigh and no link to wait for, so an adaptive dry policy waits.
//
// The session ends with its stream: a Resume is answered with UNKNOWN_SESSION, and the device opens
// another. The target computes again then what it no longer has.
//
// Threads: as Verifier says. The target is its own while it lives.
// Queues:  mail of a stream: an Open, one message, a Close. Down, kUnreadMax messages; then no pass
//          begins until one was read.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "client/verifier/verifier.h"
#include "common/base/monotonic_time.h"
#include "common/base/mutex.h"
#include "common/model/target.h"
#include "common/speculation/growth_due.h"
#include "common/speculation/verified_sequence.h"
#include "common/text/tokenizer.h"

namespace outrider {

class LocalVerifier final : public Verifier {
 public:
  static constexpr uint32_t kUnreadMax = 4;

  // Both must outlive it.
  LocalVerifier(Target& target, const Tokenizer& tokenizer, uint32_t sketch_nodes_max);
  ~LocalVerifier() override;

  void Open(uint64_t stream, Listener& listener) override;
  void Send(uint64_t stream, const v1::ClientMessage& message) override;
  void Read(uint64_t stream) override;
  void Close(uint64_t stream) override;
  CostModel::Assumed Forecast() const override;

 private:
  struct Mail {
    enum class Kind { kOpen, kMessage, kClose };

    Kind kind;
    uint64_t stream;
    Listener* listener;         // of kOpen
    v1::ClientMessage message;  // of kMessage
  };

  void Post(Mail mail);
  void Run();
  std::optional<Mail> NextMail(std::optional<MonotonicTime> work_at);
  bool stopping() const;
  bool HasUrgentMail() const;

  void Take(const Mail& mail);
  void Take(const v1::ClientMessage& message);
  void OpenSession(const v1::Open& open);
  void ForgetEdited();

  std::optional<MonotonicTime> WorkAt() const;
  void Work();
  absl::Status ReadPrompt();
  absl::Status RunPass();

  void ForgetUnread();
  void Tell(v1::ServerMessage&& message);
  void Fail(v1::Fault::Kind kind, const absl::Status& status);
  void EndStream(const absl::Status& status);

  // Constant after construction.
  Target& target_;
  const Tokenizer& tokenizer_;
  const uint32_t sketch_nodes_max_;
  const std::string fingerprint_;

  // The verifier's thread only.
  uint64_t stream_ = 0;
  Listener* listener_ = nullptr;  // null: no stream
  std::unique_ptr<VerifiedSequence> session_;
  SequenceId sequence_{};
  uint32_t computed_ = 0;         // tokens that the target has
  bool alone_ = false;            // DRY_POLICY_ALONE
  GrowthDue due_;                 // of the session
  MonotonicTime growth_at_ = {};  // the newest came

  mutable Mutex mu_;
  CondVar mailed_;
  std::deque<Mail> mail_ ABSL_GUARDED_BY(mu_);
  uint32_t unread_ ABSL_GUARDED_BY(mu_) = 0;  // messages of the stream
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;  // last: starts when all above exists
};

}  // namespace outrider
