#include "common/base/chrome_trace.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "common/base/clock.h"
#include "common/base/status.h"

namespace outrider {
namespace {

constexpr ChromeTrace::Label kNoRoom = {"events that found no room", {"count"}};

// Microseconds, to the nanosecond.
std::string Microseconds(Duration duration) {
  const int64_t ns = std::max<int64_t>(duration.count(), 0);
  const std::string fraction = std::to_string(1000 + ns % 1000);
  return Concat(ns / 1000, ".", std::string_view(fraction).substr(1));
}

}  // namespace

absl::StatusOr<std::unique_ptr<ChromeTrace>> ChromeTrace::Create(const std::string& path) {
  OUTRIDER_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  return std::unique_ptr<ChromeTrace>(new ChromeTrace(std::move(file)));
}

ChromeTrace::ChromeTrace(AtomicFile file)
    : begin_(RealClock().Now()),
      events_(std::make_unique_for_overwrite<Event[]>(kEventsMax)),
      file_(std::move(file)) {
  static_assert(sizeof(Event) * kEventsMax <= kBytesMax);
  static_assert(std::is_trivially_default_constructible_v<Event>);
}

ChromeTrace::Track ChromeTrace::AddTrack(std::string_view name) {
  MutexLock lock(mu_);
  tracks_.emplace_back(name);
  return static_cast<Track>(tracks_.size());
}

absl::Status ChromeTrace::Write() {
  const size_t noted = noted_.load();
  const size_t kept = std::min(noted, kEventsMax);
  std::string text =
      "[\n{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":1,\"tid\":0,\"args\":{"
      "\"name\":\"outrider\"}}";
  {
    MutexLock lock(mu_);
    for (size_t i = 0; i < tracks_.size(); ++i) {
      text += Concat(",\n{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":1,\"tid\":", i + 1,
                     ",\"args\":{\"name\":\"", tracks_[i], "\"}},\n",
                     "{\"ph\":\"M\",\"name\":\"thread_sort_index\",\"pid\":1,\"tid\":", i + 1,
                     ",\"args\":{\"sort_index\":", i + 1, "}}");
    }
  }
  for (size_t i = 0; i < kept; ++i) {
    Append(events_[i], text);
    OUTRIDER_RETURN_IF_ERROR(file_.Append(text));
    text.clear();
  }
  if (noted > kept) {
    const Duration now = RealClock().Now() - begin_;
    Append({&kNoRoom, now, now, Track{1}, Kind::kInstant, {static_cast<uint32_t>(noted - kept)}},
           text);
  }
  OUTRIDER_RETURN_IF_ERROR(file_.Append(text + "\n]\n"));
  return file_.Commit();
}

void ChromeTrace::Append(const Event& event, std::string& text) const {
  text += Concat(",\n{\"name\":\"", event.label->name,
                 "\",\"pid\":1,\"tid\":", static_cast<uint32_t>(event.track),
                 ",\"ts\":", Microseconds(event.begin));
  if (event.kind == Kind::kSpan) {
    text += Concat(",\"ph\":\"X\",\"dur\":", Microseconds(event.end - event.begin));
  } else {
    text += ",\"ph\":\"i\",\"s\":\"t\"";
  }
  text += ",\"args\":{";
  std::string_view comma;
  for (size_t i = 0; i < event.values.size(); ++i) {
    if (event.label->values[i].empty()) continue;
    text += Concat(comma, "\"", event.label->values[i], "\":", event.values[i]);
    comma = ",";
  }
  text += "}}";
}

}  // namespace outrider
