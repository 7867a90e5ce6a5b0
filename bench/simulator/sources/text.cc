#include "bench/simulator/sources/text.h"

#include <cmath>
#include <numbers>

#include "bench/simulator/world/chance.h"
#include "common/base/check.h"

namespace outrider {

TokenId HashedText::After(const Place& place, const Chooser&) const {
  Draw draw(options_.seed, place.hash);
  if (draw.Happens(options_.end_rate)) return options_.end_token;
  // Never the end token by accident.
  const TokenId token = static_cast<TokenId>(draw.Below(options_.vocabulary_size - 1));
  return token < options_.end_token ? token : token + 1;
}

SampledText::SampledText(const Options& options)
    : options_(options), scratch_(options.vocabulary_size), logits_(options.vocabulary_size) {}

TokenId SampledText::After(const Place& place, const Chooser& chooser) const {
  Draw draw(options_.seed, place.hash);
  for (float& logit : logits_) {
    // Box and Muller.
    const double radius = std::sqrt(2 * draw.Exponential());
    logit = static_cast<float>(options_.spread * radius *
                               std::cos(2 * std::numbers::pi * draw.Uniform()));
  }
  const absl::StatusOr<TokenId> token =
      chooser.Choose(logits_, place.length(), place.history, scratch_);
  OUTRIDER_CHECK_OK(token.status());
  return *token;
}

void WriteAlone(const Text& text, const Chooser& chooser, const StopConditions& stops,
                TokenHistory& history) {
  history.StartReply();
  Reply reply(stops);
  while (!reply.finish()) {
    const TokenId token = text.After(RootOf(history), chooser);
    if (!history.Append({&token, 1}).ok()) return;  // full
    reply.Take({&token, 1});
  }
}

}  // namespace outrider
