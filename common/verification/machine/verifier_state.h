// What a verifier machine knows, and all its parts work on.
//
// Threads: as a vector.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include "common/base/check.h"
#include "common/verification/machine/callers.h"
#include "common/verification/machine/draft_worth.h"
#include "common/verification/machine/next_run.h"
#include "common/verification/machine/origins.h"
#include "common/verification/machine/session_memory.h"
#include "common/verification/machine/sessions.h"
#include "common/verification/machine/streams.h"
#include "common/verification/machine/verifier_config.h"
#include "common/verification/machine/verifier_events.h"

namespace outrider {

struct VerifierState {
  VerifierState(VerifierConfig machine_config, std::function<uint64_t()> bits)
      : config(std::move(machine_config)),
        random_bits(std::move(bits)),
        streams({.stream_count_max = config.stream_count_max,
                 .unread_verdicts_max = config.unread_verdicts_max,
                 .messages_per_second = config.messages_per_second,
                 .first_message_max = config.first_message_max,
                 .silence_max = config.silence_max,
                 .write_max = config.write_max,
                 .retry_after = config.retry_after},
                moment),
        sessions({.session_count_max = config.session_count_max,
                  .session_count_of_key_max = config.SessionsOfOneCaller(),
                  .time_to_live = config.time_to_live,
                  .shares_processor = config.shares_processor},
                 random_bits, moment),
        run(config.scheduler, config.exit_depths.empty() ? PruningWay::kOff : config.pruning),
        memory({.groups = config.page_groups,
                .sequence_count = config.sequence_count_max,
                .row_count_max = config.row_count_max},
               config.forks_share_pages, sessions, callers, run) {
    OUTRIDER_CHECK(config.vocabulary_size > 0, "a target is described");
  }

  // Its parts refer to one another.
  VerifierState(const VerifierState&) = delete;
  VerifierState& operator=(const VerifierState&) = delete;

  const VerifierConfig config;
  const std::function<uint64_t()> random_bits;
  Moment moment;
  Callers callers;
  Origins origins;
  Streams streams;
  Sessions sessions;
  NextRun run;
  DraftWorth draft_worth;
  SessionMemory memory;
};

}  // namespace outrider
