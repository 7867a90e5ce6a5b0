// simulate faults: a random fault in each of many simulations.
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "bench/simulator/cli/command.h"
#include "bench/simulator/studies/faults.h"
#include "bench/simulator/studies/figures.h"
#include "common/base/status.h"

namespace outrider {
namespace {

constexpr uint64_t kFailuresShown = 10;

// Of its runs, those in which a fault has to have happened.
constexpr double kHappenedMin = 0.95;

struct FaultFlags {
  uint64_t count = 1000;
  uint64_t first = 0;
  std::optional<uint64_t> seed;
  bool log = false;
};

// Which seed it was, when a machine stops the process.
volatile std::sig_atomic_t current_seed = 0;

void TellSeed(int) {
  char text[] = "simulate: stopped by seed           \n";
  std::sig_atomic_t seed = current_seed;
  for (size_t at = sizeof(text) - 3; at > 25; --at, seed /= 10) {
    text[at] = static_cast<char>('0' + seed % 10);
  }
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text, sizeof(text) - 1);
  std::signal(SIGABRT, SIG_DFL);
  std::abort();
}

absl::Status RunOne(const FaultTrials& trials, uint64_t seed, bool log) {
  Journal journal;
  const FaultTrials::Result result = trials.Run(seed, log ? &journal : nullptr);
  if (log) std::fputs(journal.ToText(EventQueue().now()).c_str(), stdout);
  OUTRIDER_RETURN_IF_ERROR(result.status);
  std::printf("seed %llu, %s%s: the text is the target's, and nothing is left behind\n",
              static_cast<unsigned long long>(seed), std::string(NameOf(result.fault)).c_str(),
              result.happened ? "" : " (of which nothing was seen)");
  return absl::OkStatus();
}

absl::Status RunMany(const FaultTrials& trials, const FaultFlags& flags) {
  struct Count {
    uint64_t runs = 0;
    uint64_t happened = 0;
    uint64_t failed = 0;
  };
  std::array<Count, kFaultCount> counts;
  uint64_t failed = 0;
  for (uint64_t seed = flags.first; seed < flags.first + flags.count; ++seed) {
    current_seed = static_cast<std::sig_atomic_t>(seed);
    const FaultTrials::Result result = trials.Run(seed);
    Count& count = counts[static_cast<size_t>(result.fault)];
    ++count.runs;
    count.happened += result.happened;
    if (result.status.ok()) continue;
    ++count.failed;
    if (++failed <= kFailuresShown) {
      std::fprintf(stderr, "%s\n", std::string(Message(result.status)).c_str());
    }
  }
  std::vector<std::vector<std::string>> rows = {{"fault", "runs", "happened", "failed"}};
  for (size_t i = 0; i < kFaultCount; ++i) {
    rows.push_back({std::string(NameOf(static_cast<Fault>(i))), Concat(counts[i].runs),
                    Concat(counts[i].happened), Concat(counts[i].failed)});
  }
  std::fputs(Table(rows).c_str(), stdout);
  if (failed > 0) {
    return absl::InternalError(
        Concat(failed, " of ", flags.count, " failed; see one with --seed N --log"));
  }
  for (size_t i = 0; i < kFaultCount; ++i) {
    const auto runs = static_cast<double>(counts[i].runs);
    if (static_cast<double>(counts[i].happened) >= kHappenedMin * runs) continue;
    return absl::InternalError(Concat("the fault '", NameOf(static_cast<Fault>(i)),
                                      "' has happened too seldom to say anything of it"));
  }
  return absl::OkStatus();
}

absl::Status Faults(const FaultFlags& flags) {
  std::signal(SIGABRT, TellSeed);
  const FaultTrials trials;
  if (!flags.seed) return RunMany(trials, flags);
  current_seed = static_cast<std::sig_atomic_t>(*flags.seed);
  return RunOne(trials, *flags.seed, flags.log);
}

}  // namespace

void AddFaultsCommand(CLI::App& app, CommandBody& chosen) {
  CLI::App* const command = app.add_subcommand(
      "faults", "A random fault each: the text stays the same, nothing is repeated or lost");
  auto flags = std::make_shared<FaultFlags>();
  command->add_option("--count", flags->count, "How many simulations")->capture_default_str();
  command->add_option("--first", flags->first, "The first seed; others count up from it")
      ->capture_default_str();
  CLI::Option* const seed = command->add_option("--seed", flags->seed, "Only this one");
  command->add_flag("--log", flags->log, "Of --seed: prints what happens, message by message")
      ->needs(seed);
  command->callback([flags, &chosen] { chosen = [flags] { return Faults(*flags); }; });
}

}  // namespace outrider
