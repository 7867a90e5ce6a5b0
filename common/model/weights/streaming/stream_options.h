// How a model's weights are to be streamed: what stays in memory, and how the rest is read.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/base/chrome_trace.h"
#include "common/base/direct_file.h"
#include "common/model/weights/streaming/expert_cache.h"

namespace outrider {

struct StreamOptions {
  uint32_t slot_count = 3;  // 2 at least, or what is read waits for what is computed
  uint32_t pinned_layer_count = 0;
  bool pins_head = true;
  // What has landed and is not packed yet is no longer in flight: of 16, 8 or so are.
  uint32_t reads_in_flight = 16;
  bool direct = true;    // past the page cache,
  bool io_uring = true;  // and by io_uring: where the kernel lets us
  // Where a model has experts: how many of all of them are in memory, PlaceBytesOfExpert() each. Twice
  // as many as a layer's rows choose at the least, or what is read waits for what is computed.
  uint32_t expert_place_count = 64;
  Eviction expert_eviction = Eviction::kEdgeMoe;
  // How files are opened: a test has readers of its own.
  std::function<absl::StatusOr<std::unique_ptr<DirectFile>>(const std::string& path,
                                                            const DirectFile::Options& options)>
      open = DirectFile::Open;
  ChromeTrace* trace = nullptr;  // where it is drawn what is read, and waited for; null: nowhere
};

}  // namespace outrider
