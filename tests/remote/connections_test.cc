// What connections cost a server, whatever is said on them, and how its own end comes.
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "client/verifier/remote_verifier.h"
#include "common/base/file_descriptor.h"
#include "common/verification/wire_prompt.h"
#include "gmock/gmock.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "httplib.h"
#include "server/security/keys.h"
#include "tests/base/scratch_dir.h"
#include "tests/client/stories_world.h"
#include "tests/remote/raw_http2.h"
#include "tests/remote/server_process.h"

namespace outrider {
namespace {

using ::testing::HasSubstr;

class Ignoring final : public SessionDriver::Observer {
 public:
  void OnText(std::string_view) override {}
  void OnPromptProgress(uint32_t, uint32_t) override {}
  void OnReport(const absl::Status&) override {}
  bool Interrupted() override { return false; }
};

class ConnectionsTest : public testing::Test {
 protected:
  void Start(std::vector<std::string> flags, const char* program = OUTRIDER_SERVER) {
    flags.insert(flags.end(), {"--admin", "127.0.0.1:0", "--sessions", "4"});
    server_ = std::make_unique<ServerProcess>(0, flags, program);
    const std::string line = server_->AwaitLine("probes and metrics on ");
    admin_ = std::make_unique<httplib::Client>(line.substr(line.rfind("http")));
  }

  // With the labels that follow the model's, if it has any.
  double Metric(const std::string& name, const std::string& label = "") {
    const httplib::Result result = admin_->Get("/metrics");
    const std::string text = result ? result->body : "";
    for (size_t at = 0; (at = text.find("\n" + name + "{", at)) != std::string::npos; ++at) {
      const size_t end = text.find("} ", at);
      if (text.substr(at, end - at).find(label) != std::string::npos) {
        return std::stod(text.substr(end + 2));
      }
    }
    return -1;
  }

  bool Becomes(const std::string& name, double value, const std::string& label = "") {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (std::chrono::steady_clock::now() < until) {
      if (Metric(name, label) == value) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return false;
  }

  absl::Status Reply(const LinkSecurity& security = {}) const {
    OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<RemoteVerifier> verifier,
                              RemoteVerifier::Connect(server_->address(), security));
    return verifier->Describe().status();
  }

