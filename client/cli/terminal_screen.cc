#include "client/cli/terminal_screen.h"

#include <limits.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <utility>

#include "common/base/clock.h"
#include "common/base/interrupt.h"
#include "common/base/status.h"

namespace outrider {
namespace {

// What a pipe that is ready takes without waiting.
constexpr size_t kPieceBytes = PIPE_BUF;
constexpr int kLookAroundMs = 50;
constexpr Duration kSample = std::chrono::milliseconds(100);  // of what the machine draws

// Waits for whoever reads, but not after Ctrl-C. An error is no reason to stop writing: the text goes
// where the user has sent it, and may be wanted for what is counted.
void Show(std::string_view text) {
  while (!text.empty()) {
    pollfd output = {.fd = STDOUT_FILENO, .events = POLLOUT, .revents = 0};
    if (poll(&output, 1, kLookAroundMs) <= 0) {
      if (Interrupted()) return;
      continue;
    }
    const ssize_t written = write(STDOUT_FILENO, text.data(), std::min(text.size(), kPieceBytes));
    if (written < 0 && errno != EINTR && errno != EAGAIN) return;
    if (written > 0) text.remove_prefix(static_cast<size_t>(written));
  }
}

}  // namespace

void TerminalScreen::OnText(std::string_view text) {
  EndReply();  // the prompt has been read
  text_ += text;
  Show(text);
}

void TerminalScreen::OnPromptProgress(uint32_t processed, uint32_t total) {
  if (!bar_) bar_.emplace("reading the prompt", total, ProgressUnit::kTokens);
  bar_->AdvanceTo(processed, "");
}

void TerminalScreen::OnReport(const absl::Status& status) {
  std::fprintf(stderr, "outrider: %s\n", std::string(Message(status)).c_str());
}

bool TerminalScreen::Interrupted() {
  if (const MonotonicTime now = RealClock().Now(); now - sampled_at_ >= kSample) {
    sampled_at_ = now;
    energy_.Sample();
  }
  return outrider::Interrupted();
}

std::string TerminalScreen::TakeText() {
  return std::exchange(text_, {});
}

void TerminalScreen::EndReply() {
  if (bar_) bar_->Finish();
  bar_.reset();
}

LoadProgress LoadingBars::progress() {
  return [this](uint64_t done, uint64_t total, std::string_view tensor) {
    if (bar_ && done < done_) bar_->Finish();
    if (!bar_ || done < done_) bar_.emplace("loading", total);  // the next model
    done_ = done;
    bar_->AdvanceTo(done, tensor);
  };
}

LoadingBars::~LoadingBars() {
  if (bar_) bar_->Finish();
}

}  // namespace outrider
