#include "server/operations/event_log.h"

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <utility>

#include "common/base/clock.h"
#include "common/base/quote.h"
#include "common/base/status.h"
#include "nlohmann/json.hpp"

namespace outrider {
namespace {

// A log that nobody reads for so long keeps nobody from ending.
constexpr int kUnreadMs = 1000;
// Of a field: what somebody says of himself may be long.
constexpr size_t kTextMax = 256;

// 2026-01-31T12:00:00.123Z
std::string TimeNow() {
  const auto now = std::chrono::system_clock::now();
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  const auto milliseconds =
      std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count() % 1000;
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char text[32];
  const size_t size = std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &parts);
  std::string time(text, size);
  const std::string digits = Concat(1000 + milliseconds);
  return time + "." + digits.substr(1) + "Z";
}

// What a line can hold as it is.
bool IsPlain(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char letter) {
    return letter > ' ' && letter < 127 && letter != '"' && letter != '=';
  });
}

std::string TextOf(const EventLog::Field& field) {
  if (const auto* const text = std::get_if<std::string_view>(&field.value)) {
    return IsPlain(*text) ? std::string(*text) : Quote(*text);
  }
  if (const auto* const number = std::get_if<uint64_t>(&field.value)) return Concat(*number);
  return Concat(std::get<double>(field.value));
}

std::string TextLine(std::string_view event, EventLog::Fields fields) {
  std::string line = Concat(TimeNow(), " ", event);
  for (const EventLog::Field& field : fields) line += Concat(" ", field.name, "=", TextOf(field));
  return line;
}

std::string JsonLine(std::string_view event, EventLog::Fields fields) {
  nlohmann::ordered_json json = {{"time", TimeNow()}, {"event", event}};
  for (const EventLog::Field& field : fields) {
    auto& value = json[std::string(field.name)];
    if (const auto* const text = std::get_if<std::string_view>(&field.value)) {
      value = text->substr(0, kTextMax);
    } else if (const auto* const number = std::get_if<uint64_t>(&field.value)) {
      value = *number;
    } else {
      value = std::get<double>(field.value);
    }
  }
  return json.dump(-1, ' ', /*ensure_ascii=*/true, nlohmann::json::error_handler_t::replace);
}

}  // namespace

EventLog::EventLog(Form form, int descriptor, uint32_t lines_per_second)
    : form_(form), descriptor_(descriptor), lines_per_second_(lines_per_second) {
  writer_ = std::thread([this] { Run(); });
}

EventLog::~EventLog() {
  {
    MutexLock lock(mu_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  writer_.join();
}

void EventLog::Write(std::string_view event, Fields fields) {
  MutexLock lock(mu_);
  if (!MayAdd()) return;
  Add(form_ == Form::kJson ? JsonLine(event, fields) : TextLine(event, fields));
}

void EventLog::Say(std::string_view event, Fields fields, std::string_view words) {
  if (form_ == Form::kJson) return Write(event, fields);
  MutexLock lock(mu_);
  if (MayAdd()) Add(std::string(words));
}

void EventLog::Flush() {
  MutexLock lock(mu_);
  while (!waiting_.empty() || writing_) changed_.Wait(mu_);
}

bool EventLog::MayAdd() {
  const MonotonicTime now = RealClock().Now();
  const double seconds = std::chrono::duration<double>(now - allowed_at_).count();
  allowed_ = std::min<double>(kWaitingMax, allowed_ + seconds * lines_per_second_);
  allowed_at_ = now;
  if (allowed_ < 1 || waiting_.size() >= kWaitingMax) {
    ++left_out_;
    return false;
  }
  allowed_ -= 1;
  return true;
}

void EventLog::Add(std::string line) {
  if (const uint64_t count = std::exchange(left_out_, 0); count > 0) {
    const Fields fields = {{"lines", count}};
    waiting_.push_back(form_ == Form::kJson ? JsonLine("left_out", fields)
                                            : TextLine("left_out", fields));
    waiting_.back() += '\n';
  }
  line.resize(std::min(line.size(), kLineBytesMax));
  line += '\n';
  waiting_.push_back(std::move(line));
  changed_.NotifyAll();
}

// --- the writer's thread ---

void EventLog::Run() {
  for (bool is_read = true;;) {
    std::string line;
    {
      MutexLock lock(mu_);
      writing_ = false;
      if (!is_read) left_out_ += 1 + waiting_.size();
      if (!is_read) waiting_.clear();
      changed_.NotifyAll();
      while (waiting_.empty() && !stopping_) changed_.Wait(mu_);
      if (waiting_.empty()) return;
      line = std::move(waiting_.front());
      waiting_.pop_front();
      writing_ = true;
    }
    is_read = WriteOut(line);
  }
}

// False: nobody takes it.
bool EventLog::WriteOut(std::string_view line) const {
  pollfd ready = {.fd = descriptor_, .events = POLLOUT, .revents = 0};
  if (poll(&ready, 1, kUnreadMs) <= 0) return false;
  while (!line.empty()) {
    const ssize_t count = write(descriptor_, line.data(), line.size());
    if (count < 0) return false;
    line.remove_prefix(static_cast<size_t>(count));
  }
  return true;
}

}  // namespace outrider
