#include "client/driver/session_trace.h"

#include <algorithm>
#include <chrono>

#include "common/tokens/growth_bits.h"

namespace outrider {
namespace {

using Label = ChromeTrace::Label;

constexpr Label kVerdict = {"verdict", {"tokens", "nodes of the pass", "pass, us"}};
constexpr Label kAnswer = {"growth that was there", {"nodes"}};

constexpr Label kOpen = {"open", {"prompt tokens"}};
constexpr Label kResume = {"resume", {"tokens"}};
constexpr Label kGrow = {"growth", {"nodes"}};
constexpr Label kAppend = {"append", {"tokens"}};
constexpr Label kTruncate = {"truncate", {"length"}};
constexpr Label kTune = {"tune", {"pass nodes", "hints", "server drafts"}};
constexpr Label kClose = {"close"};

constexpr Label kOpened = {"opened"};
constexpr Label kResumed = {"resumed"};
constexpr Label kProgress = {"prompt", {"tokens read", "of"}};
constexpr Label kHint = {"hint", {"exit", "leaf", "probability, of 255"}};
constexpr Label kDraining = {"draining", {"stops in, ms"}};
constexpr Label kFault = {"fault", {"kind"}};
constexpr Label kUnknown = {"of an unknown kind"};

constexpr Label kBatch = {"batch", {"nodes expanded", "nodes of the sketch"}};
constexpr Label kText = {"text", {"bytes"}};
constexpr Label kPass = {"pass", {"nodes"}};

uint32_t Count(size_t count) {
  return static_cast<uint32_t>(count);
}

uint32_t PromptTokens(const v1::Open& open) {
  size_t count = 0;
  for (const v1::PromptPart& part : open.prompt()) {
    count += static_cast<size_t>(part.tokens().ids_size());
  }
  return Count(count);
}

}  // namespace

SessionTrace::SessionTrace(ChromeTrace& trace, bool is_target_here)
    : trace_(trace),
      session_(trace.AddTrack("session")),
      up_(trace.AddTrack("up")),
      down_(trace.AddTrack("down")),
      drafter_(trace.AddTrack("drafter")),
      screen_(trace.AddTrack("screen")),
      server_(is_target_here
                  ? std::nullopt
                  : std::optional(trace.AddTrack("the server's passes, as it tells them"))) {}

void SessionTrace::Sent(const v1::ClientMessage& message, MonotonicTime at) {
  switch (message.kind_case()) {
    case v1::ClientMessage::kOpen:
      return trace_.Instant(up_, kOpen, at, {PromptTokens(message.open())});
    case v1::ClientMessage::kResume:
      return trace_.Instant(up_, kResume, at, {message.resume().length()});
    case v1::ClientMessage::kGrow:
      return trace_.Instant(up_, kGrow, at, {GrowthReader(message.grow().nodes()).node_count()});
    case v1::ClientMessage::kAppend:
      return trace_.Instant(up_, kAppend, at, {Count(message.append().tokens().size())});
    case v1::ClientMessage::kTruncate:
      return trace_.Instant(up_, kTruncate, at, {message.truncate().length()});
    case v1::ClientMessage::kTune:
      return trace_.Instant(
          up_, kTune, at,
          {message.tune().pass_nodes(), message.tune().hints(), message.tune().draft()});
    case v1::ClientMessage::kClose:
      return trace_.Instant(up_, kClose, at);
    case v1::ClientMessage::KIND_NOT_SET:
      return;
  }
}

void SessionTrace::Received(const v1::ServerMessage& message, size_t token_count,
                            MonotonicTime arrived, MonotonicTime handled) {
  switch (message.kind_case()) {
    case v1::ServerMessage::kOpened:
      return trace_.Instant(down_, kOpened, arrived);
    case v1::ServerMessage::kResumed:
      return trace_.Instant(down_, kResumed, arrived);
    case v1::ServerMessage::kProgress:
      return trace_.Instant(down_, kProgress, arrived,
                            {message.progress().processed(), message.progress().total()});
    case v1::ServerMessage::kHint:
      return trace_.Instant(
          down_, kHint, arrived,
          {message.hint().exit(), message.hint().leaf(), message.hint().probability()});
    case v1::ServerMessage::kVerdict:
      DrawPass(message.verdict(), arrived);
      return trace_.Span(
          session_, kVerdict, arrived, handled,
          {Count(token_count), message.verdict().nodes(), message.verdict().pass_us()});
    case v1::ServerMessage::kDraining:
      return trace_.Instant(down_, kDraining, arrived, {message.draining().deadline_ms()});
    case v1::ServerMessage::kFault:
      return trace_.Instant(down_, kFault, arrived,
                            {static_cast<uint32_t>(message.fault().kind())});
    case v1::ServerMessage::KIND_NOT_SET:
      return trace_.Instant(down_, kUnknown, arrived);
  }
}

// Passes follow one another; verdicts that a link has held up come closer together than that.
void SessionTrace::DrawPass(const v1::Verdict& verdict, MonotonicTime arrived) {
  if (!server_ || verdict.pass_us() == 0) return;
  const MonotonicTime begin = arrived - std::chrono::microseconds(verdict.pass_us());
  trace_.Span(*server_, kPass, std::max(begin, pass_end_), arrived, {verdict.nodes()});
  pass_end_ = arrived;
}

void SessionTrace::Answered(size_t node_count, MonotonicTime verdict, MonotonicTime sent) {
  trace_.Span(session_, kAnswer, verdict, sent, {Count(node_count)});
}

void SessionTrace::Drafted(size_t node_count, size_t context_count, MonotonicTime begin,
                           MonotonicTime end) {
  trace_.Span(drafter_, kBatch, begin, end, {Count(context_count), Count(node_count)});
}

void SessionTrace::Shown(size_t byte_count, MonotonicTime begin, MonotonicTime end) {
  trace_.Span(screen_, kText, begin, end, {Count(byte_count)});
}

}  // namespace outrider
