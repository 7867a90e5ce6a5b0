// The verifier that runs: the driver with its threads, and decoded messages of several devices, in
// any order and at any time, while streams break, end and are slow to write. Whatever comes, the
// parts of the machine agree with one another, the target is asked for nothing but what the
// committed tokens allow (the scripted one stops the process otherwise), the driver answers when it
// is asked how it is, and drains when it is told to.
//
// The input is read as a list of events, as verifier_fuzz.cc's is; when each of them meets the
// machine, its threads say, so an input need not do the same again.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/verification/verifier_driver.h"
#include "tests/fuzz/device_messages.h"
#include "tests/verification/scripted_target.h"
#include "tests/verification/verifier_world.h"

namespace outrider {
namespace {

constexpr std::chrono::seconds kAnswerMax(20);

// The other end of a stream: what the driver has asked of it and has not been answered.
class Line {
 public:
  explicit Line(VerifierDriver& driver) : driver_(driver), number_(driver.NextNumber()) {}

  void Open(const char* key) { driver_.Open(number_, std::make_unique<Stream>(*this), key); }

  bool is_asked() {
    MutexLock lock(mu_);
    return is_asked_ && !has_ended_;
  }
  void Say(v1::ClientMessage message) {
    {
      MutexLock lock(mu_);
      is_asked_ = false;
      up_ = std::move(message);
    }
    driver_.Received(number_, up_);
  }
  void Break() { driver_.Broken(number_); }

  // Answers what waits for an answer; the messages that were written are the device's.
  std::vector<v1::ServerMessage> Take() {
    std::vector<v1::ServerMessage> taken;
    {
      MutexLock lock(mu_);
      taken.swap(written_);
    }
    for (size_t i = 0; i < taken.size(); ++i) driver_.Written(number_);
    return taken;
  }
  // Whether it had ended: it is not to be used any more, once its messages were taken.
  bool AcknowledgeEnd() {
    {
      MutexLock lock(mu_);
      if (!has_ended_ || !written_.empty()) return false;
    }
    driver_.Ended(number_);
    return true;
  }
  bool is_gone() {
    MutexLock lock(mu_);
    return is_gone_;
  }

 private:
  class Stream final : public VerifierDriver::Stream {
   public:
    explicit Stream(Line& line) : line_(line) {}
    ~Stream() override {
      MutexLock lock(line_.mu_);
      line_.is_gone_ = true;
    }
    void Read() override {
      MutexLock lock(line_.mu_);
      OUTRIDER_CHECK(!line_.is_asked_ && !line_.has_ended_, "a message is asked for once");
      line_.is_asked_ = true;
    }
    void Send(const v1::ServerMessage& message) override {
      MutexLock lock(line_.mu_);
      OUTRIDER_CHECK(line_.written_.empty() && !line_.has_ended_, "one is written at a time");
      line_.written_.push_back(message);
    }
    void End(const absl::Status&, bool) override {
      MutexLock lock(line_.mu_);
      OUTRIDER_CHECK(!line_.has_ended_, "a stream ends once");
      line_.has_ended_ = true;
    }

   private:
    Line& line_;
  };

  VerifierDriver& driver_;
  const VerifierDriver::StreamNumber number_;
  v1::ClientMessage up_;
  Mutex mu_;
  bool is_asked_ ABSL_GUARDED_BY(mu_) = false;
  bool has_ended_ ABSL_GUARDED_BY(mu_) = false;
  bool is_gone_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<v1::ServerMessage> written_ ABSL_GUARDED_BY(mu_);
};

VerifierConfig LiveConfig() {
  VerifierConfig config = CrampedConfig();
  config.drafts = false;  // nobody drafts beside this target
  return config;
}

class Fuzz {
 public:
  Fuzz(const uint8_t* data, size_t size) : input_(data, size) {}

  void Run() {
    while (!input_.empty()) {
      Step();
      ForgetEnded();
    }
    OUTRIDER_CHECK(driver_.AskStats(RealClock().Now() + kAnswerMax).has_value(),
                   "the machine's thread answers");
    driver_.Drain(Duration(0));
    const MonotonicTime end = RealClock().Now() + kAnswerMax;
    while (!driver_.WaitUntilDrained(RealClock().Now() + std::chrono::milliseconds(1))) {
      OUTRIDER_CHECK(RealClock().Now() < end, "who is told to leave leaves");
      for (const auto& line : lines_) Hear(*line);
      ForgetEnded();
    }
    while (std::ranges::any_of(ended_, [](const auto& line) { return !line->is_gone(); })) {
      OUTRIDER_CHECK(RealClock().Now() < end, "a stream that has ended goes");
      std::this_thread::yield();
    }
  }

 private:
  void Step() {
    switch (input_.Below(16)) {
      case 0:
      case 1:
        lines_.push_back(std::make_unique<Line>(driver_));
        lines_.back()->Open(input_.Flip() ? "a" : "b");
        break;
      case 2:
        if (Line* const line = AnyLine()) line->Break();
        break;
      case 3:
        driver_.Revoke(input_.Flip() ? "a" : "b");
        break;
      case 4:
        if (input_.Below(32) == 0) driver_.Drain(std::chrono::milliseconds(input_.Byte()));
        break;
      case 5:
        std::this_thread::sleep_for(std::chrono::microseconds(100));
        break;
      case 6:
      case 7:
      case 8:
        if (Line* const line = AnyLine()) Hear(*line);
        break;
      case 9:
        for (const auto& line : lines_) Hear(*line);
        break;
      default:
        // It has not been asked yet, or is not going to be: which of these, threads decide.
        if (Line* const line = AnyLine(); line != nullptr && line->is_asked()) {
          line->Say(input_.Flip() ? messages_.First() : messages_.Next());
        }
        break;
    }
  }

  Line* AnyLine() {
    if (lines_.empty()) return nullptr;
    return lines_[input_.Below(static_cast<uint32_t>(lines_.size()))].get();
  }

  void Hear(Line& line) {
    for (const v1::ServerMessage& message : line.Take()) messages_.Hear(message);
  }

  // Their streams may be told to do nothing more, but they are still there for a moment.
  void ForgetEnded() {
    for (auto& line : lines_) {
      if (line->AcknowledgeEnd()) ended_.push_back(std::move(line));
    }
    std::erase(lines_, nullptr);
  }

  const VerifierConfig config_ = LiveConfig();
  Input input_;
  DeviceMessages messages_{input_};
  FakeClock clock_;  // the target's own: it takes no time
  ScriptedTarget target_{{.model_name = config_.model_name,
                          .numerics_id = {},
                          .vocabulary_size = config_.vocabulary_size,
                          .context_length = config_.context_length,
                          .node_count_max = config_.pass_nodes_max,
                          .sequence_count_max = config_.sequence_count_max,
                          .page_groups = config_.page_groups,
                          .forks_share_pages = config_.forks_share_pages},
                         ScriptedTarget::Times{},
                         clock_};
  uint64_t bits_ = 0;
  VerifierMachine machine_{config_,
                           {ByteTokenizer(), [this] { return ++bits_ * 0x9e3779b97f4a7c15; }}};
  std::vector<std::unique_ptr<Line>> lines_;
  std::vector<std::unique_ptr<Line>> ended_;
  VerifierDriver driver_{machine_, target_};  // last: its threads use all above
};

}  // namespace
}  // namespace outrider

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  outrider::Fuzz(data, size).Run();
  return 0;
}
