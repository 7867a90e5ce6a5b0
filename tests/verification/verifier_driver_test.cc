// The server's two threads, with streams that a test holds the other ends of.
#include "common/verification/verifier_driver.h"

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/verification/scripted_target.h"
#include "tests/verification/verifier_news.h"
#include "tests/verification/verifier_world.h"

namespace outrider {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

// The other end of a stream. It outlives the stream that the driver owns.
class Wire {
 public:
  Wire(VerifierDriver& driver, bool writes_at_once)
      : driver_(driver), number_(driver.NextNumber()), writes_at_once_(writes_at_once) {
    {
      MutexLock lock(mu_);
      is_there_ = true;
    }
    driver_.Open(number_, std::make_unique<Stream>(*this), "key");
  }

  // Says this when it is asked for.
  void Say(const v1::ClientMessage& message) {
    ASSERT_TRUE(Await([this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return is_read_; }));
    {
      MutexLock lock(mu_);
      is_read_ = false;
      up_ = message;
    }
    driver_.Received(number_, up_);
  }

  // From now on whenever it is asked for something, at once, and on the machine's own thread: there
  // is always something told.
  void SayForever(const v1::ClientMessage& message) {
    ASSERT_TRUE(Await([this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return is_read_; }));
    {
      MutexLock lock(mu_);
      up_ = message;
      says_forever_ = true;
    }
    driver_.Received(number_, up_);
  }
  void BeSilent() {
    MutexLock lock(mu_);
    says_forever_ = false;
  }

  // What was sent last has been taken, or the stream breaks.
  void Write() { driver_.Written(number_); }
  void Break() { driver_.Broken(number_); }
  void Acknowledge() { driver_.Ended(number_); }

  // False when it does not come in good time.
  bool AwaitKind(v1::ServerMessage::KindCase kind) {
    return Await([this, kind]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
      return !received_.empty() && received_.back().kind_case() == kind;
    });
  }
  bool AwaitEnd() {
    return Await([this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return end_.has_value(); });
  }
  // Whether it has ended; false: it has received more than so many messages.
  bool AwaitEndOrMore(size_t messages) {
    Await([this, messages]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
      return end_.has_value() || received_.size() > messages;
    });
    MutexLock lock(mu_);
    return end_.has_value();
  }
  bool AwaitGone() {
    return Await([this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return !is_there_; });
  }

  std::vector<v1::ServerMessage> received() {
    MutexLock lock(mu_);
    return received_;
  }
  // What is being written, as the driver has it now.
  std::string being_written() {
    MutexLock lock(mu_);
    return being_written_->SerializeAsString();
  }
  absl::Status end() {
    MutexLock lock(mu_);
    return *end_;
  }
  bool ended_at_once() {
    MutexLock lock(mu_);
    return at_once_;
  }
  bool is_there() {
    MutexLock lock(mu_);
    return is_there_;
  }

  // On the machine's thread, which waits for it. Set while that is idle.
  std::function<void(const v1::ServerMessage& message)> before_send;
  std::function<void()> before_read;

 private:
  class Stream final : public VerifierDriver::Stream {
   public:
    explicit Stream(Wire& wire) : wire_(wire) {}
    ~Stream() override {
      MutexLock lock(wire_.mu_);
      wire_.is_there_ = false;
      wire_.changed_.NotifyAll();
    }
    void Read() override {
      if (wire_.before_read) wire_.before_read();
      bool says = false;
      {
        MutexLock lock(wire_.mu_);
        says = wire_.says_forever_;
        wire_.is_read_ = !says;
        wire_.changed_.NotifyAll();
      }
      if (says) wire_.driver_.Received(wire_.number_, wire_.up_);
    }
    void Send(const v1::ServerMessage& message) override {
      if (wire_.before_send) wire_.before_send(message);
      {
        MutexLock lock(wire_.mu_);
        wire_.received_.push_back(message);
        wire_.being_written_ = &message;
        wire_.changed_.NotifyAll();
      }
      if (wire_.writes_at_once_) wire_.Write();
    }
    void End(const absl::Status& status, bool at_once) override {
      MutexLock lock(wire_.mu_);
      OUTRIDER_CHECK(!wire_.end_, "a stream ends once");
      wire_.end_ = status;
      wire_.at_once_ = at_once;
      wire_.changed_.NotifyAll();
    }

   private:
    Wire& wire_;
  };

  bool Await(const std::function<bool()>& condition) {
    const MonotonicTime deadline = RealClock().Now() + seconds(10);
    MutexLock lock(mu_);
    while (!condition()) {
      if (!changed_.WaitUntil(mu_, deadline)) return condition();
    }
    return true;
  }

  VerifierDriver& driver_;
  const VerifierDriver::StreamNumber number_;
  const bool writes_at_once_;
  Mutex mu_;
  CondVar changed_;
  v1::ClientMessage up_;
  bool is_read_ ABSL_GUARDED_BY(mu_) = false;
  bool says_forever_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<v1::ServerMessage> received_ ABSL_GUARDED_BY(mu_);
  const v1::ServerMessage* being_written_ ABSL_GUARDED_BY(mu_) = nullptr;
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mu_);
  bool at_once_ ABSL_GUARDED_BY(mu_) = false;
  bool is_there_ ABSL_GUARDED_BY(mu_) = false;
};

