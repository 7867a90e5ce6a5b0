// Streams beside those of our own service: Watch of health checks, and reflection. Nobody needs a key
// for them, and each is kept for as long as its caller likes, so there are few of one origin and few
// in all. What is asked once (Check) has no limit: it is over when it is answered.
//
//   const std::optional<Refusal> why = side_streams.Enter(origin);
//   ... if (!why) side_streams.Leave(origin);
//
// Memory:  a number for each origin that has some.
// Threads: any.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "common/base/mutex.h"
#include "server/operations/entrance_log.h"

namespace outrider {

class SideStreams {
 public:
  static constexpr uint32_t kOfOriginMax = 16;
  static constexpr uint32_t kMax = 256;

  // By which limit there is no room for one more; none: it is counted, until Leave().
  std::optional<Refusal> Enter(const std::string& origin);
  void Leave(const std::string& origin);

 private:
  Mutex mu_;
  uint32_t all_ ABSL_GUARDED_BY(mu_) = 0;
  absl::flat_hash_map<std::string, uint32_t> by_origin_ ABSL_GUARDED_BY(mu_);  // none is 0
};

}  // namespace outrider
