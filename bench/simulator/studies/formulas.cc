#include "bench/simulator/studies/formulas.h"

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

constexpr std::array<FsdBenchmark, 36> kBenchmarks = {{
    {"MT-bench", 0, 2.30, 0.6092, 0.70, 1.04},  {"MT-bench", 1, 2.01, 0.2007, 1.30, 1.04},
    {"MT-bench", 2, 2.28, 0.6249, 0.42, 1.05},  {"MT-bench", 3, 2.98, 0.1640, 0.97, 1.09},
    {"MT-bench", 4, 4.12, 0.3673, 1.34, 1.07},  {"MT-bench", 5, 3.48, 0.1338, 2.01, 1.02},
    {"HumanEval", 0, 2.04, 0.6473, 0.79, 1.04}, {"HumanEval", 1, 2.66, 0.1579, 1.42, 1.03},
    {"HumanEval", 2, 2.14, 0.5764, 0.47, 1.06}, {"HumanEval", 3, 2.04, 0.2516, 0.85, 1.15},
    {"HumanEval", 4, 4.16, 0.1760, 1.53, 1.22}, {"HumanEval", 5, 3.83, 0.0175, 2.09, 1.07},
    {"GSM8K", 0, 2.08, 0.6121, 0.63, 1.04},     {"GSM8K", 1, 1.96, 0.1240, 1.11, 1.08},
    {"GSM8K", 2, 2.23, 0.5804, 0.40, 1.06},     {"GSM8K", 3, 2.29, 0.1837, 0.77, 1.13},
    {"GSM8K", 4, 3.48, 0.4187, 1.15, 1.07},     {"GSM8K", 5, 3.29, 0.0955, 1.69, 1.06},
    {"Alpaca", 0, 2.09, 0.6460, 0.63, 1.04},    {"Alpaca", 1, 1.96, 0.1929, 1.06, 1.07},
    {"Alpaca", 2, 2.32, 0.6094, 0.42, 1.05},    {"Alpaca", 3, 2.36, 0.2545, 0.74, 1.12},
    {"Alpaca", 4, 4.29, 0.3660, 1.42, 1.10},    {"Alpaca", 5, 3.62, 0.0428, 1.99, 1.18},
    {"CNN/DM", 0, 2.32, 0.7070, 0.72, 1.03},    {"CNN/DM", 1, 1.95, 0.2940, 1.20, 1.07},
    {"CNN/DM", 2, 2.08, 0.6992, 0.38, 1.03},    {"CNN/DM", 3, 2.10, 0.3809, 0.73, 1.07},
    {"CNN/DM", 4, 4.32, 0.4713, 1.41, 1.07},    {"CNN/DM", 5, 3.43, 0.1397, 1.91, 1.04},
    {"NQ", 0, 2.08, 0.7150, 0.65, 1.02},        {"NQ", 1, 2.05, 0.2259, 1.10, 1.06},
    {"NQ", 2, 2.44, 0.6325, 0.46, 1.04},        {"NQ", 3, 2.62, 0.3025, 0.82, 1.12},
    {"NQ", 4, 3.83, 0.5711, 1.26, 1.05},        {"NQ", 5, 3.62, 0.1488, 1.93, 1.01},
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

std::span<const FsdBenchmark> FsdBenchmarks() {
  return kBenchmarks;
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
