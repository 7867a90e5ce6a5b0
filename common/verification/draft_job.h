// What a draft beside the target is to do for one session, and what came of it.
//
// The machine hands a job out (VerifierMachine::Draft); whoever has the draft executes it, on a
// thread of its own or in virtual time, and tells the machine what it has drafted (Drafted). A job
// holds copies, so it outlives whatever becomes of its session meanwhile.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/formats/tokenizers/tokenizer_spec.h"
#include "common/tokens/chooser.h"

namespace outrider {

struct DraftJob {
  uint64_t session;
  // Of the session's tokens, so many are known from jobs before; `tokens` follow. The reply begins
  // after `reply_begin` of them.
  uint32_t known_count;
  std::vector<TokenId> tokens;
  uint32_t reply_begin;
  // How they are chosen; in the first job of a session, or the first after a Forget.
  std::optional<Chooser> chooser = {};
  uint32_t token_count_max;  // of the chain to be drafted
  double least_chance = 0;   // that the text gets as far as its last token, as the draft reckons it
};

}  // namespace outrider
