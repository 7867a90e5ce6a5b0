#include "bench/simulator/sources/draft_skill.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "bench/simulator/cli/parse.h"
#include "common/base/status.h"

namespace outrider {
namespace {

// What rounding may add to a sum of decimals.
constexpr double kSumSlack = 1e-9;

absl::StatusOr<DraftSkill::Kind> ParseKind(std::string_view text) {
  const size_t at = text.find('@');
  const bool is_whole = at == std::string_view::npos;
  const std::optional<double> share = is_whole ? 1 : ParseNumber(text.substr(0, at));
  DraftSkill::Kind kind{share.value_or(0), {}, {}};
  for (const std::string_view part : SplitAt(is_whole ? text : text.substr(at + 1), ',')) {
    kind.right.push_back(ParseNumber(part).value_or(-1));
  }
  const double sum = std::accumulate(kind.right.begin(), kind.right.end(), 0.0);
  const double least = *std::min_element(kind.right.begin(), kind.right.end());
  if (kind.share <= 0 || kind.share > 1 || least < 0 || sum > 1 + kSumSlack) {
    return InvalidArgument("'", text, "' is no acceptance by rank: it is written as probabilities ",
                           "that sum to at most 1, as in 0.7,0.12,0.05, with SHARE@ before it if ",
                           "it holds in a share of all places");
  }
  kind.claimed = kind.right;
  return kind;
}

}  // namespace

TokenId WrongToken(Draw& draw, TokenId truth, int32_t vocabulary_size,
                   std::span<const Guess> taken) {
  for (;;) {
    const TokenId token = static_cast<TokenId>(draw.Below(static_cast<uint64_t>(vocabulary_size)));
    const bool is_taken = std::any_of(taken.begin(), taken.end(),
                                      [&](const Guess& guess) { return guess.token == token; });
    if (token != truth && !is_taken) return token;
  }
}

absl::StatusOr<DraftSkill> DraftSkill::Parse(std::string_view text) {
  if (text == "adversarial") {
    return DraftSkill({{1, {0, 0, 0, 0}, {0.97, 0.01, 0.01, 0.01}}});
  }
  if (text == "none") return DraftSkill(std::vector<Kind>{{1, {}, {}}});
  if (text == "perfect") text = "1";
  if (text == "good") text = "0.70,0.12,0.05,0.03,0.02";
  if (text == "bad") text = "0.15,0.08,0.04,0.02";
  std::vector<Kind> kinds;
  double shares = 0;
  for (const std::string_view part : SplitAt(text, ';')) {
    OUTRIDER_ASSIGN_OR_RETURN(Kind kind, ParseKind(part));
    shares += kind.share;
    kinds.push_back(std::move(kind));
  }
  if (shares < 1 - kSumSlack || shares > 1 + kSumSlack) {
    return InvalidArgument("the shares of '", text, "' sum to ", shares, ", not to 1");
  }
  return DraftSkill(std::move(kinds));
}

std::string SkillLikeGood(double first) {
  std::string text = std::to_string(first);
  for (const double share : {0.4, 0.17, 0.1, 0.07})
    text += "," + std::to_string(share * (1 - first));
  return text;
}

DraftSkill DraftSkill::Clairvoyant() const {
  DraftSkill skill = *this;
  skill.clairvoyant_ = true;
  return skill;
}

void DraftSkill::Propose(uint64_t seed, uint64_t hash, TokenId truth, int32_t vocabulary_size,
                         uint32_t count, std::vector<Guess>& guesses) const {
  guesses.clear();
  Draw draw(seed, hash);
  const Kind& kind = KindAt(draw.Uniform());
  const size_t ranks = std::min<size_t>(count, kind.right.size());
  // The rank of the truth; past the end: the list does not hold it.
  size_t right = 0;
  for (double left = draw.Uniform(); right < kind.right.size(); ++right) {
    left -= kind.right[right];
    if (left < 0) break;
  }
  if (clairvoyant_) {
    if (right < ranks) guesses.push_back({truth, 1});
    return;
  }
  for (size_t rank = 0; rank < ranks; ++rank) {
    const TokenId token = rank == right ? truth : WrongToken(draw, truth, vocabulary_size, guesses);
    guesses.push_back({token, kind.claimed[rank]});
  }
}

const DraftSkill::Kind& DraftSkill::KindAt(double uniform) const {
  for (const Kind& kind : kinds_) {
    uniform -= kind.share;
    if (uniform < 0) return kind;
  }
  return kinds_.back();
}

}  // namespace outrider
