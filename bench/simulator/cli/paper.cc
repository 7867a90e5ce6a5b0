// simulate paper: what the FSD paper measured, its own formulas for it, and the simulator's answer.
#include <cstdio>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "bench/simulator/cli/command.h"
#include "bench/simulator/studies/contenders.h"
#include "bench/simulator/studies/figures.h"
#include "bench/simulator/studies/formulas.h"
#include "common/base/status.h"
#include "common/base/units.h"

namespace outrider {
namespace {

constexpr uint32_t kGamma = 4;
constexpr double kTokens = 200;
constexpr uint32_t kSimulatedTokens = 20'000;  // so that chance is below a half per cent

// The acceptance at which a chain of gamma yields `tau` tokens a round: 1 + a + ... + a^gamma.
double AcceptanceFor(double tau) {
  double low = 0;
  double high = 1;
  for (int i = 0; i < 60; ++i) {
    const double a = (low + high) / 2;
    double yield = 1;
    double power = 1;
    for (uint32_t k = 0; k < kGamma; ++k) yield += power *= a;
    (yield < tau ? low : high) = a;
  }
  return low;
}

ScenarioFlags ScenarioOf(const FsdMeasurement& measured) {
  ScenarioFlags flags;
  flags.rtt_ms = 2 * measured.times.link;
  flags.target_time = Fixed(measured.times.target, 3);
  flags.draft_time = Fixed(measured.times.draft / kGamma, 4);
  flags.draft = Fixed(AcceptanceFor(measured.tau), 6);
  flags.policy = "chain";
  flags.gamma = kGamma;
  flags.dry = "wait";
  flags.tokens = kSimulatedTokens;
  return flags;
}

// With one exit, which is right as often as all of the paper's are, where they are on average.
ScenarioFlags WithExit(ScenarioFlags flags, const FsdMeasurement& measured) {
  flags.policy = "fsd";
  flags.exits = Concat(Fixed(measured.exit_depth, 4), ":", Fixed(1 - measured.miss, 4));
  return flags;
}

std::string NameOf(const FsdMeasurement& measured) {
  return Concat(measured.models, ", ", measured.device);
}

std::string Percent(double share) {
  return Concat(share < 0 ? "" : "+", Fixed(100 * share, 1), " %");
}

absl::Status PrintChains() {
  std::vector<std::vector<std::string>> rows = {
      {"target alone to chain", "paper", "formula", "simulated", "T_q implied"}};
  for (const FsdMeasurement& measured : FsdMeasurements()) {
    const RoundTimes& times = measured.times;
    OUTRIDER_ASSIGN_OR_RETURN(const Figures chain, Measure(ScenarioOf(measured)));
    rows.push_back({NameOf(measured), Fixed(measured.alone_to_chain, 2),
                    Fixed(TargetAloneMs(kTokens, times) / ChainMs(kTokens, measured.tau, times), 2),
                    Fixed(times.target / chain.token_ms, 2),
                    Fixed(ImpliedAloneTargetMs(measured, kTokens), 0) + " ms"});
  }
  std::fputs(Table(rows).c_str(), stdout);
  return absl::OkStatus();
}

absl::Status PrintFsd() {
  std::vector<std::vector<std::string>> rows = {
      {"chain to FSD", "paper", "formula", "late", "simulated", "auto", "apart", "T_r implied"}};
  for (const FsdMeasurement& measured : FsdMeasurements()) {
    const RoundTimes& times = measured.times;
    const auto late_ms = [&](double n, double tau, double miss) {
      return LateFsdMs(n, tau, miss, measured.exit_depth, kGamma, times);
    };
    const double chain_ms = ChainMs(kTokens, measured.tau, times);
    const ScenarioFlags flags = ScenarioOf(measured);
    OUTRIDER_ASSIGN_OR_RETURN(const Figures chain, Measure(flags));
    OUTRIDER_ASSIGN_OR_RETURN(const Figures fsd, Measure(WithExit(flags, measured)));
    ScenarioFlags any_way = WithExit(flags, measured);
    any_way.policy = kAuto;
    OUTRIDER_ASSIGN_OR_RETURN(const Figures free, Measure(any_way));
    const double expected_ms = late_ms(1, 1 / fsd.passes_per_token, 1 - fsd.hinted_share);
    rows.push_back(
        {NameOf(measured), Fixed(measured.chain_to_fsd, 2),
         Fixed(chain_ms / FsdMs(kTokens, measured.tau, measured.miss, times), 2),
         Fixed(chain_ms / late_ms(kTokens, measured.tau, measured.miss), 2),
         Fixed(chain.token_ms / fsd.token_ms, 2), Fixed(chain.token_ms / free.token_ms, 2),
         Percent(fsd.token_ms / expected_ms - 1), Fixed(ImpliedHitMs(measured), 0) + " ms"});
  }
  std::fputs(Table(rows).c_str(), stdout);
  return absl::OkStatus();
}

// Every benchmark by Table 4, with its own tau and miss rate.
void PrintBenchmarks() {
  std::vector<std::vector<std::string>> rows = {
      {"by benchmark", "alone to chain", "formula", "chain to FSD", "formula"}};
  for (const FsdBenchmark& benchmark : FsdBenchmarks()) {
    const FsdMeasurement& pair = FsdMeasurements()[benchmark.pair];
    const double chain_ms = ChainMs(kTokens, benchmark.tau, pair.times);
    rows.push_back(
        {Concat(benchmark.name, ": ", NameOf(pair)), Fixed(benchmark.alone_to_chain, 2),
         Fixed(TargetAloneMs(kTokens, pair.times) / chain_ms, 2), Fixed(benchmark.chain_to_fsd, 2),
         Fixed(chain_ms / FsdMs(kTokens, benchmark.tau, benchmark.miss, pair.times), 2)});
  }
  std::fputs(Table(rows).c_str(), stdout);
}

constexpr char kLegend[] =
    "formula      Table 4 with the measured T_p, T_q, T_c, tau and miss rate, and T_r = 0\n"
    "T_q implied  the target's time per token, alone, at which Table 4 gives the paper's speedup\n"
    "late         the same, where the average exit leaves less of T_q than a draft takes\n"
    "auto         simulated, with the same exit: chain to policy auto\n"
    "apart        simulated time per token from late, of the simulation's tau and miss rate\n"
    "T_r implied  the time of a hit at which Table 4 gives the paper's speedup\n";

absl::Status Paper() {
  OUTRIDER_RETURN_IF_ERROR(PrintChains());
  std::fputs("\n", stdout);
  OUTRIDER_RETURN_IF_ERROR(PrintFsd());
  std::fputs("\n", stdout);
  PrintBenchmarks();
  std::fputs("\n", stdout);
  std::fputs(kLegend, stdout);
  return absl::OkStatus();
}

}  // namespace

void AddPaperCommand(CLI::App& app, CommandBody& chosen) {
  app.add_subcommand("paper", "What the FSD paper measured, and what its formulas give for it")
      ->callback([&chosen] { chosen = Paper; });
}

}  // namespace outrider
