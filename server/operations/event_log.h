// The server's log: a line an event, on standard error, for a person or (JSON) for a collector.
//
//   EventLog log(EventLog::Form::kText);
//   log.Say("draining", {{"seconds", 30u}}, "draining: sessions have 30 s left");   // in words
//   log.Write("session", {{"session", number}, {"key", name}, {"tokens", 120u}});   // as fields
//
// Who writes does not wait: a thread does the writing, and where nobody reads, lines are left out and
// counted. So they are where there are more of them a second than there may be (--log-lines-per-second);
// the next line says how many.
//
// Not here: text of a session, and secrets. Nobody is to give it any.
//
// Threads: any.
// Memory:  kWaitingMax lines of kLineBytesMax.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <deque>
#include <initializer_list>
#include <string>
#include <string_view>
#include <thread>
#include <variant>

#include "absl/base/thread_annotations.h"
#include "common/base/monotonic_time.h"
#include "common/base/mutex.h"

namespace outrider {

class EventLog {
 public:
  enum class Form : uint8_t { kText, kJson };

  struct Field {
    std::string_view name;
    std::variant<std::string_view, uint64_t, double> value;
  };
  using Fields = std::initializer_list<Field>;

  static constexpr uint32_t kLinesPerSecond = 200;  // unless it is told otherwise
  static constexpr size_t kWaitingMax = 1024;
  static constexpr size_t kLineBytesMax = 2048;

  explicit EventLog(Form form, int descriptor = STDERR_FILENO,
                    uint32_t lines_per_second = kLinesPerSecond);
  ~EventLog();  // writes what waits, if it can be written
  EventLog(const EventLog&) = delete;
  EventLog& operator=(const EventLog&) = delete;

  Form form() const { return form_; }

  // With the time: 2026-01-31T12:00:00.123Z session session=7 key="robot 7" tokens=120
  void Write(std::string_view event, Fields fields);
  // To a person in these words, to a collector as the fields.
  void Say(std::string_view event, Fields fields, std::string_view words);
  // Returns when all that was said is written, or cannot be.
  void Flush();

 private:
  void Add(std::string line) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool MayAdd() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Run();
  bool WriteOut(std::string_view line) const;

  const Form form_;
  const int descriptor_;
  const uint32_t lines_per_second_;

  Mutex mu_;
  CondVar changed_;
  std::deque<std::string> waiting_ ABSL_GUARDED_BY(mu_);
  bool writing_ ABSL_GUARDED_BY(mu_) = false;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  double allowed_ ABSL_GUARDED_BY(mu_) = kWaitingMax;  // lines, now
  MonotonicTime allowed_at_ ABSL_GUARDED_BY(mu_){};
  uint64_t left_out_ ABSL_GUARDED_BY(mu_) = 0;
  std::thread writer_;  // last: starts when all above exists
};

}  // namespace outrider
