// A verifier with two targets: a server's, and one of this device for when that cannot be reached.
//
//   FallbackVerifier verifier(std::move(remote), std::move(local), {...});
//
//              link dies          answers again
//   server  |#######x - - -|         |?|        |################
//   device          patience |##################v|             v: the verdict that was under way
//
// To its session it is one verifier whose streams break now and then. The session then does what it
// always does: it asks for another stream; that one leads to the other target, where nobody knows
// the session, so it is opened there anew with the committed tokens. Where both have one numerics
// id the text is the same; where they have not, the session says so.
//
// It moves to the device when the server's streams are down, or silent, for longer than moving
// takes (link_patience.h); one that is silent is asked first whether it is there, since a long
// prompt or many sessions may keep it busy. What a server says it cannot do now (no room, it stops,
// its target has failed) moves it at once. From the device it looks for the server, more and more
// rarely, with a stream of its own: that resumes the session which was left there and says farewell
// to it, so that the server need not keep memory for it, and what its target has of the text is
// there for the session which opens next.
//
// Or its session's controller prefers one of the two, which is then where it stays while it can.
//
// A target here that fails, as one whose flash cannot be read, is asked again when the server cannot be had:
// the next read may be right. After kFailuresMax failures without a verdict from anywhere it is not,
// and the session waits for its server then.
//
// Threads: as Verifier says; Prefer() as Open(). One of its own watches and looks.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "client/verifier/link_patience.h"
#include "client/verifier/verifier.h"
#include "common/base/monotonic_time.h"
#include "common/base/mutex.h"

namespace outrider {

class FallbackVerifier final : public Verifier {
 public:
  enum class Place : uint8_t { kServer, kDevice };

  struct Options {
    Duration device_pass = std::chrono::milliseconds(500);  // at the device, until one was seen
    bool begins_at_device = false;                          // there was no server
  };

  FallbackVerifier(std::unique_ptr<Verifier> server, std::unique_ptr<Verifier> device,
                   Options options);
  ~FallbackVerifier() override;  // every stream is down

  // Who is told by Open(), on its thread, that it leads elsewhere than the one before it did; the
  // first is expected to lead to the server. Before that.
  void TellMoves(std::function<void(Place)> moved) { moved_ = std::move(moved); }

  void Open(uint64_t stream, Listener& listener) override;
  void Send(uint64_t stream, v1::ClientMessage& message) override;
  void Read(uint64_t stream) override;
  void Close(uint64_t stream) override;
  // Of where the next stream would lead.
  RunForecast Forecast(const RunShape& shape) const override;
  const Verifier& verifier_at(Place place) const { return *verifiers_[static_cast<size_t>(place)]; }

  // Where the session is to be if both can be had.
  void Prefer(Place place);

  // Why the newest pass here failed; OK: none has since the last verdict from here.
  absl::Status device_failure() const;

 private:
  struct Line {
    Listener* listener;
    Place place;
    bool is_open = false;    // and can be closed
    bool is_heard = false;   // something has come
    bool is_closed = false;  // from here, or about to be
    bool is_leaving = false;
    bool leaves_after_verdict = false;
  };
  // What the thread that watches is to do.
  struct Duties {
    std::vector<std::pair<Place, uint64_t>> to_close = {};
    bool asks = false;   // whether the silent server is there
    bool looks = false;  // whether it is back
  };
  class Relay;
  class Question;

  static constexpr uint32_t kFailuresMax = 3;

  Verifier& At(Place place) { return *verifiers_[static_cast<size_t>(place)]; }
  Place PlaceOf(uint64_t stream);
  void Heard(Place place, uint64_t stream, v1::ServerMessage&& message);
  void Down(Place place, uint64_t stream, absl::Status status);

  void HeardServer(v1::ServerMessage& message) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void HeardDevice(Line& line, v1::ServerMessage& message) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Lost(const Line& line) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Rest() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Finished(v1::Finish finish) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void MoveTo(Place place) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool MayUseDevice() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return device_failures_ < kFailuresMax;
  }
  bool IsServerUp() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  void Watch();
  Duties AwaitDuties();
  Duties DueNow(MonotonicTime now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  MonotonicTime NextDue(MonotonicTime now) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool Answers(const v1::Resume& resume, Duration patience);
  bool AwaitAnswer(const Question& question, MonotonicTime until);
  void AwaitDown(uint64_t number, const Question& question, MonotonicTime until);
  void Ask();
  void Look();

  const Options options_;
  std::function<void(Place)> moved_;  // the session's thread; may be empty

  mutable Mutex mu_;
  CondVar changed_;
  Place place_ ABSL_GUARDED_BY(mu_);                           // where streams lead
  Place preferred_ ABSL_GUARDED_BY(mu_) = Place::kServer;      // while both can be had
  Place session_place_ ABSL_GUARDED_BY(mu_) = Place::kServer;  // where the newest one led
  std::map<uint64_t, Line> lines_ ABSL_GUARDED_BY(mu_);        // that are not down
  bool replying_ ABSL_GUARDED_BY(mu_) = false;                 // a verdict is owed by somebody
  LinkPatience patience_ ABSL_GUARDED_BY(mu_);                 // with the server
  double device_pass_ms_ ABSL_GUARDED_BY(mu_);                 // the newest
  v1::Resume left_ ABSL_GUARDED_BY(mu_);                       // of the session at the server
  MonotonicTime return_by_ ABSL_GUARDED_BY(mu_) = {};          // verdict or no verdict
  absl::Status device_failure_ ABSL_GUARDED_BY(mu_);           // the newest, until a verdict there
  uint32_t device_failures_ ABSL_GUARDED_BY(mu_) = 0;          // since a verdict from anywhere
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;

  // The thread that watches. Streams of its own are numbered from where no session comes to.
  uint64_t next_question_ = uint64_t{1} << 63;
  std::vector<std::unique_ptr<Question>> questions_;  // until they are down

  std::array<std::unique_ptr<Relay>, 2> relays_;
  const std::array<std::unique_ptr<Verifier>, 2> verifiers_;  // their threads use all of the above
  std::thread watch_;
};

}  // namespace outrider
