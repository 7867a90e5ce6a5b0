// How fast a target on flash will write, by what a short probe has measured: what `outrider plan`
// prints before anything runs. A forecast of a size, and no promise: drafts are right as often as the
// text lets them be.
//
//   a pass of n rows     the longer of   its reads, which are more for more rows where those bring
//                                        experts of their own, and
//                                        its products, and packing what is read, on all cores
//   its draft            a run of the draft for each token on the way down
//   what it commits      1 + a + a^2 + ... : chains whose every token is right with chance a. Trees
//                        do better; how much better only the text knows.
//   a prompt             runs of as many rows as a plan has (run_rows.h), each as a pass of so many;
//                        the last one's root says the first token. Attention is not counted, which is
//                        little in a prompt of some hundreds.
//
// The number of drafted tokens is that at which tokens of a pass over its time are most.
//
// A pure function of numbers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "client/planner/memory_plan.h"
#include "client/planner/pass_reads.h"

namespace outrider {

// What of a processor's time weights take that are in memory.
struct KernelSpeed {
  static constexpr std::array<uint32_t, 5> kRows = {1, 4, 16, 32, 64};

  // Seconds a byte of weights, packed, of a run of so many rows.
  std::array<double, kRows.size()> product_seconds = {};
  double pack_seconds = 0;  // of one core, a byte as the file has it

  // Between the rows that were measured: a straight line.
  double ProductSeconds(uint32_t row_count) const;
};

struct FlashSetting {
  PassReads reads = {};
  uint64_t target_bytes = 0;  // of all its layers and its head, packed
  uint64_t expert_bytes = 0;  // of the experts that a row uses besides, likewise
  uint64_t draft_bytes = 0;   // 0: nothing is drafted
  double flash_bytes_per_second = 0;
  KernelSpeed target = {};
  KernelSpeed draft = {};
  uint32_t thread_count = 1;
  uint32_t pass_nodes_max = 63;
  double acceptance = 0.7;  // a; until this draft and target have been measured together
};

// What of it a plan says: what is read and computed.
FlashSetting SettingOf(const MemoryPlan& plan, uint32_t thread_count);

struct FlashForecast {
  double alone_seconds = 0;      // a pass of one row: a token of the target alone
  uint32_t hidden_nodes = 0;     // drafted tokens whose products the reads hide
  uint32_t nodes = 0;            // that pay
  double tokens_per_pass = 1;    // then
  double tokens_per_second = 0;  // with them
};

FlashForecast Forecast(const FlashSetting& setting);

// Whether computing so many rows is as long as what is read for them.
bool HidesReads(const FlashSetting& setting, uint32_t row_count);
// Until the first token of a prompt of so many tokens, in runs of so many rows.
double PromptSeconds(const FlashSetting& setting, uint32_t token_count, uint32_t run_rows);

// The chance a at which chains of so many drafted tokens commit what passes did, the target's own token
// and all; trees have a larger one than their tokens.
double AcceptanceOf(double tokens_per_pass, double nodes_per_pass);

// The drafted tokens that pay, as far as reads tell: where a session begins that knows nothing else.
// `nodes_max` where those are the same whatever the rows.
uint32_t NodesForReads(const PassReads& reads, uint32_t nodes_max);

}  // namespace outrider
