#include "common/tokens/race.h"

#include <array>
#include <bit>
#include <cstddef>

#include "common/base/portable_math.h"

namespace outrider {
namespace {

// The first clock to ring so far. The favourite's weight is 1 and its time finite, so starting from
// it there is always a winner, and usually a time that leaves few others a chance.
class Leader {
 public:
  Leader(TokenId favourite, const Noise& noise)
      : token_(favourite), time_(noise.ExponentialOf(favourite)) {}

  TokenId token() const { return token_; }
  double time() const { return time_; }

  // True when the token takes the lead.
  bool Challenge(TokenId token, double uniform, double weight) {
    const double time = Noise::Exponential(uniform) / weight;
    if (!(time < time_ || (time == time_ && token < token_))) return false;
    time_ = time;
    token_ = token;
    return true;
  }

 private:
  TokenId token_;
  double time_;
};

// Larger than all rounding in the bounds below taken together: with numbers of float precision and
// exponents below 128 that is 2^-14.
constexpr double kSlack = 1 + 0x1p-10;

// Tells for many tokens at once which have lost for sure. Nothing here decides: who is not out runs
// the race in full.
class Filter {
 public:
  Filter(float largest, double temperature)
      : largest_(largest),
        temperature_(temperature),
        per_logit_(static_cast<float>(kLog2E / temperature)) {}

  // To be told of every new lead.
  void Beat(double time) {
    time_ = static_cast<float>(time * kSlack);
    // w >= 2^-33 / time is needed, so logit >= largest + temperature * log(2^-33 / time). Rounding
    // to float keeps the order of floats, so only the terms' own errors need the slack of 2^-20.
    least_logit_ =
        static_cast<float>(static_cast<double>(largest_) +
                           temperature_ * (portable::Log(Noise::kUniformMin / time) - 0x1p-20));
  }

  // Of kCount tokens, whether all have lost whatever their noise.
  template <size_t kCount>
  bool AllTooImprobable(const float* logits) const {
    int32_t some = 0;
    for (size_t i = 0; i < kCount; ++i) some |= logits[i] >= least_logit_ ? -1 : 0;
    return some == 0;
  }

  // Per token of a noise block: nonzero unless u / w is above the leader's time whatever rounding
  // did.
  std::array<int32_t, Noise::kTokensPerBlock> MayWin(
      const float* logits, const std::array<uint32_t, Noise::kTokensPerBlock>& words) const {
    std::array<int32_t, Noise::kTokensPerBlock> may_win;
    for (size_t i = 0; i < Noise::kTokensPerBlock; ++i) {
      // u from below: 24 of its 32 bits, which a float holds exactly.
      const float uniform = static_cast<float>(static_cast<int32_t>(words[i] >> 8)) * 0x1p-24f;
      // w = 2^t from above: the chord of 2^t between whole exponents, which is what reading t as
      // the exponent and fraction of a float gives. At most 6.2 % too much.
      float t = (logits[i] - largest_) * per_logit_;
      t = t > -100.0f ? t : -100.0f;
      const float weight = std::bit_cast<float>(static_cast<int32_t>((t + 127.0f) * 0x1p23f));
      may_win[i] = uniform <= weight * time_ ? -1 : 0;
    }
    return may_win;
  }

 private:
  static constexpr double kLog2E = 0x1.71547652b82fep+0;

  const float largest_;
  const double temperature_;
  const float per_logit_;
  float time_ = 0;
  float least_logit_ = 0;
};

}  // namespace

TokenId RaceOfAll(std::span<const float> logits, const Maximum& maximum, double temperature,
                  double min_p, const Noise& noise) {
  Leader leader(maximum.token, noise);
  Filter filter(maximum.value, temperature);
  filter.Beat(leader.time());

  const auto challenge = [&](size_t i, uint32_t word) {
    const double weight = WeightOf(logits[i], maximum.value, temperature);
    if (weight < min_p) return;
    if (leader.Challenge(static_cast<TokenId>(i), Noise::Uniform(word), weight)) {
      filter.Beat(leader.time());
    }
  };

  constexpr size_t kBlock = Noise::kTokensPerBlock;
  constexpr size_t kGroup = 4 * kBlock;  // passed over together, as most of them are
  size_t begin = 0;
  for (; begin + kGroup <= logits.size(); begin += kGroup) {
    if (filter.AllTooImprobable<kGroup>(logits.data() + begin)) continue;
    for (size_t block = begin; block < begin + kGroup; block += kBlock) {
      const float* x = logits.data() + block;
      if (filter.AllTooImprobable<kBlock>(x)) continue;
      const auto words = noise.Words(static_cast<uint32_t>(block / kBlock));
      const auto may_win = filter.MayWin(x, words);
      for (size_t i = 0; i < kBlock; ++i) {
        if (may_win[i] != 0) challenge(block + i, words[i]);
      }
    }
  }
  for (size_t i = begin; i < logits.size(); ++i) {
    challenge(i, noise.Words(static_cast<uint32_t>(i / kBlock))[i % kBlock]);
  }
  return leader.token();
}

TokenId RaceOfCandidates(std::span<const Candidate> candidates, TokenId favourite, double min_p,
                         const Noise& noise) {
  Leader leader(favourite, noise);
  for (const Candidate& candidate : candidates) {
    const double reach = candidate.weight * leader.time() * kSlack;
    if (candidate.weight < min_p || Noise::kUniformMin > reach) continue;
    const double uniform = noise.UniformOf(candidate.token);
    if (uniform <= reach) leader.Challenge(candidate.token, uniform, candidate.weight);
  }
  return leader.token();
}

}  // namespace outrider
