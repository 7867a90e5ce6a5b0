// Sessions over a real socket. The server is as small as one can be: every stream has a target of
// its own, and is forgotten when it ends.
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "client/verifier/local_verifier.h"
#include "client/verifier/remote_verifier.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "gmock/gmock.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "proto/outrider/v1/verifier.grpc.pb.h"
#include "tests/client/stories_world.h"

namespace outrider {
namespace {

using ::testing::HasSubstr;

using Frames = grpc::ServerReaderWriter<v1::ServerMessage, v1::ClientMessage>;

// A LocalVerifier at the other end of a stream.
class Bridge final : public Verifier::Listener {
 public:
  Bridge(Frames& frames, Verifier& verifier) : frames_(frames), verifier_(verifier) {}

  void Run() {
    verifier_.Open(1, *this);
    v1::ClientMessage message;
    while (frames_.Read(&message)) {
      {
        MutexLock lock(mu_);
        if (down_) break;
        written_ = false;
      }
      verifier_.Send(1, message);
      MutexLock lock(mu_);
      while (!written_ && !down_) changed_.Wait(mu_);
      if (message.has_close()) break;
    }
    verifier_.Close(1);
    MutexLock lock(mu_);
    while (!down_) changed_.Wait(mu_);
  }

 private:
  // One reader here, and it reads what is written: the verifier need not wait.
  void OnMessage(uint64_t stream, v1::ServerMessage&& message) override {
    frames_.Write(message);
    verifier_.Read(stream);
  }
  void OnWritten(uint64_t) override {
    MutexLock lock(mu_);
    written_ = true;
    changed_.NotifyAll();
  }
  void OnDown(uint64_t, const absl::Status&) override {
    MutexLock lock(mu_);
    down_ = true;
    changed_.NotifyAll();
  }

  Frames& frames_;
  Verifier& verifier_;
  Mutex mu_;
  CondVar changed_;
  bool written_ = false;
  bool down_ = false;
};

class SmallServer final : public v1::Verifier::Service {
 public:
  explicit SmallServer(int port = 0)
      : target_(NewTarget()), verifier_(*target_, TheTokenizer(), 64) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort(Concat("127.0.0.1:", port), grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    OUTRIDER_CHECK(server_ != nullptr, "the port is free");
  }
  ~SmallServer() override { server_->Shutdown(std::chrono::system_clock::now()); }

  int port() const { return port_; }
  std::string address() const { return Concat("127.0.0.1:", port_); }

 private:
  grpc::Status Describe(grpc::ServerContext*, const v1::DescribeRequest*,
                        v1::DescribeResponse* response) override {
    response->set_model_name("stories");
    response->set_context_length(kContext);
    return grpc::Status::OK;
  }

  // One at a time, as the verifier has it.
  grpc::Status Decode(grpc::ServerContext*, Frames* frames) override {
    MutexLock lock(mu_);
    Bridge(*frames, verifier_).Run();
    return grpc::Status::OK;
  }

  const std::unique_ptr<Target> target_;
  LocalVerifier verifier_;
  Mutex mu_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

SessionOptions Story(const char* prompt, uint32_t tokens) {
  SessionOptions options;
  options.prompt = TheTokenizer().Encode(prompt);
  options.continues_text = true;
  options.stops.max_tokens = tokens;
  return options;
}

TEST(RemoteSessionTest, WritesWhatTheTargetAloneWould) {
  for (const bool sampled : {false, true}) {
    SessionOptions options = Story("Once upon a time", 80);
    if (sampled) options.sampling = Sampled(3);
    const Text alone = Alone(options.prompt, options.sampling, options.stops, true);
    SmallServer server;
    const auto verifier = OrDie(RemoteVerifier::Connect(server.address()));
    EXPECT_EQ(OrDie(verifier->Describe()).model_name(), "stories");
    for (const PolicyKind kind :
         {PolicyKind::kChain, PolicyKind::kFsd, PolicyKind::kLlmcad, PolicyKind::kEdgellm,
          PolicyKind::kLever, PolicyKind::kOurs, PolicyKind::kAwaited}) {
      DraftedSession drafted(options, Damaged(), kind, *verifier);
      Screen screen;
      const absl::Status status = drafted.driver().Run(Session::Start{}, screen);
      ASSERT_TRUE(status.ok()) << status;
      EXPECT_EQ(screen.Take(), alone.text) << PolicyName(kind);
      drafted.driver().Close();
      EXPECT_EQ(drafted.session().stats().attachments, 1u);
    }
  }
}

TEST(RemoteSessionTest, AServerThatIsKilledOverAndOverCostsTimeAndNoToken) {
  const SessionOptions options = Story("Lily had a red ball", 150);
  const Text alone = Alone(options.prompt, {}, options.stops, true);
  auto server = std::make_unique<SmallServer>();
  const int port = server->port();
  const auto verifier = OrDie(RemoteVerifier::Connect(server->address()));
  DraftedSession drafted(options, Damaged(), PolicyKind::kOurs, *verifier);
  // Whenever some more text has come, the server dies; and it stays away for a moment.
  class Killer final : public SessionDriver::Observer {
   public:
    explicit Killer(std::function<void()> kill) : kill_(std::move(kill)) {}
    void OnText(std::string_view text) override {
      text_ += text;
      if (text_.size() > 20 * (kills_ + 1)) {
        ++kills_;
        kill_();
      }
    }
    void OnPromptProgress(uint32_t, uint32_t) override {}
    void OnReport(const absl::Status&) override {}
    bool Interrupted() override { return false; }

    size_t kills_ = 0;
    std::string text_;

   private:
    const std::function<void()> kill_;
  };
  std::thread reviver;
  Killer killer([&] {
    if (reviver.joinable()) reviver.join();
    server.reset();
    reviver = std::thread([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(60));
      server = std::make_unique<SmallServer>(port);
    });
  });
  const absl::Status status = drafted.driver().Run(Session::Start{}, killer);
  if (reviver.joinable()) reviver.join();
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(killer.text_, alone.text);
  EXPECT_GE(killer.kills_, 10u);
  EXPECT_GE(drafted.session().stats().reopenings, 10u);
}

TEST(RemoteSessionTest, AVerifierThatIsNotThereIsGivenUpInASentence) {
  const auto verifier = OrDie(RemoteVerifier::Connect("127.0.0.1:1"));
  const auto described = verifier->Describe();
  EXPECT_EQ(described.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(described.status().message()),
              HasSubstr("cannot reach a verifier at 127.0.0.1:1"));

  SessionOptions options = Story("Once", 5);
  options.link.first_patience = std::chrono::milliseconds(300);
  DraftedSession drafted(options, Good(), PolicyKind::kOurs, *verifier);
  Screen screen;
  const absl::Status status = drafted.driver().Run(Session::Start{}, screen);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("attempts"));
}

TEST(RemoteSessionTest, AddressesAreHostAndPort) {
  for (const char* address : {"", "host", ":7", "host:", "host:x", "host:65536", "host:123456"}) {
    EXPECT_EQ(RemoteVerifier::Connect(address).status().code(), absl::StatusCode::kInvalidArgument)
        << address;
  }
  for (const char* address : {"host:1", "[::1]:65535", "127.0.0.1:80"}) {
    EXPECT_TRUE(RemoteVerifier::Connect(address).ok()) << address;
  }
}

}  // namespace
}  // namespace outrider
