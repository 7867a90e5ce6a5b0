#include "client/verifier/local_verifier.h"

#include <memory>
#include <utility>

#include "common/base/check.h"

namespace outrider {

// One stream, between the thread of its session and the driver's. The verifier's mutex guards what
// both touch.
//
//   up     none --Send()--> waiting --Read()--> taken --Read()--> none, and OnWritten()
//                   \-- the driver has asked already ---^
//   down   Send() --OnMessage()--> unread --the session's Read()--> Written()
class LocalVerifier::Stream final : public VerifierDriver::Stream {
 public:
  Stream(LocalVerifier& verifier, uint64_t number, VerifierDriver::StreamNumber driver_number,
         Listener& listener)
      : verifier_(verifier),
        driver_(verifier.driver_),
        number_(number),
        driver_number_(driver_number),
        listener_(listener) {}

  // The driver's thread.
  void Read() override {
    {
      MutexLock lock(verifier_.mu_);
      const Up before = std::exchange(up_state_, Up::kNone);
      is_asked_ = true;
      if (before == Up::kWaiting) HandOver();
      if (before != Up::kTaken) return;
    }
    listener_.OnWritten(number_);
  }

  // A copy: this message is the machine's again as soon as the stream is at its end, and the session
  // may read it later than that.
  void Send(const v1::ServerMessage& message) override {
    listener_.OnMessage(number_, v1::ServerMessage(message));
  }

  // Nothing of the verifier is touched after OnDown(): it may be gone.
  void End(const absl::Status& status, bool /*at_once*/) override {
    bool is_closed = false;
    {
      MutexLock lock(verifier_.mu_);
      is_closed = is_closed_;
      verifier_.streams_.erase(number_);
    }
    listener_.OnDown(number_, is_closed ? absl::CancelledError("the stream was closed") : status);
    driver_.Ended(driver_number_);
  }

  // The session's thread, which holds the verifier's mutex. (Clang cannot tell that a stream's
  // verifier is the one whose map it was found in, so this is not annotated.)
  void SendUp(v1::ClientMessage& message) {
    OUTRIDER_CHECK(up_state_ == Up::kNone, "one message is written at a time");
    up_.Swap(&message);
    up_state_ = Up::kWaiting;
    if (is_asked_) HandOver();
  }
  void ReadDown() { driver_.Written(driver_number_); }
  void Close() {
    if (std::exchange(is_closed_, true)) return;
    driver_.Broken(driver_number_);
  }

 private:
  enum class Up { kNone, kWaiting, kTaken };

  // The verifier's mutex is held.
  void HandOver() {
    is_asked_ = false;
    up_state_ = Up::kTaken;
    driver_.Received(driver_number_, up_);
  }

  LocalVerifier& verifier_;
  VerifierDriver& driver_;
  const uint64_t number_;
  const VerifierDriver::StreamNumber driver_number_;
  Listener& listener_;

  Up up_state_ = Up::kNone;
  bool is_asked_ = false;  // for the next message
  bool is_closed_ = false;
  v1::ClientMessage up_;  // untouched while it is taken
};

LocalVerifier::LocalVerifier(VerifierDriver& driver, Options options)
    : driver_(driver), options_(std::move(options)) {}

LocalVerifier::~LocalVerifier() {
  MutexLock lock(mu_);
  OUTRIDER_CHECK(streams_.empty(), "who has opened a stream waits until it is down");
}

void LocalVerifier::Open(uint64_t stream, Listener& listener) {
  const VerifierDriver::StreamNumber number = driver_.NextNumber();
  auto opened = std::make_unique<Stream>(*this, stream, number, listener);
  {
    MutexLock lock(mu_);
    const bool is_new = streams_.insert({stream, opened.get()}).second;
    OUTRIDER_CHECK(is_new, "a stream's number is given once");
  }
  driver_.Open(number, std::move(opened), options_.key);
}

void LocalVerifier::Send(uint64_t stream, v1::ClientMessage& message) {
  MutexLock lock(mu_);
  const auto found = streams_.find(stream);
  if (found != streams_.end()) found->second->SendUp(message);
}

void LocalVerifier::Read(uint64_t stream) {
  MutexLock lock(mu_);
  const auto found = streams_.find(stream);
  if (found != streams_.end()) found->second->ReadDown();
}

void LocalVerifier::Close(uint64_t stream) {
  MutexLock lock(mu_);
  const auto found = streams_.find(stream);
  if (found != streams_.end()) found->second->Close();
}

// Memory is far nearer than any link.
RunForecast LocalVerifier::Forecast(const RunShape& shape) const {
  RunForecast forecast = ForecastOf(shape);
  forecast.round_trip_ms = 0.1;
  forecast.shares_processor = options_.shares_processor;
  return forecast;
}

}  // namespace outrider
