#include "bench/simulator/formulas.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace outrider {
namespace {

constexpr std::array<FsdMeasurement, 7> kMeasurements = {{
    {"Vicuna 68M / 7B", "Jetson Nano", {95, 334, 497, 0}, 2.15, 0.6561, 8.0 / 32, 0.69, 1.04},
    {"Vicuna 68M / 7B", "RTX 2080 Ti", {42, 102, 442, 0}, 2.10, 0.1959, 14.0 / 32, 1.20, 1.06},
    {"Vicuna 160M / 13B", "Jetson Nano", {91, 1596, 616, 0}, 2.25, 0.6205, 8.0 / 40, 0.42, 1.05},
    {"Vicuna 160M / 13B", "RTX 2080 Ti", {46, 555, 618, 0}, 2.40, 0.2795, 14.0 / 40, 0.94, 1.10},
    {"Vicuna 68M / Llama2 7B",
     "Jetson Nano",
     {96, 301, 522, 0},
     4.03,
     0.3994,
     9.0 / 32,
     1.35,
     1.11},
    {"Vicuna 68M / Llama2 7B", "RTX 2080 Ti", {47, 99, 467, 0}, 3.54, 0.0963, 9.0 / 32, 1.94, 1.06},
    {"Qwen2-VL 2B / 7B", "Jetson Orin", {120, 288, 620, 0}, 2.92, 0.5563, 8.0 / 28, 0.90, 1.34},
}};

double ChainRoundMs(const RoundTimes& times) {
  return 2 * times.link + times.draft + times.target;
}

}  // namespace

double TargetAloneMs(double n, const RoundTimes& times) {
  return 2 * times.link + n * times.target;
}

double ChainMs(double n, double tau, const RoundTimes& times) {
  return n / tau * ChainRoundMs(times);
}

double CoLocatedMs(double n, double tau, const RoundTimes& times) {
  return 2 * times.link + n / tau * (times.draft + times.target);
}

double FsdMs(double n, double tau, double miss, const RoundTimes& times) {
  const double drafting = miss * times.draft + (1 - miss) * times.hit;
  return n / tau * (2 * times.link + drafting + times.target);
}

double LateFsdMs(double n, double tau, double miss, double depth, uint32_t gamma,
                 const RoundTimes& times) {
  const double lead = (1 - depth) * times.target;
  RoundTimes late = times;
  late.hit = std::max(times.hit, times.draft - lead);
  const double token = times.draft / gamma;
  const double wrong = times.draft > lead ? std::ceil(lead / token) * token - lead : 0;
  return FsdMs(n, tau, miss, late) + n / tau * miss * wrong;
}

std::span<const FsdMeasurement> FsdMeasurements() {
  return kMeasurements;
}

double ImpliedHitMs(const FsdMeasurement& measured) {
  const RoundTimes& times = measured.times;
  const double drafting =
      ChainRoundMs(times) / measured.chain_to_fsd - 2 * times.link - times.target;
  return (drafting - measured.miss * times.draft) / (1 - measured.miss);
}

double ImpliedAloneTargetMs(const FsdMeasurement& measured, double n) {
  const double alone_ms = measured.alone_to_chain * ChainMs(n, measured.tau, measured.times);
  return (alone_ms - 2 * measured.times.link) / n;
}

}  // namespace outrider
