#include "client/cli/terminal_screen.h"

#include <cstdio>
#include <utility>

#include "common/base/interrupt.h"
#include "common/base/status.h"

namespace outrider {

void TerminalScreen::OnText(std::string_view text) {
  EndReply();  // the prompt has been read
  text_ += text;
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

void TerminalScreen::OnPromptProgress(uint32_t processed, uint32_t total) {
  if (!bar_) bar_.emplace("reading the prompt", total, ProgressUnit::kTokens);
  bar_->AdvanceTo(processed, "");
}

void TerminalScreen::OnReport(const absl::Status& status) {
  std::fprintf(stderr, "outrider: %s\n", std::string(Message(status)).c_str());
}

bool TerminalScreen::Interrupted() {
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
