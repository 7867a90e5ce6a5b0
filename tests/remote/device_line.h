// One stream of a session as a test writes it, message by message, in place of a device.
//
//   DeviceLine line(verifier, 1);
//   line.Say(WaitingOpen(7, prompt));
//   const v1::Opened opened = line.Hear(DeviceLine::Kind::kOpened).opened();
//
// Threads: a test's own; what comes is kept by the verifier's.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "client/verifier/verifier.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/verification/wire_prompt.h"
#include "proto/outrider/v1/verifier.pb.h"

namespace outrider {

// Of a session that writes nothing before it is told to.
inline v1::ClientMessage WaitingOpen(uint64_t nonce, std::span<const TokenId> prompt) {
  v1::ClientMessage message;
  v1::Open& open = *message.mutable_open();
  open.set_nonce(nonce);
  open.set_attempt(1);
  open.set_dry_policy(v1::DRY_POLICY_WAIT);
  SetPrompt(prompt, open);
  return message;
}

class DeviceLine final : private Verifier::Listener {
 public:
  using Kind = v1::ServerMessage::KindCase;

  // No other stream of this verifier has that number.
  DeviceLine(Verifier& verifier, uint64_t number) : verifier_(verifier), number_(number) {
    verifier_.Open(number_, *this);
  }
  ~DeviceLine() override {
    verifier_.Close(number_);
    MutexLock lock(mu_);
    while (!is_down_) changed_.Wait(mu_);
  }
  DeviceLine(const DeviceLine&) = delete;
  DeviceLine& operator=(const DeviceLine&) = delete;

  void Say(v1::ClientMessage message) {
    MutexLock lock(mu_);
    while (is_writing_ && !is_down_) changed_.Wait(mu_);
    is_writing_ = true;
    verifier_.Send(number_, message);
  }
  // The next of such a kind, or of a fault; empty: the stream has ended, or it takes too long.
  v1::ServerMessage Hear(Kind kind) {
    const MonotonicTime until = RealClock().Now() + std::chrono::seconds(30);
    MutexLock lock(mu_);
    for (;;) {
      for (; heard_ < came_.size(); ++heard_) {
        const Kind of = came_[heard_].kind_case();
        if (of == kind || of == Kind::kFault) return came_[heard_++];
      }
      if (is_down_ || !changed_.WaitUntil(mu_, until)) return {};
    }
  }

 private:
  void OnMessage(uint64_t stream, v1::ServerMessage&& message) override {
    {
      MutexLock lock(mu_);
      came_.push_back(std::move(message));
      changed_.NotifyAll();
    }
    verifier_.Read(stream);  // not before: the next one may come into the same memory
  }
  void OnWritten(uint64_t) override {
    MutexLock lock(mu_);
    is_writing_ = false;
    changed_.NotifyAll();
  }
  void OnDown(uint64_t, const absl::Status&) override {
    MutexLock lock(mu_);
    is_down_ = true;
    changed_.NotifyAll();
  }

  Verifier& verifier_;
  const uint64_t number_;
  Mutex mu_;
  CondVar changed_;
  std::vector<v1::ServerMessage> came_ ABSL_GUARDED_BY(mu_);
  size_t heard_ ABSL_GUARDED_BY(mu_) = 0;
  bool is_writing_ ABSL_GUARDED_BY(mu_) = false;
  bool is_down_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace outrider