  std::unique_ptr<ServerProcess> server_;
  std::unique_ptr<httplib::Client> admin_;
};

v1::GenerateRequest OnceWith(uint32_t tokens) {
  v1::GenerateRequest request;
  SetPrompt(TheTokenizer().Encode("Once"), *request.mutable_open());
  request.mutable_open()->mutable_stops()->set_max_tokens(tokens);
  return request;
}

TEST_F(ConnectionsTest, OfOneAddressThereAreSoManyAndThoseWhoLeaveMakeRoom) {
  Start({"--connections-per-address", "3"});
  std::vector<FileDescriptor> connections;
  for (int i = 0; i < 3; ++i) connections.push_back(ConnectTo(server_->port()));
  EXPECT_TRUE(Becomes("outrider:num_connections", 3));
  EXPECT_TRUE(IsHungUp(ConnectTo(server_->port()), 5000));
  EXPECT_FALSE(IsHungUp(connections.front(), 100));
  EXPECT_TRUE(Becomes("outrider:refusals_total", 1, "connections_of_address"));
  EXPECT_THAT(server_->AwaitLine(" refused reason=connections_of_address"),
              HasSubstr("origin=ipv4:127.0.0.1"));
  for (int i = 0; i < 20; ++i) {  // over and over
    connections.erase(connections.begin());
    EXPECT_TRUE(Becomes("outrider:num_connections", 2));
    connections.push_back(ConnectTo(server_->port()));
    EXPECT_TRUE(Becomes("outrider:num_connections", 3));
  }
  connections.clear();
  EXPECT_TRUE(Becomes("outrider:num_connections", 0));
  EXPECT_TRUE(Reply().ok());
}

TEST_F(ConnectionsTest, WhoHasTooManyHoldsUpNobodyElse) {
  Start({"--connections-per-address", "1"});
  const FileDescriptor first = ConnectTo(server_->port());
  EXPECT_TRUE(Becomes("outrider:num_connections", 1));
  std::vector<FileDescriptor> refused;
  for (int i = 0; i < 200; ++i) refused.push_back(ConnectTo(server_->port()));
  const FileDescriptor another = ConnectTo(server_->port(), INADDR_LOOPBACK + 1);
  pollfd polled = {.fd = another.get(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(poll(&polled, 1, 2000), 1) << "gRPC says something first";
  EXPECT_TRUE(IsHungUp(refused.back(), 5000));
}

TEST_F(ConnectionsTest, InAllThereAreSoMany) {
  Start({"--connections", "2"});
  const FileDescriptor first = ConnectTo(server_->port());
  const FileDescriptor second = ConnectTo(server_->port());
  EXPECT_TRUE(IsHungUp(ConnectTo(server_->port()), 5000));
  EXPECT_TRUE(Becomes("outrider:refusals_total", 1, "reason=\"connections\""));
}

TEST_F(ConnectionsTest, OneWithoutACallIsHungUpOn) {
  Start({"--connection-idle-seconds", "1"});
  const auto channel = grpc::CreateChannel(server_->address(), grpc::InsecureChannelCredentials());
  ASSERT_TRUE(
      channel->WaitForConnected(std::chrono::system_clock::now() + std::chrono::seconds(10)));
  EXPECT_TRUE(Becomes("outrider:num_connections", 1));
  EXPECT_TRUE(Becomes("outrider:num_connections", 0));
  EXPECT_TRUE(Reply().ok());
}

TEST_F(ConnectionsTest, OneThatDoesNotSayWhatItSpeaksIsHungUpOn) {
  Start({"--handshake-seconds", "1"});
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_TRUE(IsHungUp(ConnectTo(server_->port()), 30'000));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(8));
  EXPECT_TRUE(Becomes("outrider:num_connections", 0));
  EXPECT_TRUE(Reply().ok());
}

// A key goes into a header; this one is as long as a device takes.
TEST_F(ConnectionsTest, OfHeadersThereAreNoMoreThanTheFlagSays) {
  const std::string long_key(1024, 'k');
  Start({});
  EXPECT_TRUE(Reply({.key = long_key}).ok()) << "there are no keys here, so any will do";
  Start({"--header-bytes", "1KiB"});
  EXPECT_FALSE(Reply({.key = long_key}).ok());
  EXPECT_TRUE(Reply().ok());
}

// Before they would have to be counted: of that many none has sent anything yet.
TEST_F(ConnectionsTest, WhoBeginsThemTooFastWaits) {
  Start({"--connects-per-second", "32"});
  const auto begin = std::chrono::steady_clock::now();
  std::vector<FileDescriptor> connections;
  for (int i = 0; i < 34; ++i) connections.push_back(ConnectTo(server_->port()));
  EXPECT_TRUE(Becomes("outrider:num_connections", 34)) << "those who wait are there";
  for (const FileDescriptor& connection : connections) {
    pollfd polled = {.fd = connection.get(), .events = POLLIN, .revents = 0};
    EXPECT_EQ(poll(&polled, 1, 10'000), 1) << "gRPC says something first";
  }
  const auto elapsed = std::chrono::steady_clock::now() - begin;
  EXPECT_GT(elapsed, std::chrono::milliseconds(800)) << "two at once, and 32 a second";
  EXPECT_LT(elapsed, std::chrono::seconds(5));
}

// --- what is sent besides messages ---

// Until the server has had enough of it, or so much has been sent.
bool IsHungUpWhileSending(const FileDescriptor& socket, const std::string& what, size_t bytes_max) {
  for (size_t sent = 0; sent < bytes_max; sent += what.size()) {
    if (send(socket.get(), what.data(), what.size(), MSG_NOSIGNAL) < 0) return true;
  }
  return IsHungUp(socket, 1000);
}

TEST_F(ConnectionsTest, WhoSendsMuchThatIsNoMessageIsHungUpOn) {
  Start({});
  const auto before = OrDie(RemoteVerifier::Connect(server_->address(), {}));
  EXPECT_TRUE(before->Describe().ok());
  const FileDescriptor stranger = ConnectTo(server_->port());
  send(stranger.get(), Preface().data(), Preface().size(), MSG_NOSIGNAL);
  std::string settings;
  for (int i = 0; i < 100; ++i) settings += Frame(4, 0, 0, "");
  EXPECT_TRUE(IsHungUpWhileSending(stranger, settings, 64 << 20));
  EXPECT_TRUE(Becomes("outrider:refusals_total", 1, "\"traffic\""));
  EXPECT_THAT(server_->AwaitLine(" refused reason=traffic"), HasSubstr("origin=ipv4:127.0.0.1"));
  EXPECT_TRUE(before->Describe().ok()) << "who was there, at the same address, goes on";
  EXPECT_FALSE(IsHungUp(ConnectTo(server_->port()), 100)) << "who comes now waits";
}

// For how long after somebody there was hung up on a connection waits.
std::chrono::milliseconds WaitAfterAFlood(uint16_t port) {
  const FileDescriptor stranger = ConnectTo(port);
  send(stranger.get(), Preface().data(), Preface().size(), MSG_NOSIGNAL);
  std::string settings;
  for (int i = 0; i < 100; ++i) settings += Frame(4, 0, 0, "");
  EXPECT_TRUE(IsHungUpWhileSending(stranger, settings, 64 << 20));
  const auto begin = std::chrono::steady_clock::now();
  const FileDescriptor next = ConnectTo(port);
  pollfd polled = {.fd = next.get(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(poll(&polled, 1, 60'000), 1) << "gRPC says something first";
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() -
                                                               begin);
}

TEST_F(ConnectionsTest, HowLongAnAddressIsShutOutIsSaidByAFlag) {
  Start({"--shut-out-seconds", "1"});
  const auto short_wait = WaitAfterAFlood(server_->port());
  EXPECT_GT(short_wait, std::chrono::milliseconds(200));
  Start({"--shut-out-seconds", "6"});
  const auto long_wait = WaitAfterAFlood(server_->port());
  EXPECT_GT(long_wait, std::chrono::seconds(3));
  EXPECT_LT(short_wait, long_wait);
}

// Of what it keeps, gRPC would not have told anybody.
TEST_F(ConnectionsTest, HeadersWithoutAnEndTakeNoMemory) {
  Start({});
  const int64_t before = server_->peak_kilobytes();
  const FileDescriptor stranger = ConnectTo(server_->port());
  std::string fields;
  for (int i = 0; i < 50; ++i) fields += Field(std::string(100, 'x'), std::string(100, 'y'));
  const std::string begin = Preface() + Frame(1, 0, 1, Field(":method", "POST"));
  send(stranger.get(), begin.data(), begin.size(), MSG_NOSIGNAL);
  EXPECT_TRUE(IsHungUpWhileSending(stranger, Frame(9, 0, 1, fields), 1 << 30));
  if (kCountsMemory) {
    EXPECT_LT(server_->peak_kilobytes() - before, 64 << 10);
  }
}

// gRPC's own limit of them would have taken it hundreds of megabytes. Its answers are not read.
TEST_F(ConnectionsTest, AFloodOfPingsTakesNoMemory) {
  Start({});
  const int64_t before = server_->peak_kilobytes();
  const FileDescriptor stranger = ConnectTo(server_->port());
  send(stranger.get(), Preface().data(), Preface().size(), MSG_NOSIGNAL);
  std::string pings;
  for (int i = 0; i < 20; ++i) pings += Frame(6, 0, 0, std::string(8, 'p'));
  EXPECT_TRUE(IsHungUpWhileSending(stranger, pings, 1 << 30));
  if (kCountsMemory) {
    EXPECT_LT(server_->peak_kilobytes() - before, 32 << 10);
  }
}

// A call without a good key is small, and is looked at all the same.
TEST_F(ConnectionsTest, WhoTriesOneKeyAfterTheOtherIsHungUpOn) {
  const ScratchDir dir;
  const std::string key = NewKey();
  std::ofstream(dir.File("keys")) << LineOf("robot", key);
  Start({"--keys", dir.File("keys")});
  const auto known = OrDie(RemoteVerifier::Connect(server_->address(), {.key = key}));
  EXPECT_TRUE(known->Describe().ok());
  const auto stranger = OrDie(RemoteVerifier::Connect(server_->address(), {.key = NewKey()}));
  int tried = 0;
  while (stranger->Describe().status().code() == absl::StatusCode::kUnauthenticated) {
    ASSERT_LT(++tried, 1000);
  }
  EXPECT_GT(tried, 30) << "who has his key wrong is told so";
  EXPECT_TRUE(known->Describe().ok());
}

// Though he takes another connection for every few.
TEST_F(ConnectionsTest, WhoTriesOneKeyAfterTheOtherIsHungUpOnWhateverConnectionHeTakes) {
  const ScratchDir dir;
  std::ofstream(dir.File("keys")) << LineOf("robot", NewKey());
  Start({"--keys", dir.File("keys"), "--shut-out-seconds", "1"});
  const auto is_hung_up_on = [&] { return Metric("outrider:refusals_total", "\"traffic\"") >= 1; };
  int tried = 0;
  for (; tried < 3000 && !is_hung_up_on();) {
    const auto stranger = OrDie(RemoteVerifier::Connect(server_->address(), {.key = NewKey()}));
    for (int i = 0; i < 20; ++i, ++tried) stranger->Describe().status().IgnoreError();
  }
  EXPECT_TRUE(is_hung_up_on());
  EXPECT_GT(tried, 250) << "many devices may share an address";
}

// Who has what he may have is told so, and comes again: not hundreds of times at once.
TEST_F(ConnectionsTest, WhoAsksOnAndOnForMoreThanHeMayHaveIsHungUpOn) {
  Start({"--opens-per-minute", "1", "--shut-out-seconds", "1"});
  const auto is_hung_up_on = [&] { return Metric("outrider:refusals_total", "\"traffic\"") >= 1; };
  const v1::GenerateRequest request = OnceWith(1);
  int told_why = 0;
  for (int tried = 0; tried < 3000 && !is_hung_up_on();) {
    const auto greedy = OrDie(RemoteVerifier::Connect(server_->address(), {}));
    for (int i = 0; i < 40; ++i, ++tried) {
      const absl::Status status = greedy->Generate(request, [](const auto&) { return true; });
      told_why += status.message().find("may open no more than 1 a minute") != std::string::npos;
    }
  }
  EXPECT_TRUE(is_hung_up_on());
  EXPECT_GT(told_why, 250) << "many devices may share an address";
}

// Nor does a call cost more that has no such key, or needs none, and is reset at once.
TEST_F(ConnectionsTest, WhoResetsHisCallsBeforeTheySaidAnythingIsHungUpOn) {
  Start({});
  const FileDescriptor stranger = ConnectTo(server_->port());
  send(stranger.get(), Preface().data(), Preface().size(), MSG_NOSIGNAL);
  constexpr char kEndOfHeaders = 4;
  const std::string cancelled({0, 0, 0, 8});
  uint32_t calls = 0;
  while (!IsHungUp(stranger, 5)) {
    std::string some;
    for (int i = 0; i < 20; ++i) {
      const uint32_t stream = 1 + 2 * calls++;
      some += Frame(1, kEndOfHeaders, stream, HeadersOf("/outrider.v1.Verifier/Decode")) +
              Frame(3, 0, stream, cancelled);
    }
    if (send(stranger.get(), some.data(), some.size(), MSG_NOSIGNAL) < 0) break;
    ASSERT_LT(calls, 2000) << "their bytes alone would be many more calls";
  }
  EXPECT_GT(calls, 100) << "who gives up now and then goes on";
}

// A device sends little besides messages, however many of those.
TEST_F(ConnectionsTest, ADeviceIsNotHungUpOn) {
  Start({"--overhead-bytes", "4096", "--message-memory", "4096"});
  const auto verifier = OrDie(RemoteVerifier::Connect(server_->address(), {}));
  for (int i = 0; i < 120; ++i) {
    SessionOptions options;
    options.prompt = TheTokenizer().Encode("Once upon a time");
    options.stops.max_tokens = 200;
    DraftedSession drafted(options, Damaged(), PolicyKind::kOurs, *verifier);
    Ignoring shown;
    const absl::Status status = drafted.driver().Run(Session::Start{}, shown);
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(drafted.session().stats().attachments, 1u);
  }
  EXPECT_GT(Metric("outrider:message_bytes_total", "\"up\""), 100e3) << "more than besides them";
  EXPECT_EQ(Metric("outrider:refusals_total", "\"traffic\""), 0);
}

// --- descriptors ---

size_t DescriptorsOf(pid_t pid) {
  const std::filesystem::directory_iterator all(Concat("/proc/", pid, "/fd"));
  return static_cast<size_t>(std::distance(begin(all), end(all)));
}

void AllowDescriptors(pid_t pid, rlim_t count) {
  rlimit limit{};
  ASSERT_EQ(prlimit(pid, RLIMIT_NOFILE, nullptr, &limit), 0);
  limit.rlim_cur = count;
  ASSERT_EQ(prlimit(pid, RLIMIT_NOFILE, &limit, nullptr), 0);
}

TEST_F(ConnectionsTest, AServerWithoutDescriptorsSaysSoAndGoesOnWhenItHasSome) {
  Start({});
  const auto before = OrDie(RemoteVerifier::Connect(server_->address(), {}));
  EXPECT_TRUE(before->Describe().ok());
  AllowDescriptors(server_->pid(), DescriptorsOf(server_->pid()));
  const FileDescriptor waiting = ConnectTo(server_->port());
  EXPECT_THAT(server_->AwaitLine(" refused reason=descriptors"), HasSubstr("Too many open files"));
  EXPECT_TRUE(before->Describe().ok()) << "who is there goes on";
  AllowDescriptors(server_->pid(), 1024);
  pollfd polled = {.fd = waiting.get(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(poll(&polled, 1, 10'000), 1) << "whoever waited is let in";
  EXPECT_TRUE(Reply().ok());
}

double ProcessorSeconds(pid_t pid) {
  clockid_t clock{};
  EXPECT_EQ(clock_getcpuclockid(pid, &clock), 0);
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

TEST_F(ConnectionsTest, TheOperatorsPortWaitsForDescriptorsAndTakesNoProcessorMeanwhile) {
  Start({});
  const uint16_t port = ServerProcess::PortIn(server_->AwaitLine("probes and metrics on "));
  const double begin = ProcessorSeconds(server_->pid());
  constexpr rlim_t kStandard = 3;  // it has those, and none below them is free
  AllowDescriptors(server_->pid(), kStandard);
  const FileDescriptor asker = ConnectTo(port);
  const std::string request = "GET /health/live HTTP/1.1\r\n\r\n";
  send(asker.get(), request.data(), request.size(), MSG_NOSIGNAL);
  pollfd polled = {.fd = asker.get(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(poll(&polled, 1, 1000), 0) << "there is none for it";
  EXPECT_LT(ProcessorSeconds(server_->pid()) - begin, 0.1);
  AllowDescriptors(server_->pid(), 1024);
  EXPECT_EQ(poll(&polled, 1, 10'000), 1);
}

// --- peers that are not there any more ---

// It has called, and neither says anything again nor answers: as if its cable had been cut.
TEST_F(ConnectionsTest, APeerThatVanishesWithoutAWordIsNoticed) {
  Start({"--keepalive-seconds", "2", "--first-message-seconds", "600"});
  const FileDescriptor vanished = ConnectTo(server_->port());
  const std::string said = Preface() + Frame(1, 4, 1, HeadersOf("/outrider.v1.Verifier/Decode"));
  send(vanished.get(), said.data(), said.size(), MSG_NOSIGNAL);
  EXPECT_TRUE(Becomes("outrider:num_streams", 1));
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_TRUE(Becomes("outrider:num_streams", 0));
  EXPECT_TRUE(Becomes("outrider:num_connections", 0));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
}

// --- refusals ---

class Refused final : public Verifier::Listener {
 public:
  void OnMessage(uint64_t, v1::ServerMessage&&) override {}
  void OnWritten(uint64_t) override {}
  void OnDown(uint64_t, const absl::Status& status) override {
    MutexLock lock(mu_);
    status_ = status;
    is_down_ = true;
    changed_.NotifyAll();
  }
  absl::Status Await() {
    MutexLock lock(mu_);
    while (!is_down_) changed_.Wait(mu_);
    return status_;
  }

 private:
  Mutex mu_;
  CondVar changed_;
  absl::Status status_ ABSL_GUARDED_BY(mu_);
  bool is_down_ ABSL_GUARDED_BY(mu_) = false;
};

TEST_F(ConnectionsTest, OfAKeyThereAreSoManyStreamsAndWhoIsRefusedIsSeen) {
  const ScratchDir dir;
  const std::string key = NewKey();
  const std::string other = NewKey();
  std::ofstream(dir.File("keys")) << LineOf("robot", key) << " streams=2\n"
                                  << LineOf("other", other) << "\n";
  Start({"--keys", dir.File("keys"), "--streams-per-key", "1"});
  const auto verifier = OrDie(RemoteVerifier::Connect(server_->address(), {.key = key}));
  Refused streams[4];
  verifier->Open(1, streams[0]);
  verifier->Open(2, streams[1]);
  EXPECT_TRUE(Becomes("outrider:num_streams", 2));
  verifier->Open(3, streams[2]);
  const absl::Status status = streams[2].Await();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("too many streams of this key"));
  EXPECT_THAT(server_->AwaitLine(" refused reason=streams_of_key"), HasSubstr(" key=robot "));
  verifier->Close(1);
  verifier->Close(2);
  // Another's are others.
  const auto others = OrDie(RemoteVerifier::Connect(server_->address(), {.key = other}));
  others->Open(1, streams[3]);
  EXPECT_TRUE(Becomes("outrider:num_streams", 1));
  others->Close(1);

  EXPECT_FALSE(Reply({.key = NewKey()}).ok());
  EXPECT_FALSE(Reply({}).ok());
  EXPECT_TRUE(Becomes("outrider:refusals_total", 1, "unknown_key"));
  EXPECT_TRUE(Becomes("outrider:refusals_total", 1, "no_key"));
  EXPECT_THAT(server_->AwaitLine(" refused reason=unknown_key"), HasSubstr("ipv4:127.0.0.1"));
}

// --- a caller who reads nothing ---

// HTTP/2 to the letter, of a caller who lets the server say nothing: its window is of no bytes.
FileDescriptor CallWithoutAWindow(uint16_t port) {
  const std::string message = OnceWith(200).SerializeAsString();
  const std::string data = {0, 0, 0, static_cast<char>(message.size() >> 8),
                            static_cast<char>(message.size())};
  const std::string said =
      "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + Frame(4, 0, 0, std::string("\0\4\0\0\0\0", 6)) +
      Frame(1, 4, 1, HeadersOf("/outrider.v1.Verifier/Generate")) + Frame(0, 1, 1, data + message);
  FileDescriptor socket = ConnectTo(port);
  EXPECT_EQ(send(socket.get(), said.data(), said.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(said.size()));
  return socket;
}

TEST_F(ConnectionsTest, AGenerateThatIsNotReadIsEnded) {
  Start({"--write-seconds", "1"});
  const FileDescriptor caller = CallWithoutAWindow(server_->port());
  EXPECT_TRUE(Becomes("outrider:num_streams", 1));
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_TRUE(Becomes("outrider:num_streams", 0));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(15))
      << "before it is noticed that nothing answers pings";
  EXPECT_TRUE(Becomes("outrider:faults_total", 1, "STALLED"));
}

TEST_F(ConnectionsTest, AGenerateThatIsNotReadDoesNotHoldUpTheEnd) {
  Start({"--drain-seconds", "1"});
  const FileDescriptor caller = CallWithoutAWindow(server_->port());
  EXPECT_TRUE(Becomes("outrider:num_streams", 1));
  const auto begin = std::chrono::steady_clock::now();
  server_->Stop();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
}

// The target is in a pass that takes ten times as long as there is.
TEST_F(ConnectionsTest, APassThatTakesForEverDoesNotHoldUpTheEnd) {
  Start({"--pass", "60000", "--drain-seconds", "1"}, OUTRIDER_PACED_SERVER);
  const FileDescriptor caller = CallWithoutAWindow(server_->port());
  EXPECT_TRUE(Becomes("outrider:num_requests_running", 1));
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(server_->Stop(), 1);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(15));
  EXPECT_THAT(server_->AwaitLine("ended before all sessions had"), HasSubstr("ended"));
}

}  // namespace
}  // namespace outrider
