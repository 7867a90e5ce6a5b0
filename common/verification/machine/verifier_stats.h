// What a verifier machine has done and what it holds, for those who watch it: metrics, benches and
// tests. Counts only ever rise.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "common/base/histogram.h"
#include "common/base/monotonic_time.h"
#include "common/verification/machine/exit_worth.h"
#include "proto/outrider/v1/verifier.pb.h"

namespace outrider {

// What becomes of sessions' passes, in time.
struct WritingStats {
  // Longer chains than this are not told apart.
  static constexpr size_t kPositions = 16;

  uint64_t passes = 0;
  uint64_t alone_passes = 0;                       // without a drafted node
  uint64_t pass_nodes = 0;                         // drafted, in the others
  uint64_t tokens = 0;                             // committed by verdicts
  std::array<uint64_t, kPositions> accepted_at{};  // drafted tokens that were right, by place
  std::array<uint64_t, v1::Finish_ARRAYSIZE> finished{};  // replies, by why

  // Seconds. From the Open or Append of a reply to its first run and to its first token, between
  // its tokens (those of a verdict have come together, and share the time), and of the whole reply.
  Histogram queue_time = {.001, .003, .01, .03, .1, .3, 1, 3, 10, 30, 100};
  Histogram first_token_time = {.001, .002, .005, .01, .02, .05, .1,  .2,  .5,   1,   2,
                                5,    10,   20,   40,  80,  160, 320, 640, 1280, 2560};
  Histogram token_time = {.0005, .001, .002, .005, .01, .015, .02, .03, .04, .05,
                          .075,  .1,   .15,  .2,   .3,  .5,   1,   2,   5};
  // Of a reply that is finished, the mean between its tokens.
  Histogram reply_token_time = {.0005, .001, .002, .005, .01, .015, .02, .03, .04, .05,
                                .075,  .1,   .15,  .2,   .3,  .5,   1,   2,   5};
  Histogram reply_time = {.1, .3, 1, 3, 10, 30, 100, 300, 1000, 3000};
};

// What the target's device says of its runs.
struct DeviceStats {
  // Seconds, by its own clock, of what one call of the target takes.
  Histogram run_time = {.0005, .001, .002, .003, .005, .0075, .01, .015,
                        .02,   .03,  .05,  .075, .1,   .2,    .5,  1};
  Duration exit_time{};       // of all runs' time: taken by exits, or waiting for them
  Duration exit_side_time{};  // by exits, beside those
  // Pieces of runs (device_work.h).
  uint64_t graph_hits = 0;
  uint64_t graph_misses = 0;
  uint64_t graph_captures = 0;
};

struct RunStats {
  uint64_t runs = 0;
  uint64_t prompt_tokens = 0;  // read, of Opens, Appends and refills
  uint64_t pruned_runs = 0;    // out of whose passes nodes could be taken
  uint64_t nodes_pruned = 0;   // that were
  Histogram run_time = {.001, .002, .005, .01, .02, .03, .05, .075, .1, .15, .2, .3, .5, 1, 2, 5};
  Histogram run_rows = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024};
  std::optional<DeviceStats> device;  // none: it is the host's processor, or keeps no account
};

struct VerifierStats {
  // What it holds now.
  uint64_t sessions = 0;
  uint64_t sessions_waiting = 0;  // for memory
  uint64_t streams = 0;
  uint64_t callers = 0;
  double memory_used = 0;  // of the target's pages, where the fewest are free: 0 to 1
  bool draining = false;

  uint64_t sessions_opened = 0;
  uint64_t sessions_refused = 0;  // for want of room
  uint64_t attachments = 0;       // Opened and Resumed
  uint64_t resumes = 0;           // of those, Resumed
  uint64_t shared_tokens = 0;     // not read, since another session had them
  uint64_t evictions = 0;
  uint64_t hints_sent = 0;
  uint64_t hints_overtaken = 0;
  std::array<uint64_t, v1::Fault::Kind_ARRAYSIZE> faults{};  // by kind

  WritingStats writing;
  RunStats running;

  struct Exit {
    uint32_t depth;  // in thousandths of the layers
    bool on;
    ExitWorth::Counts counts;
  };
  std::vector<Exit> exits;
};

}  // namespace outrider
