// Few logits of rows, found on the device and brought here (engine/shortlist.h).
//
// Memory: taken by Create(), on the device a float for each logit, for those that race.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/cuda/device_queue.h"
#include "common/engine/shortlist.h"

namespace outrider {

class GpuShortlists {
 public:
  // The queue outlives it; `what` they are stands in errors.
  static absl::StatusOr<std::unique_ptr<GpuShortlists>> Create(DeviceQueue& queue,
                                                               uint32_t row_count_max,
                                                               uint32_t vocabulary_size,
                                                               std::string_view what);

  // A wish for each row of `logits` [rows, vocabulary]. The lists stay until the next call; none
  // when some row has no largest logit: who looks at all of them says what is wrong.
  absl::StatusOr<std::span<const Shortlist>> Find(const float* logits,
                                                  std::span<const Wish> wishes);

 private:
  GpuShortlists(DeviceQueue& queue, uint32_t vocabulary_size)
      : queue_(queue), vocabulary_size_(vocabulary_size) {}
  void Ask(const float* logits, std::span<const Wish> wishes);
  void FillList(uint32_t row, uint32_t count);

  DeviceQueue& queue_;
  const uint32_t vocabulary_size_;
  DeviceBuffer best_, wishes_, scores_, listed_, last_scores_;  // by row
  // Here, of the present call.
  std::vector<gpu::BestLogit> best_here_;
  std::vector<gpu::RowWish> wishes_here_;
  std::vector<gpu::ListedLogit> listed_here_;
  std::vector<float> last_scores_here_;
  std::vector<TokenId> tokens_;  // [rows, kShortlistMax]
  std::vector<float> logits_;
  std::vector<Shortlist> lists_;
};

}  // namespace outrider
