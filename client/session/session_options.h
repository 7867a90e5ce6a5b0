// What a session is asked to be, and what it has done.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "client/session/link.h"
#include "common/speculation/drafting/sketcher.h"
#include "common/tokens/sampling.h"
#include "common/tokens/stop_conditions.h"
#include "proto/outrider/v1/verifier.pb.h"

namespace outrider {

struct SessionOptions {
  std::vector<TokenId> prompt = {};
  SamplingOptions sampling = {};
  StopOptions stops = {};
  // The first reply's text goes on with the prompt's (StopConditions; a chat's replies do not).
  bool continues_text = false;

  uint32_t length_max = 4096;  // tokens of all turns, prompts and replies; the server may have less
  v1::DryPolicy dry_policy = v1::DRY_POLICY_ADAPTIVE;
  bool hints = true;                       // as far as they are of use: WantsHints()
  uint32_t frame_bytes = 0;                // messages have a multiple of this; 0: as they come
  std::string tokenizer_fingerprint = {};  // empty: not compared
  std::string numerics_id = {};            // empty: not compared
  Sketcher::Options sketch = {};

  LinkOptions link = {};

  // What a verifier is told where its target is to wait, or to go on, as `dry` says: one that has turns, or lends its
  // waits, begins when it is told.
  v1::DryPolicy TurnsOr(v1::DryPolicy dry) const {
    const bool begins_when_told = sketch.takes_turns || sketch.drafts_in_waits;
    return begins_when_told && dry != v1::DRY_POLICY_ALONE ? v1::DRY_POLICY_TURNS : dry;
  }
  // From a target that waits for growth at a root without any, or writes on alone. Where draft and
  // one that waits take turns, nothing is drafted while a pass runs, and a hint of it comes when
  // nobody can make use of it.
  bool WantsHints(bool target_waits) const {
    return hints && !(sketch.takes_turns && target_waits);
  }
};

// What it has done so far.
struct SessionStats {
  uint64_t tokens = 0;                // committed by verdicts, or found written when it attached
  uint64_t passes = 0;                // verdicts
  uint64_t passes_drafted_there = 0;  // of them, down a path that the server has drafted
  uint64_t nodes_expanded = 0;        // whose children the drafter was asked for
  uint64_t nodes_sent = 0;
  uint64_t nodes_passed = 0;    // that passes have taken, each time they did
  uint64_t nodes_accepted = 0;  // drafted tokens that verdicts committed
  uint64_t hints = 0;
  uint64_t hints_right = 0;
  // Of passes, those whose verdict found children below the new root: without a hint of it, with
  // one that came when they were there, and with one that came before them.
  uint64_t roots_grown_unhinted = 0;
  uint64_t roots_grown_before_hint = 0;
  uint64_t roots_grown_after_hint = 0;
  uint64_t attachments = 0;
  uint64_t reopenings = 0;  // of them with the committed tokens as prompt
  uint64_t bytes_up = 0;    // of messages, without what carries them
  uint64_t bytes_down = 0;
};

}  // namespace outrider
