// What is done on the thread that schedules everybody, as far as one caller could make it long.
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "bench/simulator/sources/synthetic_target.h"
#include "bench/simulator/sources/text.h"
#include "bench/simulator/sources/vocabulary.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/random_bits.h"
#include "common/verification/machine/verifier_config.h"
#include "common/verification/verifier_driver.h"
#include "common/verification/wire_prompt.h"
#include "gtest/gtest.h"
#include "tests/remote/served_here.h"

namespace outrider {
namespace {

constexpr uint32_t kVocabulary = 64;

double ThreadSeconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

v1::GenerateRequest TwoTokens() {
  v1::GenerateRequest request;
  SetPrompt(std::vector<TokenId>{1, 2, 3}, *request.mutable_open());
  request.mutable_open()->mutable_stops()->set_max_tokens(2);
  return request;
}

v1::GenerateRequest WithManyStops() {
  v1::GenerateRequest request = TwoTokens();
  for (char first = '0'; first < '0' + 64; ++first) {
    request.mutable_open()->mutable_stops()->add_strings(first + std::string(900, 'x'));
  }
  return request;
}

// A server, which knows what of a processor its machine's thread has taken.
class ServerHere {
 public:
  ~ServerHere() {
    driver_.Drain(std::chrono::seconds(30));
    EXPECT_TRUE(driver_.WaitUntilDrained(RealClock().Now() + std::chrono::seconds(30)));
  }

  // What of the machine's thread this takes, from the end of another call to its own.
  double MachineSeconds(const v1::GenerateRequest& request) {
    const double begin = MachineSecondsAfter(TwoTokens());
    return MachineSecondsAfter(request) - begin;
  }

  // What it takes to prepare it, on this thread.
  double PrepareSeconds(const v1::GenerateRequest& request) const {
    v1::ClientMessage message;
    *message.mutable_open() = request.open();
    const double begin = ThreadSeconds();
    EXPECT_TRUE(machine_.Prepare(message, VerifierMachine::Work::kOpen).sequence->ok());
    return ThreadSeconds() - begin;
  }

 private:
  double MachineSecondsAfter(const v1::GenerateRequest& request) {
    const absl::Status status =
        served_.verifier().Generate(request, [](const v1::GenerateResponse&) { return true; });
    EXPECT_TRUE(status.ok()) << status;
    MutexLock lock(mu_);
    while (!seconds_) is_over_.Wait(mu_);
    return *std::exchange(seconds_, std::nullopt);
  }

  // The machine's thread.
  void SessionOver() {
    MutexLock lock(mu_);
    seconds_ = ThreadSeconds();
    is_over_.NotifyAll();
  }

  Mutex mu_;
  CondVar is_over_;
  std::optional<double> seconds_ ABSL_GUARDED_BY(mu_);

  const std::unique_ptr<Tokenizer> tokenizer_ = MakeVocabulary(kVocabulary);
  const HashedText text_{{.seed = 3, .vocabulary_size = kVocabulary}};
  SyntheticTarget target_{{.context_length = 64, .node_count_max = 7, .sequence_count_max = 4},
                          text_};
  VerifierMachine machine_{ConfigFor(target_.info(), *tokenizer_), {*tokenizer_, RandomBits}};
  VerifierDriver driver_{
      machine_,
      target_,
      nullptr,
      {.refused = nullptr,
       .fault = nullptr,
       .session = [this](const VerifierMachine::SessionOver&) { SessionOver(); }}};
  ServedHere served_{driver_, 64};
};

TEST(MachineThreadTest, WhatAGenerateAsksForIsPreparedElsewhere) {
  ServerHere server;
  const v1::GenerateRequest request = WithManyStops();
  double prepare = HUGE_VAL;
  double machine = HUGE_VAL;
  for (int attempt = 0; attempt < 5; ++attempt) {
    prepare = std::min(prepare, server.PrepareSeconds(request));
    machine = std::min(machine, server.MachineSeconds(request));
  }
  EXPECT_LT(machine, prepare / 2) << "seconds; to prepare it takes " << prepare;
}

}  // namespace
}  // namespace outrider