// Another one, of whose passes it is known how many have been computed.
class CountedTarget final : public Target {
 public:
  explicit CountedTarget(Target& target) : target_(target) {}

  int passes() const { return passes_; }

  const TargetInfo& info() const override { return target_.info(); }
  absl::StatusOr<SequenceId> CreateSequence() override { return target_.CreateSequence(); }
  absl::StatusOr<SequenceId> Fork(SequenceId id, uint32_t length) override {
    return target_.Fork(id, length);
  }
  absl::Status Close(SequenceId id) override { return target_.Close(id); }
  absl::StatusOr<uint32_t> Truncate(SequenceId id, uint32_t length) override {
    return target_.Truncate(id, length);
  }
  absl::StatusOr<uint32_t> Length(SequenceId id) const override { return target_.Length(id); }
  void Run(std::span<Reading> readings, std::span<const Pass> passes,
           std::span<PassResult> results) override {
    target_.Run(readings, passes, results);
    passes_ += static_cast<int>(passes.size());
  }
  absl::Status Commit(SequenceId id, const Outcome& outcome) override {
    return target_.Commit(id, outcome);
  }

 private:
  Target& target_;
  std::atomic<int> passes_ = 0;
};

class VerifierDriverTest : public ::testing::Test {
 protected:
  // What it needs, in real time, whose target takes none.
  void Start(VerifierConfig config = SmallConfig()) {
    target_.emplace(TargetInfo{.model_name = config.model_name,
                               .numerics_id = {},
                               .vocabulary_size = config.vocabulary_size,
                               .context_length = config.context_length,
                               .node_count_max = config.pass_nodes_max,
                               .sequence_count_max = config.sequence_count_max,
                               .page_groups = config.page_groups,
                               .forks_share_pages = config.forks_share_pages},
                    ScriptedTarget::Times{}, clock_);
    machine_.emplace(std::move(config), VerifierMachine::Parts{ByteTokenizer(), [this] {
                                                                 return bits_ += 0x9e3779b97f4a7c15;
                                                               }});
    counted_.emplace(*target_);
    driver_.emplace(*machine_, *counted_);
  }

  std::unique_ptr<Wire> Connect(bool writes_at_once = true) {
    return std::make_unique<Wire>(*driver_, writes_at_once);
  }

  // A stream whose end is answered as a transport does.
  static void ExpectEnd(Wire& wire) {
    ASSERT_TRUE(wire.AwaitEnd());
    wire.Acknowledge();
    EXPECT_TRUE(wire.AwaitGone());
  }

  static std::string TextOf(Wire& wire) {
    std::string text;
    for (const v1::Verdict& verdict : VerdictsOf(wire.received())) {
      text.push_back(static_cast<char>(verdict.next()));
    }
    return text;
  }

  // Whether the target comes to so many.
  bool Computes(int passes) const {
    const MonotonicTime deadline = RealClock().Now() + seconds(5);
    while (counted_->passes() < passes && RealClock().Now() < deadline) {
      std::this_thread::sleep_for(milliseconds(1));
    }
    return counted_->passes() >= passes;
  }

  FakeClock clock_;  // the target's own
  std::optional<ScriptedTarget> target_;
  std::optional<CountedTarget> counted_;
  uint64_t bits_ = 0;
  std::optional<VerifierMachine> machine_;
  std::optional<VerifierDriver> driver_;
};

v1::ClientMessage Alone(uint64_t nonce, std::string_view prompt, uint32_t tokens) {
  v1::ClientMessage message = OpenOf(nonce, prompt, v1::DRY_POLICY_ALONE);
  message.mutable_open()->mutable_stops()->set_max_tokens(tokens);
  return message;
}

v1::ClientMessage Farewell() {
  v1::ClientMessage message;
  message.mutable_close();
  return message;
}

