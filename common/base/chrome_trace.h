// What happened when, drawn: a trace in Chrome's format, an array of events in JSON, which
// chrome://tracing and ui.perfetto.dev show as tracks on one axis of time.
//
//   OUTRIDER_ASSIGN_OR_RETURN(const auto trace, ChromeTrace::Create("run.json"));
//   static constexpr ChromeTrace::Label kRun = {"run", {"nodes", "prompt tokens"}};
//   const ChromeTrace::Track target = trace->AddTrack("target");
//   trace->Span(target, kRun, begin, end, {nodes, tokens});    // while things happen
//   trace->Instant(target, kDone, end);
//   OUTRIDER_RETURN_IF_ERROR(trace->Write());                  // when all is over
//
// Noting an event takes a place in memory and fills it in; nothing is formatted before Write(), and
// whoever has no trace has a null pointer. Spans of one track follow one another, or lie inside one
// another: viewers draw no others.
//
// Threads: AddTrack(), Span() and Instant() from any; Write() when the others have come to an end.
// Memory:  kEventsMax places, of which those are touched that are used. Of events after that only
//          the number is told.
// Errors:  those of its file (atomic_file.h), which appears with Write() or not at all.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/atomic_file.h"
#include "common/base/monotonic_time.h"
#include "common/base/mutex.h"

namespace outrider {

class ChromeTrace {
 public:
  static constexpr size_t kEventsMax = size_t{1} << 18;
  static constexpr size_t kBytesMax = 64 * kEventsMax;  // that they take of memory

  using Values = std::array<uint32_t, 3>;
  // What events of a kind are called, and their values; one without a name is not told. Constants of
  // the program, in plain letters, which outlive the trace.
  struct Label {
    std::string_view name;
    std::array<std::string_view, 3> values = {};
  };
  enum class Track : uint32_t {};

  // Times in the file are counted from here.
  static absl::StatusOr<std::unique_ptr<ChromeTrace>> Create(const std::string& path);

  // Tracks are drawn in the order in which they are added.
  Track AddTrack(std::string_view name);

  void Span(Track track, const Label& label, MonotonicTime begin, MonotonicTime end,
            const Values& values = {}) {
    Note({&label, begin - begin_, end - begin_, track, Kind::kSpan, values});
  }
  void Instant(Track track, const Label& label, MonotonicTime at, const Values& values = {}) {
    Note({&label, at - begin_, at - begin_, track, Kind::kInstant, values});
  }

  // Once, and last.
  absl::Status Write();

 private:
  enum class Kind : uint32_t { kSpan, kInstant };
  // Making one does nothing, so that making many touches no memory.
  struct Event {
    const Label* label;
    Duration begin;  // since begin_
    Duration end;
    Track track;
    Kind kind;
    Values values;
  };

  explicit ChromeTrace(AtomicFile file);

  void Note(const Event& event) {
    const size_t place = noted_.fetch_add(1, std::memory_order_relaxed);
    if (place < kEventsMax) events_[place] = event;
  }
  void Append(const Event& event, std::string& text) const;

  const MonotonicTime begin_;
  const std::unique_ptr<Event[]> events_;
  std::atomic<size_t> noted_ = 0;
  AtomicFile file_;
  Mutex mu_;
  std::vector<std::string> tracks_ ABSL_GUARDED_BY(mu_);
};

}  // namespace outrider
