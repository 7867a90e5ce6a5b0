// A session in a trace (common/base/chrome_trace.h): what its driver sees of messages, drafts and text, each
// on a track of its own.
//
//   session    verdicts, from the transport's thread until all they ask for is done; inside, the
//              growth that was there before its verdict, until it is with the transport
//   up, down   other messages, by kind
//   drafter    its batches
//   screen     text, for as long as it takes to show it
//   the server's passes, as it tells them
//              what verdicts say of them, put where the verdict came: the way down is not in it
//
// Threads: those of a driver; each method says whose.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "common/base/chrome_trace.h"
#include "common/base/monotonic_time.h"
#include "proto/outrider/v1/verifier.pb.h"

namespace outrider {

class SessionTrace {
 public:
  // `trace` outlives it. Of a target in this process passes are noted where they run.
  SessionTrace(ChromeTrace& trace, bool is_target_here);

  // The session's thread.
  void Sent(const v1::ClientMessage& message, MonotonicTime at);
  // `token_count` of them were committed by it.
  void Received(const v1::ServerMessage& message, size_t token_count, MonotonicTime arrived,
                MonotonicTime handled);
  // Growth, at once, after a verdict.
  void Answered(size_t node_count, MonotonicTime verdict, MonotonicTime sent);

  // The drafter's.
  void Drafted(size_t node_count, size_t context_count, MonotonicTime begin, MonotonicTime end);

  // The observer's.
  void Shown(size_t byte_count, MonotonicTime begin, MonotonicTime end);

 private:
  void DrawPass(const v1::Verdict& verdict, MonotonicTime arrived);

  ChromeTrace& trace_;
  const ChromeTrace::Track session_;
  const ChromeTrace::Track up_;
  const ChromeTrace::Track down_;
  const ChromeTrace::Track drafter_;
  const ChromeTrace::Track screen_;
  const std::optional<ChromeTrace::Track> server_;
  MonotonicTime pass_end_ = {};  // of the newest on it
};

}  // namespace outrider