TEST_F(VerifierDriverTest, ASessionIsWrittenToItsEnd) {
  Start();
  const auto wire = Connect();
  wire->Say(Alone(1, "once", 50));
  ASSERT_TRUE(wire->AwaitKind(v1::ServerMessage::kVerdict));
  wire->Say(Farewell());
  ExpectEnd(*wire);
  EXPECT_TRUE(wire->end().ok()) << wire->end();
  const std::string text = "once" + TextOf(*wire);
  EXPECT_TRUE(TextAfter("once", 50).starts_with(text)) << text;
}

// A device that never stops talking keeps the machine busy; one that says nothing is sent away in
// time all the same.
TEST_F(VerifierDriverTest, DeadlinesComeUnderSteadyLoad) {
  VerifierConfig config = SmallConfig();
  config.first_message_max = milliseconds(50);
  Start(config);
  const auto talker = Connect();
  talker->Say(OpenOf(1, "once"));
  ASSERT_TRUE(talker->AwaitKind(v1::ServerMessage::kOpened));
  talker->SayForever(v1::ClientMessage());  // of a kind that is not known yet
  const auto silent = Connect();
  const bool ended = silent->AwaitEnd();
  talker->BeSilent();
  ASSERT_TRUE(ended);
  EXPECT_EQ(silent->end().code(), absl::StatusCode::kDeadlineExceeded) << silent->end();
  ExpectEnd(*silent);
  talker->Break();
  ExpectEnd(*talker);
}

// What a transport makes of a verdict may take long. The target computes meanwhile; and when it is
// done, that comes before whatever streams have said by then.
TEST_F(VerifierDriverTest, TheTargetWaitsForNothingThatStreamsHaveToHearOrSay) {
  Start();
  const auto talker = Connect();
  talker->Say(OpenOf(1, "once"));
  ASSERT_TRUE(talker->AwaitKind(v1::ServerMessage::kOpened));
  std::atomic<bool> beside_a_verdict = false;
  std::atomic<bool> before_a_message = false;
  std::atomic<bool> is_first = true;
  const auto wire = Connect();
  wire->before_send = [&](const v1::ServerMessage& message) {
    if (!message.has_verdict() || !is_first.exchange(false)) return;
    talker->before_read = [&] { before_a_message = Computes(3); };
    talker->Say(v1::ClientMessage());
    beside_a_verdict = Computes(2);
    std::this_thread::sleep_for(milliseconds(50));  // until it has told that it is done
  };
  wire->Say(Alone(2, "twice", 5));
  ASSERT_TRUE(wire->AwaitKind(v1::ServerMessage::kVerdict));
  wire->Say(Farewell());
  ExpectEnd(*wire);
  EXPECT_TRUE(beside_a_verdict) << "the second pass, while the first verdict is written";
  EXPECT_TRUE(before_a_message) << "the third, which began before the message was taken in";
  talker->Break();
  ExpectEnd(*talker);
}

// Else whoever calls a thousand times at once would hold up what others are told.
TEST_F(VerifierDriverTest, WhatIsWrittenMakesRoomBeforeAnybodyNewIsHeard) {
  Start();
  const auto talker = Connect();
  talker->Say(OpenOf(1, "once"));
  ASSERT_TRUE(talker->AwaitKind(v1::ServerMessage::kOpened));
  const auto reader = Connect(/*writes_at_once=*/false);
  reader->Say(Alone(2, "twice", 5));
  ASSERT_TRUE(reader->AwaitKind(v1::ServerMessage::kOpened));
  ASSERT_TRUE(Computes(2)) << "a verdict waits until that is written";
  std::atomic<bool> is_heard = false;
  std::atomic<bool> goes_first = false;
  const auto wire = Connect();
  wire->before_send = [&](const v1::ServerMessage& message) {
    if (!message.has_opened()) return;
    talker->before_read = [&] { is_heard = true; };
    reader->before_send = [&](const v1::ServerMessage&) { goes_first = !is_heard; };
    talker->Say(v1::ClientMessage());
    reader->Write();
  };
  wire->Say(OpenOf(3, "third"));
  EXPECT_TRUE(reader->AwaitKind(v1::ServerMessage::kVerdict));
  EXPECT_TRUE(goes_first);
  for (Wire* const one : {talker.get(), reader.get(), wire.get()}) {
    one->Break();
    ExpectEnd(*one);
  }
}

