// What a simulation came to, in figures.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/simulator/world/simulation.h"

namespace outrider {

struct Figures {
  uint64_t tokens = 0;  // of replies, of all sessions
  uint64_t passes = 0;

  double first_ms = 0;      // from a session's start to its first token, on average
  double token_ms = 0;      // per token after those that came first
  double token_ms_p95 = 0;  // of tokens, each with its share of the wait for those it came with

  double passes_per_token = 0;
  double passes_per_run = 0;  // sessions that share a read of the weights
  double rows_per_pass = 0;   // roots and drafted nodes
  double rows_per_token = 0;
  double ready_share = 0;  // of passes that began, with growth, the moment the root was known
  // Of passes, those whose verdict found children below the new root already: by the draft alone,
  // by the draft with a hint to confirm it, and only after a hint.
  double grown_by_draft = 0;
  double grown_by_both = 0;
  double grown_by_hint = 0;
  double expanded_per_token = 0;  // nodes run through the draft
  double sent_per_token = 0;      // nodes that went up
  double wasted_share = 0;        // of those, never committed
  double bytes_up_per_token = 0;  // with gRPC's five bytes a message
  double bytes_down_per_token = 0;
  double hinted_share = 0;  // of passes, whose newest hint was right

  double target_busy = 0;               // share of the time
  double tokens_per_target_second = 0;  // of the time that it was busy
  // Jain's index of the sessions' speeds: 1 when all are equally fast, 1/n when one has it all.
  double fairness = 1;
};

// Jain's index: 1 when all have as much, 1/n when one of them has it all.
double JainIndex(std::span<const double> parts);

// After Run().
Figures FiguresOf(Simulation& simulation);

// Columns of text, the first to the left, the others to the right; the first row is the heading.
std::string Table(const std::vector<std::vector<std::string>>& rows);

}  // namespace outrider
