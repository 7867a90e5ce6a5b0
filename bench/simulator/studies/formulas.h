// What constant times come to on paper: Table 4 of "Fast and Cost-effective Speculative Edge-Cloud
// Decoding with Early Exits" (Venkatesha, Kundu, Panda), and what it measured (Tables 5, 6 and 8).
//
// The simulator has to agree with the first, and is compared with the second.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace outrider {

// Milliseconds. Names in brackets are the paper's.
struct RoundTimes {
  double link;    // one way [T_c]
  double draft;   // of gamma tokens [gamma T_p]
  double target;  // of a pass [T_q]
  double hit;     // from a verdict to sending what was pre-drafted [T_r]
};

// Of `n` tokens.
double TargetAloneMs(double n, const RoundTimes& times);
// `tau` tokens a round: those accepted, and one.
double ChainMs(double n, double tau, const RoundTimes& times);
// Both models on the server: the round has no link in it. Not in the paper.
double CoLocatedMs(double n, double tau, const RoundTimes& times);
// `miss`: share of rounds whose outcome was not pre-drafted [r].
double FsdMs(double n, double tau, double miss, const RoundTimes& times);
// The same where the draft need not be done when the verdict comes: it is begun when an exit at
// `depth`, a share of the layers, has said what comes. After a hit what is left of it is drafted; a
// miss waits until the token of a wrong one that is being drafted is done. Not in the paper.
double LateFsdMs(double n, double tau, double miss, double depth, uint32_t gamma,
                 const RoundTimes& times);

// A row of the paper: a pair of models on a device.
struct FsdMeasurement {
  std::string_view models;
  std::string_view device;
  RoundTimes times;  // hit: not measured, 0 here
  double tau;
  double miss;
  double exit_depth;      // the exit that first says what the target will, on average, of all
  double alone_to_chain;  // speedup as reported
  double chain_to_fsd;
};

// Averages over its benchmarks, and the robot.
std::span<const FsdMeasurement> FsdMeasurements();

// A benchmark of the paper's (Table 6), of a pair whose times are measured for all of them.
struct FsdBenchmark {
  std::string_view name;
  size_t pair;  // index of its measurement
  double tau;
  double miss;
  double alone_to_chain;
  double chain_to_fsd;
};

std::span<const FsdBenchmark> FsdBenchmarks();

// The hit time at which the formula gives the speedup from chain to FSD that was reported.
double ImpliedHitMs(const FsdMeasurement& measured);
// The target's time per token, alone, at which it gives that from target alone to chain.
double ImpliedAloneTargetMs(const FsdMeasurement& measured, double n);

}  // namespace outrider