// The transport still reads the message: it stays as it is until the transport says that it has
// ended, and is not awaited.
TEST_F(VerifierDriverTest, AStreamMayEndWhileItsWriteIsUnderWay) {
  Start();
  const auto wire = Connect(/*writes_at_once=*/false);
  wire->Say(Alone(1, "once", 200));
  ASSERT_TRUE(wire->AwaitKind(v1::ServerMessage::kOpened));
  wire->Write();
  ASSERT_TRUE(wire->AwaitKind(v1::ServerMessage::kVerdict));
  const std::string written = wire->being_written();
  wire->Break();
  ASSERT_TRUE(wire->AwaitEnd());
  EXPECT_TRUE(wire->ended_at_once());
  // The machine goes on with others meanwhile. Nothing is being written to this one when it breaks.
  const auto other = Connect(/*writes_at_once=*/false);
  other->Say(OpenOf(2, "twice"));
  ASSERT_TRUE(other->AwaitKind(v1::ServerMessage::kOpened));
  other->Write();
  other->Break();
  ExpectEnd(*other);
  EXPECT_FALSE(other->ended_at_once());

  EXPECT_TRUE(wire->is_there());
  EXPECT_EQ(wire->being_written(), written);
  EXPECT_EQ(wire->received().back().SerializeAsString(), written);
  wire->Acknowledge();
  EXPECT_TRUE(wire->AwaitGone());
}

TEST_F(VerifierDriverTest, ADrainWaitsForWhatIsBeingWritten) {
  Start();
  const auto wire = Connect(/*writes_at_once=*/false);
  wire->Say(Alone(1, "once", 3));
  ASSERT_TRUE(wire->AwaitKind(v1::ServerMessage::kOpened));
  driver_->Drain(seconds(60));
  EXPECT_FALSE(driver_->WaitUntilDrained(RealClock().Now() + milliseconds(20)));
  const auto late = Connect();
  late->Say(Alone(2, "late", 3));
  ExpectEnd(*late);
  EXPECT_EQ(late->end().code(), absl::StatusCode::kUnavailable);
  // Until the reply has ended and its stream with it, as slowly as it reads.
  std::thread reader([&] {
    size_t read = 0;
    do {
      wire->Write();
    } while (!wire->AwaitEndOrMore(++read));
    wire->Acknowledge();
  });
  EXPECT_TRUE(driver_->WaitUntilDrained(RealClock().Now() + seconds(10)));
  EXPECT_FALSE(wire->is_there());
  reader.join();
  EXPECT_EQ("once" + TextOf(*wire), TextAfter("once", 3));
}

TEST_F(VerifierDriverTest, ADrainEndsByItsDeadline) {
  Start();
  const auto wire = Connect();
  wire->Say(OpenOf(1, "once"));  // and waits for growth that never comes
  ASSERT_TRUE(wire->AwaitKind(v1::ServerMessage::kOpened));
  const MonotonicTime begin = RealClock().Now();
  driver_->Drain(milliseconds(100));
  ExpectEnd(*wire);
  EXPECT_GE(RealClock().Now() - begin, milliseconds(100));
  EXPECT_EQ(wire->received().back().fault().kind(), v1::Fault::DRAINING);
  EXPECT_TRUE(driver_->WaitUntilDrained(RealClock().Now() + seconds(10)));
}

TEST_F(VerifierDriverTest, ATargetThatFailsEndsTheSessionWithItsSentence) {
  Start();
  target_->fails_next_pass = true;
  const auto wire = Connect();
  wire->Say(Alone(1, "once", 5));
  ASSERT_TRUE(wire->AwaitKind(v1::ServerMessage::kFault));
  ExpectEnd(*wire);
  EXPECT_THAT(std::string(wire->end().message()), HasSubstr("the machine is on fire"));
  EXPECT_THAT(wire->received().back().fault().message(), HasSubstr("the machine is on fire"));
  // Others never hear of it.
  const auto other = Connect();
  other->Say(Alone(2, "twice", 5));
  ASSERT_TRUE(other->AwaitKind(v1::ServerMessage::kVerdict));
  other->Break();
  ExpectEnd(*other);
}

// Both threads end while the target has work left, and nothing of the streams stays.
TEST_F(VerifierDriverTest, ItEndsInTheMiddleOfATargetsWork) {
  for (int trial = 0; trial < 20; ++trial) {
    Start();
    std::vector<std::unique_ptr<Wire>> wires;
    for (uint64_t nonce = 1; nonce <= 3; ++nonce) {
      wires.push_back(Connect());
      wires.back()->Say(Alone(nonce, "once", 200));
    }
    for (const auto& wire : wires) ASSERT_TRUE(wire->AwaitKind(v1::ServerMessage::kVerdict));
    for (const auto& wire : wires) wire->Break();
    for (const auto& wire : wires) {
      ASSERT_TRUE(wire->AwaitEnd());
      wire->Acknowledge();
    }
    driver_.reset();
    for (const auto& wire : wires) EXPECT_FALSE(wire->is_there());
    machine_->CheckInvariants();
  }
}

}  // namespace
}  // namespace outrider
