#include "bench/simulator/cli/points.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/base/status.h"
#include "common/base/thread_pool.h"

namespace outrider {

absl::Status ForEachPoint(std::string_view title, size_t count, uint32_t thread_count,
                          const std::function<absl::Status(size_t point)>& body) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<ThreadPool> pool,
                            ThreadPool::Create(thread_count));
  std::vector<absl::Status> ends(count);
  std::atomic<size_t> done = 0;
  pool->ParallelFor(count, [&](size_t point) {
    ends[point] = body(point);
    std::fputs(Concat("\r", title, ": ", ++done, " of ", count, "\033[K").c_str(), stderr);
  });
  std::fputs("\r\033[K", stderr);
  for (const absl::Status& end : ends) OUTRIDER_RETURN_IF_ERROR(end);
  return absl::OkStatus();
}

uint32_t ProcessorCount() {
  return std::max(1u, std::thread::hardware_concurrency());
}

}  // namespace outrider
