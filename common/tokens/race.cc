#include "common/tokens/race.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <limits>

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

// The first few clocks to ring so far.
class Podium {
 public:
  // No token later than `time_max` is among the first `count`.
  Podium(size_t count, double time_max, std::vector<Finisher>& places)
      : count_(count), time_max_(time_max), places_(places) {
    places_.clear();
    places_.reserve(count + 1);
  }

  // No later than this is still of interest.
  double time() const { return time_max_; }

  // True when time() has become less.
  bool Challenge(TokenId token, double uniform, double weight) {
    const Finisher finisher = {token, Noise::Exponential(uniform) / weight};
    if (!(finisher.time <= time_max_) || finisher.time == kNever) return false;
    places_.insert(std::upper_bound(places_.begin(), places_.end(), finisher), finisher);
    if (places_.size() > count_) places_.pop_back();
    if (places_.size() < count_ || places_.back().time == time_max_) return false;
    time_max_ = places_.back().time;
    return true;
  }

  static constexpr double kNever = std::numeric_limits<double>::infinity();

 private:
  const size_t count_;
  double time_max_;
  std::vector<Finisher>& places_;
};

// Larger than all rounding in the bounds below taken together: with numbers of float precision and
// exponents below 128 that is 2^-14.
constexpr double kSlack = 1 + 0x1p-10;

// u from below: 24 of its 32 bits, which a float holds exactly.
float UniformFloor(uint32_t word) {
  return static_cast<float>(static_cast<int32_t>(word >> 8)) * 0x1p-24f;
}

constexpr double kLog2E = 0x1.71547652b82fep+0;

// w = 2^t from above: the chord of 2^t between whole exponents, which is what reading t as the
// exponent and fraction of a float gives. At most 6.2 % too much.
class WeightCeiling {
 public:
  WeightCeiling(float largest, double temperature)
      : largest_(largest), per_logit_(static_cast<float>(kLog2E / temperature)) {}

  float Of(float logit) const {
    float t = (logit - largest_) * per_logit_;
    t = t > -100.0f ? t : -100.0f;
    return std::bit_cast<float>(static_cast<int32_t>((t + 127.0f) * 0x1p23f));
  }

 private:
  const float largest_;
  const float per_logit_;
};

// Tells for many tokens at once which have lost for sure. Nothing here decides: who is not out runs
// the race in full.
class Filter {
 public:
  Filter(float largest, double temperature)
      : largest_(largest), temperature_(temperature), ceiling_(largest, temperature) {}

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
      may_win[i] = UniformFloor(words[i]) <= ceiling_.Of(logits[i]) * time_ ? -1 : 0;
    }
    return may_win;
  }

 private:
  const float largest_;
  const double temperature_;
  const WeightCeiling ceiling_;
  float time_ = 0;
  float least_logit_ = 0;
};

// Every token that may yet change who leads; the rest is passed over. `Lead` is Leader or Podium.
template <typename Lead>
void RunRace(std::span<const float> logits, float largest, double temperature, double min_p,
             const Noise& noise, Lead& lead) {
  Filter filter(largest, temperature);
  filter.Beat(lead.time());

  const auto challenge = [&](size_t i, uint32_t word) {
    const double weight = WeightOf(logits[i], largest, temperature);
    if (weight < min_p) return;
    if (lead.Challenge(static_cast<TokenId>(i), Noise::Uniform(word), weight)) {
      filter.Beat(lead.time());
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
}

template <typename Lead>
void RunRace(std::span<const Candidate> candidates, double min_p, const Noise& noise, Lead& lead) {
  for (const Candidate& candidate : candidates) {
    const double reach = candidate.weight * lead.time() * kSlack;
    if (candidate.weight < min_p || Noise::kUniformMin > reach) continue;
    const double uniform = noise.UniformOf(candidate.token);
    if (uniform <= reach) lead.Challenge(candidate.token, uniform, candidate.weight);
  }
}

}  // namespace

TokenId RaceOfAll(std::span<const float> logits, const Maximum& maximum, double temperature,
                  double min_p, const Noise& noise) {
  Leader leader(maximum.token, noise);
  RunRace(logits, maximum.value, temperature, min_p, noise, leader);
  return leader.token();
}

TokenId RaceOfCandidates(std::span<const Candidate> candidates, TokenId favourite, double min_p,
                         const Noise& noise) {
  Leader leader(favourite, noise);
  RunRace(candidates, min_p, noise, leader);
  return leader.token();
}

// The latest of any `count` tokens bounds the time of the first `count` of all. To have that bound
// from the most probable ones lets the filter pass over nearly everything from the beginning.
void RankOfAll(std::span<const float> logits, std::span<const Candidate> seeds, float largest,
               double temperature, double min_p, const Noise& noise, size_t count,
               std::vector<Finisher>& finishers) {
  double time_max = 0;
  for (const Candidate& seed : seeds) {
    time_max = std::max(time_max, noise.ExponentialOf(seed.token) / seed.weight);
  }
  Podium podium(count, time_max, finishers);
  RunRace(logits, largest, temperature, min_p, noise, podium);
}

void RankOfCandidates(std::span<const Candidate> candidates, double min_p, const Noise& noise,
                      size_t count, std::vector<Finisher>& finishers) {
  Podium podium(count, Podium::kNever, finishers);
  RunRace(candidates, min_p, noise, podium);
}

// Those who may be fast run first: few others can be among the first `count` then.
void RankOfSome(std::span<const TokenId> tokens, std::span<const float> logits, float largest,
                double temperature, double min_p, const Noise& noise, size_t count,
                std::vector<Racer>& racers, std::vector<Finisher>& finishers) {
  const WeightCeiling ceiling(largest, temperature);
  racers.clear();
  for (size_t i = 0; i < tokens.size(); ++i) {
    const uint32_t word = noise.WordOf(tokens[i]);
    racers.push_back({UniformFloor(word) / ceiling.Of(logits[i]), word, static_cast<uint32_t>(i)});
  }
  if (count < racers.size()) {
    std::ranges::nth_element(racers, racers.begin() + static_cast<ptrdiff_t>(count), {},
                             &Racer::time_min);
  }
  Podium podium(count, Podium::kNever, finishers);
  for (const Racer& racer : racers) {
    if (static_cast<double>(racer.time_min) > podium.time() * kSlack) continue;
    const double weight = WeightOf(logits[racer.place], largest, temperature);
    if (weight < min_p) continue;
    podium.Challenge(tokens[racer.place], Noise::Uniform(racer.word), weight);
  }
}

}  // namespace outrider
