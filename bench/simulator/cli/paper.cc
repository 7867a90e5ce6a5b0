// simulate paper: what the FSD paper measured, its own formulas for it, and the simulator's answer.
#include <cstdio>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "bench/simulator/cli/command.h"
#include "bench/simulator/contenders.h"
#include "bench/simulator/figures.h"
#include "bench/simulator/formulas.h"
#include "common/base/status.h"

namespace outrider {
namespace {

constexpr uint32_t kGamma = 4;
constexpr double kTokens = 200;

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
  flags.target_ms = Decimals(measured.times.target, 3);
  flags.draft_ms = Decimals(measured.times.draft / kGamma, 4);
  flags.draft = Decimals(AcceptanceFor(measured.tau), 6);
  flags.policy = "chain";
  flags.gamma = kGamma;
  flags.dry = "wait";
  flags.tokens = 2000;
  return flags;
}

absl::Status Paper() {
  std::vector<std::vector<std::string>> rows = {{"alone to chain", "paper", "formula", "simulated",
                                                 "T_q implied", "chain to FSD", "paper", "formula",
                                                 "T_r implied"}};
  for (const FsdMeasurement& measured : FsdMeasurements()) {
    const RoundTimes& times = measured.times;
    const double chain_ms = ChainMs(kTokens, measured.tau, times);
    OUTRIDER_ASSIGN_OR_RETURN(const Figures chain, Measure(ScenarioOf(measured)));
    rows.push_back({Concat(measured.models, ", ", measured.device),
                    Decimals(measured.alone_to_chain, 2),
                    Decimals(TargetAloneMs(kTokens, times) / chain_ms, 2),
                    Decimals(times.target / chain.token_ms, 2),
                    Decimals(ImpliedAloneTargetMs(measured, kTokens), 0) + " ms", "",
                    Decimals(measured.chain_to_fsd, 2),
                    Decimals(chain_ms / FsdMs(kTokens, measured.tau, measured.miss, times), 2),
                    Decimals(ImpliedHitMs(measured), 0) + " ms"});
  }
  std::fputs(Table(rows).c_str(), stdout);
  std::fputs(
      "formula: Table 4 with the measured T_p, T_q, T_c, tau and miss rate, and T_r = 0.\n"
      "T_q implied: the target's time per token, alone, at which Table 4 gives the paper's "
      "speedup;\n"
      "T_r implied: the time of a cache hit at which it does.\n",
      stdout);
  return absl::OkStatus();
}

}  // namespace

void AddPaperCommand(CLI::App& app, CommandBody& chosen) {
  app.add_subcommand("paper", "What the FSD paper measured, and what its formulas give for it")
      ->callback([&chosen] { chosen = Paper; });
}

}  // namespace outrider
