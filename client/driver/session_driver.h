// Runs a session: the machine on the caller's thread, the drafter and the verifier on theirs.
//
//   SessionDriver driver(session, drafter, history_options, verifier);
//   OUTRIDER_RETURN_IF_ERROR(driver.Run(Session::Start{}, observer));          // the first reply
//   OUTRIDER_RETURN_IF_ERROR(driver.Run(Session::UserAppend{ids}, observer));  // the next turn's
//   driver.Close();
//
// Between replies the machine stands still; what comes meanwhile waits.
//
// Queues:  events that wait for the machine: the batches that were drafted, and of every stream what
//          a verifier gives unread, an answer to what was written, and its end.
// Threads: everything from one thread, on which the observer is called, too.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "client/driver/draft_worker.h"
#include "client/session/session.h"
#include "client/verifier/verifier.h"
#include "common/base/monotonic_time.h"
#include "common/base/mutex.h"

namespace outrider {

class SessionDriver final : private Verifier::Listener {
 public:
  // What the user sees of a reply.
  class Observer {
   public:
    virtual ~Observer() = default;

    virtual void OnText(std::string_view text) = 0;
    virtual void OnTokens(std::span<const TokenId> /*tokens*/) {}
    virtual void OnPromptProgress(uint32_t processed, uint32_t total) = 0;
    virtual void OnReport(const absl::Status& status) = 0;
    // Asked several times a second: whether the reply is to end where it is.
    virtual bool Interrupted() = 0;
  };

  // All must outlive it.
  SessionDriver(Session& session, Drafter& drafter, const TokenHistory::Options& history,
                Verifier& verifier);
  ~SessionDriver() override;

  // Tells the session of `event`, a Start or the user's, and runs it until no reply is running.
  // An error is the end of the session.
  absl::Status Run(const Session::Event& event, Observer& observer);

  // Says farewell to the verifier, and waits for it to hear.
  void Close();

  // How the reply that ran last ended; FINISH_NONE when it was interrupted or refused.
  v1::Finish finish() const { return finish_; }

 private:
  struct Message {
    uint64_t stream;
    v1::ServerMessage message;
  };
  using Mail = std::variant<Message, Session::Written, Session::StreamDown, Session::Drafted>;

  void OnMessage(uint64_t stream, v1::ServerMessage&& message) override;
  void OnWritten(uint64_t stream) override;
  void OnDown(uint64_t stream, const absl::Status& status) override;
  void Post(Mail mail);

  std::optional<Mail> AwaitMail(MonotonicTime until);
  void Pump(MonotonicTime until);
  void Handle(const Session::Event& event);

  void Do(const Session::OpenStream& action);
  void Do(const Session::Send& action);
  void Do(const Session::CloseStream& action);
  void Do(const Session::Draft& action);
  void Do(const Session::CancelDraft& action);
  void Do(const Session::Commit& action);
  void Do(const Session::Progress& action);
  void Do(const Session::SetTimer& action);
  void Do(const Session::Report& action);
  void Do(const Session::End& action);

  // The caller's thread.
  Session& session_;
  Verifier& verifier_;
  Observer* observer_ = nullptr;  // while a reply is running
  std::vector<Session::Action> actions_;
  std::optional<MonotonicTime> timer_;
  std::optional<absl::Status> end_;
  v1::Finish finish_ = v1::FINISH_NONE;

  Mutex mu_;
  CondVar mailed_;
  std::deque<Mail> mail_ ABSL_GUARDED_BY(mu_);
  uint64_t streams_open_ ABSL_GUARDED_BY(mu_) = 0;  // whose OnDown() has not come
  DraftWorker worker_;                              // last: its thread posts mail
};

}  // namespace outrider
