#include "common/cuda/gpu_shortlists.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "common/base/status.h"

namespace outrider {

absl::StatusOr<std::unique_ptr<GpuShortlists>> GpuShortlists::Create(DeviceQueue& queue,
                                                                     uint32_t row_count_max,
                                                                     uint32_t vocabulary_size,
                                                                     std::string_view what) {
  std::unique_ptr<GpuShortlists> made(new GpuShortlists(queue, vocabulary_size));
  const size_t rows = row_count_max, listed = rows * kShortlistMax;
  const std::pair<DeviceBuffer&, size_t> buffers[] = {
      {made->best_, rows * sizeof(gpu::BestLogit)},
      {made->wishes_, rows * sizeof(gpu::RowWish)},
      {made->scores_, rows * vocabulary_size * sizeof(float)},
      {made->listed_, listed * sizeof(gpu::ListedLogit)},
      {made->last_scores_, rows * sizeof(float)}};
  for (const auto& [buffer, bytes] : buffers) {
    OUTRIDER_ASSIGN_OR_RETURN(buffer, DeviceBuffer::Create(queue, bytes, what));
  }
  made->best_here_.resize(rows);
  made->wishes_here_.resize(rows);
  made->listed_here_.resize(listed);
  made->last_scores_here_.resize(rows);
  made->tokens_.resize(listed);
  made->logits_.resize(listed);
  made->lists_.resize(rows);
  return made;
}

absl::StatusOr<std::span<const Shortlist>> GpuShortlists::Find(const float* logits,
                                                               std::span<const Wish> wishes) {
  Ask(logits, wishes);
  OUTRIDER_RETURN_IF_ERROR(queue_.Wait());
  const auto best = std::span<const gpu::BestLogit>(best_here_).first(wishes.size());
  const auto is_wrong = [](const gpu::BestLogit& of_row) {
    return !of_row.sound || of_row.value == -std::numeric_limits<float>::infinity();
  };
  if (std::ranges::any_of(best, is_wrong)) return std::span<const Shortlist>{};
  for (uint32_t row = 0; row < wishes.size(); ++row) {
    FillList(row, std::min(wishes[row].count, vocabulary_size_));
  }
  return std::span<const Shortlist>(lists_).first(wishes.size());
}

// Where all that is wished for is the largest logit, that is all that is looked for.
void GpuShortlists::Ask(const float* logits, std::span<const Wish> wishes) {
  const auto rows = static_cast<uint32_t>(wishes.size());
  auto* const best = best_.As<gpu::BestLogit>();
  queue_.Run(gpu::BestOfRows{logits, best, vocabulary_size_}, rows, 1);
  queue_.Download(best_here_.data(), best_.data(), rows * sizeof(gpu::BestLogit));
  const auto wants_more = [](const Wish& wish) { return wish.races || wish.count > 1; };
  if (std::ranges::none_of(wishes, wants_more)) return;
  for (uint32_t row = 0; row < rows; ++row) {
    const Wish& wish = wishes[row];
    wishes_here_[row] = {
        .count = wish.count,
        .races = wish.races ? 1u : 0u,
        .temperature = static_cast<float>(wish.temperature),
        .key = {static_cast<uint32_t>(wish.seed), static_cast<uint32_t>(wish.seed >> 32)},
        .sample = wish.sample,
        .index = wish.index};
  }
  queue_.Upload(wishes_.data(), wishes_here_.data(), rows * sizeof(gpu::RowWish));
  const gpu::RaceRows race = {logits, best, wishes_.As<gpu::RowWish>(), scores_.As<float>(),
                              vocabulary_size_};
  if (std::ranges::any_of(wishes, &Wish::races)) queue_.Run(race, rows, race.grid_y());
  queue_.Run(gpu::ShortlistRows{.logits = logits,
                                .scores = race.scores,
                                .wishes = race.wishes,
                                .listed = listed_.As<gpu::ListedLogit>(),
                                .last_scores = last_scores_.As<float>(),
                                .length = vocabulary_size_,
                                .list_length = kShortlistMax},
             rows, 1);
  queue_.Download(listed_here_.data(), listed_.data(),
                  size_t{rows} * kShortlistMax * sizeof(gpu::ListedLogit));
  queue_.Download(last_scores_here_.data(), last_scores_.data(), rows * sizeof(float));
}

void GpuShortlists::FillList(uint32_t row, uint32_t count) {
  const gpu::BestLogit& best = best_here_[row];
  const auto largest = static_cast<TokenId>(best.token);
  const size_t first = size_t{row} * kShortlistMax;
  if (count == 1) {
    tokens_[first] = largest;
    logits_[first] = best.value;
  } else {
    for (size_t i = first; i < first + count; ++i) {
      tokens_[i] = static_cast<TokenId>(listed_here_[i].token);
      logits_[i] = listed_here_[i].logit;
    }
  }
  lists_[row] = {.tokens = std::span<const TokenId>(tokens_).subspan(first, count),
                 .logits = std::span<const float>(logits_).subspan(first, count),
                 .largest = {largest, best.value},
                 .last_score = last_scores_here_[row]};
}

}  // namespace outrider
