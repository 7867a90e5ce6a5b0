// What a verifier machine is made for: its target, and how much of everything there may be.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "common/base/monotonic_time.h"
#include "common/engine/target.h"
#include "common/text/tokenizer.h"
#include "common/verification/machine/pruning_way.h"
#include "common/verification/machine/scheduler.h"

namespace outrider {

// Which of the hints that wait for a device's stream goes first, and what hints call probable.
enum class HintOrder : uint8_t {
  kProbability,  // the most probable, by the exits' calibration
  kSoftmax,      // that of the largest softmax, which is called its probability (the FSD paper's)
  kArrival,      // the oldest
  kRandom,       // any: what the others are compared with
};

struct VerifierConfig {
  // Of the target, as Describe tells it.
  std::string model_name;
  std::string numerics_id;
  std::string tokenizer_fingerprint;
  uint32_t vocabulary_size = 0;
  uint32_t context_length = 0;
  uint32_t pass_nodes_max = 63;
  std::vector<uint32_t> exit_depths;
  HintOrder hint_order = HintOrder::kProbability;
  PruningWay pruning = PruningWay::kOff;  // where there are exits

  uint32_t sketch_nodes_max = 256;
  // What of the target's is lent out: sequences, and pages of what its layers keep of them, where
  // runs have up to so many rows.
  uint32_t sequence_count_max = 16;
  std::vector<PageGroup> page_groups;
  uint32_t row_count_max = 256;
  bool forks_share_pages = false;  // TargetInfo

  uint32_t session_count_max = 1024;
  // Of a key, or of an origin without one; 0: a quarter of those there may be, so that nobody has
  // all of them.
  uint32_t session_count_of_key_max = 0;
  // What sessions keep besides the target's memory (VerifiedSequence::bytes()): those of a caller
  // together so much, and for each that he may have a context of tokens and so much more. That is
  // room for all who ask for nothing in particular; not all can have a megabyte of stop strings, or
  // counts of a large vocabulary for penalties. Of all together the same.
  uint64_t bytes_of_sessions = 64 << 20;
  uint64_t bytes_of_session = 512 << 10;
  // Of a key, or of an origin without one; 0: any number. A key may have terms of its own.
  uint32_t opens_per_minute = 0;
  uint32_t stream_count_max = 2048;
  uint32_t stream_count_of_key_max = 1024;  // unless its terms say another number
  uint32_t stream_count_of_origin_max = 1024;
  // Of a stream; an edit counts as several (message_pace.h); 0: any number.
  uint32_t messages_per_second = 0;
  uint32_t unread_verdicts_max = 3;  // that the transport has not taken
  // Verdicts that a device has not said it saw: so many at first, and one more for each that it has.
  uint32_t unseen_verdicts_first = 8;
  uint32_t unseen_verdicts_max = 64;
  Scheduler::Options scheduler;
  // Those who draft do so on the processor that the target computes on. What a target would gain by
  // going on alone it would take from them, so DRY_POLICY_ADAPTIVE waits for growth.
  bool shares_processor = false;
  // A draft stands beside the target, for those who leave drafting to it.
  bool drafts = false;
  bool draft_shares_cores = false;  // with the target, and so takes their time from it

  uint32_t SessionsOfOneCaller() const {
    if (session_count_of_key_max > 0) return session_count_of_key_max;
    return std::max(1u, session_count_max / 4);
  }

  Duration time_to_live = std::chrono::minutes(2);        // of a session without a stream
  Duration first_message_max = std::chrono::seconds(10);  // of a new stream
  Duration silence_max = std::chrono::minutes(15);        // of a device
  // Without a pass, and for want of the device's word: then others may have a session's memory.
  Duration idle_max = std::chrono::seconds(5);
  // Of what a session that has gone leaves at the target, for the next one that begins alike.
  Duration prefix_max = std::chrono::minutes(10);
  Duration write_max = std::chrono::seconds(30);   // of one message
  Duration retry_after = std::chrono::seconds(1);  // said to whom there is no room for
};

// All that this target has, for as many sessions as it can hold and those that wait their turn.
VerifierConfig ConfigFor(const TargetInfo& info, const Tokenizer& tokenizer);

}  // namespace outrider
