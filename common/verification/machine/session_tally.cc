#include "common/verification/machine/session_tally.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace outrider {

void SessionTally::ReplyBegun(MonotonicTime now) {
  reply_begun_at_ = now;
  awaits_run_ = true;
  last_token_at_.reset();
  reply_tokens_ = 0;
}

void SessionTally::RunBegun(MonotonicTime now, WritingStats& all) {
  if (std::exchange(awaits_run_, false)) all.queue_time.Add(Seconds(now - reply_begun_at_));
}

void SessionTally::PassEnded(uint32_t node_count, uint32_t token_count, v1::Finish finish,
                             MonotonicTime now, WritingStats& all) {
  const uint32_t accepted = token_count > 0 ? token_count - 1 : 0;
  ++passes_;
  nodes_ += node_count;
  accepted_ += accepted;
  tokens_ += token_count;
  ++all.passes;
  if (node_count == 0) ++all.alone_passes;
  all.pass_nodes += node_count;
  all.tokens += token_count;
  const size_t told_apart = std::min<size_t>(accepted, all.accepted_at.size());
  for (size_t i = 0; i < told_apart; ++i) ++all.accepted_at[i];
  if (token_count > 0) TokensCame(token_count, now, all);
  if (finish == v1::FINISH_NONE) return;
  ++all.finished[finish];
  all.reply_time.Add(Seconds(now - reply_begun_at_));
  if (reply_tokens_ < 2) return;
  all.reply_token_time.Add(Seconds(*last_token_at_ - first_token_at_) /
                           static_cast<double>(reply_tokens_ - 1));
}

void SessionTally::TokensCame(uint32_t count, MonotonicTime now, WritingStats& all) {
  if (last_token_at_) {
    all.token_time.Add(Seconds(now - *last_token_at_) / count, count);
  } else {
    first_token_at_ = now;
    const Duration waited = now - reply_begun_at_;
    all.first_token_time.Add(Seconds(waited));
    if (!first_token_time_) first_token_time_ = waited;
  }
  last_token_at_ = now;
  reply_tokens_ += count;
}

}  // namespace outrider
