// Runs a session: the machine on the caller's thread; drafter, verifier and observer on theirs.
//
//   SessionDriver driver(session, drafter, history_options, verifier);
//   OUTRIDER_RETURN_IF_ERROR(driver.Run(Session::Start{}, observer));          // the first reply
//   OUTRIDER_RETURN_IF_ERROR(driver.Run(Session::UserAppend{ids}, observer));  // the next turn's
//   driver.Close();
//
// Between replies the machine stands still; what comes meanwhile waits.
//
// With a trace it writes down what comes, what goes, and when (session_trace.h). How long growth takes
// to answer a verdict is always counted.
//
// Queues:  events that wait for the machine: the batches that were drafted, and of every stream what
//          a verifier gives unread, an answer to what was written, and its end. What the observer
//          has not heard waits apart (observer_thread.h), and nothing waits for it but the end of
//          Run().
// Threads: everything from one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "client/driver/draft_worker.h"
#include "client/driver/observer_thread.h"
#include "client/driver/session_trace.h"
#include "client/session/session.h"
#include "client/verifier/verifier.h"
#include "common/base/monotonic_time.h"
#include "common/base/mutex.h"
#include "common/base/time_counts.h"

namespace outrider {

class SessionDriver final : private Verifier::Listener {
 public:
  using Observer = ReplyObserver;

  // All must outlive it. `trace` may be null.
  SessionDriver(Session& session, Drafter& drafter, const TokenHistory::Options& history,
                Verifier& verifier, SessionTrace* trace = nullptr);
  ~SessionDriver() override;

  // Tells the session of `event`, a Start or the user's, and runs it until no reply is running and
  // the observer has heard all of it.
  // An error is the end of the session.
  absl::Status Run(const Session::Event& event, Observer& observer);

  // Says farewell to the verifier, and waits for it to hear.
  void Close();

  // How the reply that ran last ended; FINISH_NONE when it was interrupted or refused.
  v1::Finish finish() const { return finish_; }

  // How long growth that was drafted before its verdict took to follow it: from when the verdict came
  // on the transport's thread until the growth was with the transport.
  const TimeCounts& answer_times() const { return answer_times_; }

 private:
  struct Message {
    uint64_t stream;
    v1::ServerMessage message;
    MonotonicTime arrived;
  };
  using Mail = std::variant<Message, Session::Written, Session::StreamDown, Session::Drafted>;

  void OnMessage(uint64_t stream, v1::ServerMessage&& message) override;
  void OnWritten(uint64_t stream) override;
  void OnDown(uint64_t stream, const absl::Status& status) override;
  void Post(Mail mail);

  std::optional<Mail> AwaitMail(MonotonicTime until);
  void Pump(MonotonicTime until);
  void Receive(const Message& message);
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
  SessionTrace* const trace_;  // may be null
  TimeCounts answer_times_;
  std::optional<MonotonicTime> verdict_arrived_;  // and awaits its answer
  bool more_follow_ = false;                      // mail, the event at hand
  bool is_observed_ = false;                      // while a reply is running
  bool has_told_ = false;                         // of the event at hand
  std::vector<Session::Action> actions_;
  std::optional<MonotonicTime> timer_;
  std::optional<absl::Status> end_;
  v1::Finish finish_ = v1::FINISH_NONE;

  Mutex mu_;
  CondVar mailed_;
  std::deque<Mail> mail_ ABSL_GUARDED_BY(mu_);
  uint64_t streams_open_ ABSL_GUARDED_BY(mu_) = 0;  // whose OnDown() has not come
  ObserverThread told_;
  DraftWorker worker_;  // last: its thread posts mail
};

}  // namespace outrider
