#include "common/speculation/controller.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>

namespace outrider {
namespace {

// Four ways to decode, in the formulas of FSD's table 4: the target alone, a chain of 4 drafted on
// the server in 2 ms a token, and chains of 4 and 8 drafted here in 8.
struct Place {
  double round_trip_ms;
  double pass_ms;
  double acceptance;
};

constexpr std::array<uint32_t, 4> kGamma = {0, 4, 4, 8};

std::vector<Setting> Arms() {
  std::vector<Setting> arms(kGamma.size());
  arms[0].mode = Mode::kTargetAlone;
  arms[1].mode = Mode::kDraftOnServer;
  for (size_t i = 1; i < arms.size(); ++i) arms[i].policy = {PolicyKind::kChain, kGamma[i]};
  return arms;
}

size_t ArmOf(const Setting& setting) {
  if (setting.mode == Mode::kTargetAlone) return 0;
  if (setting.mode == Mode::kDraftOnServer) return 1;
  return setting.policy.gamma == 4 ? 2 : 3;
}

double VerdictMs(const Place& place, size_t arm) {
  return place.pass_ms + kGamma[arm] * (arm == 1 ? 2.0 : 8.0) +
         (arm >= 2 ? place.round_trip_ms : 0);
}

double Tokens(const Place& place, size_t arm) {
  return (1 - std::pow(place.acceptance, kGamma[arm] + 1)) / (1 - place.acceptance);
}

double BestMsPerToken(const Place& place) {
  double best = VerdictMs(place, 0);
  for (size_t i = 1; i < kGamma.size(); ++i) {
    best = std::min(best, VerdictMs(place, i) / Tokens(place, i));
  }
  return best;
}

// By how much longer than the best arm's, on average, what the controller chose takes, from its
// verdict 20 on for 200 more.
double Regret(Controller& controller, const Place& place, uint32_t seed) {
  std::mt19937 bits(seed);
  double ms = 0;
  double best_ms = 0;
  for (int verdict = 0; verdict < 220; ++verdict) {
    const size_t arm = ArmOf(controller.Choose());
    uint32_t tokens = 1;
    while (tokens <= kGamma[arm] && bits() % 1000 < place.acceptance * 1000) ++tokens;
    controller.Learn(tokens, VerdictMs(place, arm));
    if (verdict < 20) continue;
    ms += VerdictMs(place, arm);
    best_ms += BestMsPerToken(place) * Tokens(place, arm);
  }
  return ms / best_ms - 1;
}

struct Summary {
  double mean = 0;
  double worst = 0;
};

// `before`: where the session was until then, if anywhere.
Summary OverTheGrid(const Place* before) {
  Summary summary;
  int places = 0;
  for (const double round_trip_ms : {0., 20., 60., 100., 200., 300.}) {
    for (const double pass_ms : {5., 10., 20., 50., 100.}) {
      for (const double acceptance : {.5, .6, .7, .8, .9, .95}) {
        double regret = 0;
        for (uint32_t seed = 1000; seed < 1010; ++seed) {  // not those it was tuned on
          Controller controller(Arms());
          if (before != nullptr) Regret(controller, *before, seed + 100);
          regret += Regret(controller, {round_trip_ms, pass_ms, acceptance}, seed) / 10;
        }
        summary.mean += regret;
        summary.worst = std::max(summary.worst, regret);
        ++places;
      }
    }
  }
  summary.mean /= places;
  return summary;
}

// The aim is 5 % at every place; it holds on average, not yet at the worst, where two arms are
// close and neither has shown enough.
TEST(Controller, RegretIsSmallOnAverageAndBoundedAtItsWorst) {
  const Summary summary = OverTheGrid(nullptr);
  RecordProperty("mean", std::to_string(summary.mean));
  RecordProperty("worst", std::to_string(summary.worst));
  EXPECT_LE(summary.mean, 0.02);
  EXPECT_LE(summary.worst, 0.12);
}

// Short of the aim, which is 5 % at every place: 8 % on average, and at the worst place twice the
// best time. A change of verdict times is seen at once; one of acceptance alone only as old
// verdicts fade. This bound guards what there is.
TEST(Controller, RecoversFromAChangeOnAverage) {
  const Place fast = {0, 100, 0.95};
  const Summary summary = OverTheGrid(&fast);
  RecordProperty("mean", std::to_string(summary.mean));
  RecordProperty("worst", std::to_string(summary.worst));
  EXPECT_LE(summary.mean, 0.10);
}

TEST(Controller, TriesEveryArmFirst) {
  Controller controller(Arms());
  std::array<int, 4> tried = {};
  for (int i = 0; i < 12; ++i) {
    ++tried[ArmOf(controller.Choose())];
    controller.Learn(1, 10);
  }
  EXPECT_EQ(tried, (std::array<int, 4>{3, 3, 3, 3}));
}

}  // namespace
}  // namespace outrider
