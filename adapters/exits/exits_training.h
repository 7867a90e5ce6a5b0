// What exits make small while they are trained, and how well they do.
//
//   const Loss loss = ExitsLoss(adapters, head, teacher, {});
//   OUTRIDER_RETURN_IF_ERROR(Train(run, adapters.parameters(), device, rows, &held_out, loss));
//   for (const ExitScore& score : ScoreExits(adapters, head, teacher, held_out)) ...
#pragma once

#include <cstdint>
#include <vector>

#include "adapters/exits/exit_adapters.h"
#include "adapters/exits/exit_losses.h"
#include "adapters/exits/exit_teacher.h"
#include "adapters/exits/frozen_head.h"
#include "adapters/text/token_rows.h"
#include "adapters/training/trainer.h"

namespace outrider {

// The mean of all exits' losses, so that it can be read as one exit's. What is passed outlives it.
Loss ExitsLoss(const ExitAdapters& adapters, const FrozenHead& head, ExitTeacher& teacher,
               const ExitLossOptions& options);

struct ExitScore {
  uint32_t layer;
  double divergence;  // KL(target || exit), nats a token
  double match_rate;  // how often both put the same token first
};

// By exit, over all rows.
std::vector<ExitScore> ScoreExits(const ExitAdapters& adapters, const FrozenHead& head,
                                  ExitTeacher& teacher, TokenRows& rows);

}  // namespace outrider
