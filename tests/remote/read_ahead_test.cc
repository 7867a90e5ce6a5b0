// Messages that come before a device has asked for them: a few, and then one for each that it takes.
#include <chrono>
#include <memory>

#include "client/verifier/remote_verifier.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "proto/outrider/v1/verifier.grpc.pb.h"

namespace outrider {
namespace {

// Says hint after hint, until the device is gone.
class Talker final : public v1::Verifier::Service {
 public:
  Talker() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~Talker() override { server_->Shutdown(std::chrono::system_clock::now()); }

  std::string address() const { return Concat("127.0.0.1:", port_); }

  grpc::Status Decode(
      grpc::ServerContext*,
      grpc::ServerReaderWriter<v1::ServerMessage, v1::ClientMessage>* line) override {
    v1::ServerMessage hint;
    for (uint32_t exit = 0;; ++exit) {
      hint.mutable_hint()->set_exit(exit);
      if (!line->Write(hint)) return grpc::Status::OK;
    }
  }

 private:
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

class Counter final : public Verifier::Listener {
 public:
  void OnMessage(uint64_t, v1::ServerMessage&& message) override {
    MutexLock lock(mu_);
    in_order_ = in_order_ && message.hint().exit() == count_;
    ++count_;
    changed_.NotifyAll();
  }
  void OnWritten(uint64_t) override {}
  void OnDown(uint64_t, const absl::Status&) override {
    MutexLock lock(mu_);
    is_down_ = true;
    changed_.NotifyAll();
  }

  // As many as there are when no more come for a while, or at once when there are more than so many.
  uint32_t CountAfter(uint32_t expected) {
    const MonotonicTime deadline = RealClock().Now() + std::chrono::seconds(20);
    MutexLock lock(mu_);
    while (count_ < expected && changed_.WaitUntil(mu_, deadline)) {
    }
    const MonotonicTime settled = RealClock().Now() + std::chrono::milliseconds(100);
    while (count_ <= expected && changed_.WaitUntil(mu_, settled)) {
    }
    return count_;
  }
  bool in_order() {
    MutexLock lock(mu_);
    return in_order_;
  }
  void AwaitDown() {
    MutexLock lock(mu_);
    while (!is_down_) changed_.Wait(mu_);
  }

 private:
  Mutex mu_;
  CondVar changed_;
  uint32_t count_ = 0;
  bool in_order_ = true;
  bool is_down_ = false;
};

TEST(ReadAhead, AFewMessagesComeUnaskedAndThenOneForEachThatIsTaken) {
  constexpr uint32_t kAhead = 8;
  const Talker talker;
  const std::unique_ptr<RemoteVerifier> verifier = *RemoteVerifier::Connect(talker.address());
  Counter counter;
  verifier->Open(1, counter);
  EXPECT_EQ(counter.CountAfter(kAhead), kAhead);
  for (uint32_t taken = 1; taken <= 3; ++taken) {
    verifier->Read(1);
    EXPECT_EQ(counter.CountAfter(kAhead + taken), kAhead + taken);
  }
  for (int i = 0; i < 100; ++i) verifier->Read(1);
  EXPECT_EQ(counter.CountAfter(kAhead + 103), kAhead + 103);
  EXPECT_TRUE(counter.in_order());
  verifier->Close(1);
  counter.AwaitDown();
}

}  // namespace
}  // namespace outrider
