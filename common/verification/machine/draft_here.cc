#include "common/verification/machine/draft_here.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace outrider {

bool DraftHere::IsWanted(const VerifiedSequence& sequence) const {
  return sequence.drafted_here() && !working_for_ && sequence.writing() && !sequence.told_to_go();
}

DraftJob DraftHere::Begin(uint64_t session, const VerifiedSequence& sequence, double least_chance) {
  OUTRIDER_CHECK(IsWanted(sequence), "a draft is asked where it is wanted");
  const TokenHistory& history = sequence.history();
  const auto untold = history.tokens().subspan(known_count_);
  DraftJob job = {.session = session,
                  .known_count = known_count_,
                  .tokens = {untold.begin(), untold.end()},
                  .reply_begin = static_cast<uint32_t>(history.reply_begin()),
                  .token_count_max = std::min(kChain, sequence.pass_nodes_wanted()),
                  .least_chance = least_chance};
  if (!std::exchange(is_known_, true)) job.chooser = sequence.chooser();
  job_token_count_ = static_cast<uint32_t>(untold.size());
  known_count_ = static_cast<uint32_t>(history.size());
  working_for_ = history.hash();
  return job;
}

bool DraftHere::End(const VerifiedSequence& sequence) {
  OUTRIDER_CHECK(working_for_.has_value(), "a job ends that was begun");
  const bool is_of_this_text = *working_for_ == sequence.history().hash();
  working_for_.reset();
  return is_of_this_text && IsWanted(sequence);
}

void DraftHere::Truncate(uint32_t length) {
  known_count_ = std::min(known_count_, length);
}

}  // namespace outrider
