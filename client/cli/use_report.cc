#include "client/cli/use_report.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>

#include "common/base/status.h"
#include "common/base/units.h"

namespace outrider {
namespace {

double Tokens(const ConversationStats& stats) {
  return static_cast<double>(std::max<uint64_t>(1, stats.generated_tokens));
}

std::string Counted(const std::optional<uint64_t>& before, const std::optional<uint64_t>& now,
                    std::string (*in_words)(uint64_t)) {
  return before && now ? in_words(*now - *before) : "not available here";
}

}  // namespace

void UseReport::Print(const ConversationStats& stats, const std::optional<FlashUse>& flash,
                      const std::optional<PruningUse>& pruning) {
  PrintPasses(stats);
  if (pruning) PrintPruning(*pruning, stats);
  if (flash) PrintFlash(*flash, stats);
  PrintDisk();
  PrintEnergy(stats);
}

void UseReport::PrintPasses(const ConversationStats& stats) const {
  const auto& times = stats.times;
  if (!stats.session || stats.session->passes == 0 || times.timed_passes == 0) return;
  const auto passes = static_cast<double>(stats.session->passes);
  const auto timed_passes = static_cast<double>(times.timed_passes);
  const double pass_ms = times.pass_ms / timed_passes;
  std::fprintf(
      stderr,
      "a token: target %s ms, draft %s ms; a pass: %s ms, predicted %s (off by %s %%), %s of "
      "%s drafted tokens accepted\n",
      Fixed(pass_ms * passes / Tokens(stats), 1).c_str(),
      Fixed(times.draft_ms / Tokens(stats), 1).c_str(), Fixed(pass_ms, 1).c_str(),
      Fixed(times.predicted_ms / timed_passes, 1).c_str(),
      Fixed(100 * times.missed_ms / times.pass_ms, 0).c_str(),
      Fixed(static_cast<double>(stats.session->nodes_accepted) / passes, 2).c_str(),
      Fixed(static_cast<double>(stats.session->nodes_passed) / passes, 1).c_str());
}

void UseReport::PrintPruning(const PruningUse& use, const ConversationStats& stats) {
  std::fprintf(stderr, "pruned: %s drafted tokens a token, in %llu passes\n",
               Fixed(static_cast<double>(use.nodes) / Tokens(stats), 2).c_str(),
               static_cast<unsigned long long>(use.runs));
}

void UseReport::PrintFlash(const FlashUse& use, const ConversationStats& stats) {
  const double stalled = std::chrono::duration<double>(use.stalled).count();
  const double written = stats.first_token_seconds + stats.later_seconds;
  const auto a_token = static_cast<uint64_t>(static_cast<double>(use.bytes_read) / Tokens(stats));
  std::fprintf(
      stderr, "flash: %s read, %s a token, by %s; waited for %s s of %s s (%s %%), %s ms a token\n",
      HumanBytes(use.bytes_read).c_str(), HumanBytes(a_token).c_str(), use.backend.c_str(),
      Fixed(stalled, 2).c_str(), Fixed(written, 2).c_str(),
      Fixed(written > 0 ? 100 * stalled / written : 0, 0).c_str(),
      Fixed(1e3 * stalled / Tokens(stats), 1).c_str());
  if (use.experts) PrintExperts(*use.experts, stats);
}

void UseReport::PrintExperts(const ExpertReads& reads, const ConversationStats& stats) {
  const auto a_token = static_cast<uint64_t>(static_cast<double>(reads.bytes_read) / Tokens(stats));
  const double hits = static_cast<double>(reads.hits) / static_cast<double>(reads.uses);
  std::fprintf(stderr,
               "experts: %s read, %s a token; %s %% of %s uses found theirs in memory; %s evicted; "
               "%s read ahead, %s of use\n",
               HumanBytes(reads.bytes_read).c_str(), HumanBytes(a_token).c_str(),
               Fixed(100 * hits, 1).c_str(), HumanCount(reads.uses).c_str(),
               HumanCount(reads.evicted).c_str(), HumanCount(reads.read_ahead).c_str(),
               HumanCount(reads.read_ahead_right).c_str());
}

void UseReport::PrintDisk() const {
  const ProcessIo now = ReadProcessIo();
  std::fprintf(stderr, "disk: written %s; pages pushed out and wanted again: %s\n",
               Counted(before_.written_bytes, now.written_bytes, HumanBytes).c_str(),
               Counted(before_.refaults, now.refaults, HumanCount).c_str());
}

void UseReport::PrintEnergy(const ConversationStats& stats) {
  energy_.Sample();
  const std::optional<double> joules = energy_.joules();
  const std::string text = joules ? Concat(Fixed(*joules / Tokens(stats), 3), " J a token, by ",
                                           energy_.source(), ", of the whole machine")
                                  : "not available here";
  std::fprintf(stderr, "energy: %s\n", text.c_str());
}

}  // namespace outrider
