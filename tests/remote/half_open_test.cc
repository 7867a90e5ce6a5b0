// Calls of which nothing but headers comes: what they cost, how they end, and that nobody suffers.
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "client/verifier/remote_verifier.h"
#include "common/verification/wire_prompt.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/silent_calls.h"
#include "tests/client/stories_world.h"
#include "tests/remote/raw_http2.h"
#include "tests/remote/server_process.h"

namespace outrider {
namespace {

using ::testing::HasSubstr;

constexpr char kDescribe[] = "/outrider.v1.Verifier/Describe";
constexpr char kDecode[] = "/outrider.v1.Verifier/Decode";
constexpr char kGenerate[] = "/outrider.v1.Verifier/Generate";
constexpr char kCheck[] = "/grpc.health.v1.Health/Check";
constexpr char kWatch[] = "/grpc.health.v1.Health/Watch";
constexpr char kReflection[] = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";

// Where nobody else calls from.
constexpr uint32_t kHostile = INADDR_LOOPBACK + 1;

// A connection with calls of one method, and what it hears of them.
class Calls {
 public:
  Calls(const ServerProcess& server, const std::string& method, uint32_t count,
        uint32_t from = kHostile)
      : count_(count), socket_(ConnectTo(server.port(), from)) {
    constexpr char kEndOfHeaders = 4;
    std::string said = Preface();
    for (uint32_t i = 0; i < count; ++i) {
      said += Frame(1, kEndOfHeaders, 1 + 2 * i, HeadersOf(method));
    }
    EXPECT_EQ(send(socket_.get(), said.data(), said.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(said.size()));
  }

  // How many of them have been ended until now.
  uint32_t ends() {
    Hear();
    return is_hung_up_ ? count_ : ends_;
  }
  // All bytes; what they were told stands there as it is, once.
  const std::string& heard() const { return heard_; }

 private:
  void Hear() {
    char bytes[4096];
    for (;;) {
      const ssize_t count = recv(socket_.get(), bytes, sizeof(bytes), MSG_DONTWAIT);
      if (count == 0) is_hung_up_ = true;
      if (count <= 0) break;
      heard_.append(bytes, static_cast<size_t>(count));
    }
    CountEnds();
  }

  // A call ends with headers that say so.
  void CountEnds() {
    constexpr size_t kFrameHeader = 9;
    while (heard_.size() >= next_frame_ + kFrameHeader) {
      const auto byte = [&](size_t at) {
        return size_t{static_cast<uint8_t>(heard_[next_frame_ + at])};
      };
      if (byte(3) == 1 && (byte(4) & 1) != 0) ++ends_;
      next_frame_ += kFrameHeader + (byte(0) << 16 | byte(1) << 8 | byte(2));
    }
  }

  const uint32_t count_;
  const FileDescriptor socket_;
  std::string heard_;
  size_t next_frame_ = 0;
  uint32_t ends_ = 0;
  bool is_hung_up_ = false;  // for what was refused on it
};

// How many of them have been ended: so many in time, and in the moment after that.
uint32_t AwaitEnds(std::deque<Calls>& calls, uint32_t count) {
  const auto ends = [&] {
    uint32_t sum = 0;
    for (Calls& some : calls) sum += some.ends();
    return sum;
  };
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(8);
  while (ends() < count && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  return ends();
}

// Somebody at another address has what he asks for.
void ExpectItServes(const ServerProcess& server) {
  const auto verifier = OrDie(RemoteVerifier::Connect(server.address()));
  EXPECT_TRUE(verifier->Describe().ok());
  v1::GenerateRequest request;
  SetPrompt(TheTokenizer().Encode("Once"), *request.mutable_open());
  request.mutable_open()->mutable_stops()->set_max_tokens(4);
  size_t tokens = 0;
  const absl::Status status = verifier->Generate(request, [&](const v1::GenerateResponse& told) {
    tokens += static_cast<size_t>(told.tokens_size());
    return true;
  });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(tokens, 4u);
}

class HalfOpenTest : public testing::TestWithParam<std::string> {};

TEST_P(HalfOpenTest, OfAnAddressThereAreAFew) {
  ServerProcess server;
  constexpr uint32_t kOfEach = 113;
  std::deque<Calls> calls;
  for (int i = 0; i < 5; ++i) calls.emplace_back(server, GetParam(), kOfEach);
  constexpr uint32_t kSurplus = 5 * kOfEach - SilentCalls::kOfOriginMax;
  EXPECT_EQ(AwaitEnds(calls, kSurplus), kSurplus);
  std::string heard;
  for (const Calls& some : calls) heard += some.heard();
  ASSERT_THAT(heard, HasSubstr("this address may have no more than 512 calls at a time of "
                               "which no message has come; send it with the call's headers"));
  EXPECT_THAT(server.AwaitLine(" refused reason=silent_calls_of_address"),
              HasSubstr("origin=ipv4:127.0.0.2"));
  ExpectItServes(server);
}

// One connection after the other, each from another address: what a burst takes until it has been
// looked at is another matter.
TEST_P(HalfOpenTest, ThousandsOfThemTakeLittleMemory) {
  ServerProcess server;
  ExpectItServes(server);
  const int64_t before = server.peak_kilobytes();
  constexpr uint32_t kOfEach = 120;
  std::deque<Calls> calls;
  for (uint32_t i = 0; i < 45; ++i) {
    calls.emplace_back(server, GetParam(), kOfEach, kHostile + i);
    const uint32_t sent = (i + 1) * kOfEach;
    const uint32_t surplus = sent - std::min(sent, SilentCalls::kMax);
    ASSERT_GE(AwaitEnds(calls, surplus), surplus);
  }
  ExpectItServes(server);
  if (kCountsMemory) {
    EXPECT_LT(server.peak_kilobytes() - before, 48 << 10) << "gRPC would keep 65 MB of them";
  }
}

TEST_P(HalfOpenTest, WhoSaysNothingIsToldSoAndEnded) {
  ServerProcess server(0, {"--first-message-seconds", "1"});
  std::deque<Calls> calls;
  calls.emplace_back(server, GetParam(), 10);
  EXPECT_EQ(AwaitEnds(calls, 10), 10u);
  const bool is_machines = GetParam() == kDecode || GetParam() == kGenerate;
  EXPECT_THAT(calls[0].heard(), HasSubstr(is_machines ? "the device has been silent for too long"
                                                      : "nothing has come of this call but its "
                                                        "headers; send its message with them"));
}

INSTANTIATE_TEST_SUITE_P(Methods, HalfOpenTest,
                         testing::Values(kDescribe, kDecode, kGenerate, kCheck, kWatch,
                                         kReflection),
                         [](const auto& tested) {
                           const std::string method = tested.param;
                           return method.substr(method.rfind('/') + 1);
                         });

TEST(HalfOpenOfManyTest, InAllThereAreSoMany) {
  ServerProcess server;
  std::deque<Calls> calls;
  for (uint32_t i = 0; i < 9; ++i) calls.emplace_back(server, kDescribe, 120, kHostile + i);
  constexpr uint32_t kSurplus = 9 * 120 - SilentCalls::kMax;
  ASSERT_EQ(AwaitEnds(calls, kSurplus), kSurplus);
  EXPECT_THAT(server.AwaitLine(" refused reason=silent_calls "), HasSubstr("origin=ipv4:127.0.0."));
  ExpectItServes(server);
}

TEST(HalfOpenOfManyTest, OfAMethodThatThereIsNotEachIsAnsweredAtOnce) {
  ServerProcess server;
  std::deque<Calls> calls;
  calls.emplace_back(server, "/outrider.v1.Verifier/Nothing", 100);
  EXPECT_EQ(AwaitEnds(calls, 100), 100u);
  EXPECT_THAT(calls[0].heard(), HasSubstr("grpc-status\x02"
                                          "12"));
}

}  // namespace
}  // namespace outrider
