#include "server/side_streams.h"

namespace outrider {

std::optional<Refusal> SideStreams::Enter(const std::string& origin) {
  MutexLock lock(mu_);
  if (all_ >= kMax) return Refusal::kStreams;
  const auto of_origin = by_origin_.find(origin);
  if (of_origin != by_origin_.end() && of_origin->second >= kOfOriginMax) {
    return Refusal::kStreamsOfAddress;
  }
  ++by_origin_[origin];
  ++all_;
  return std::nullopt;
}

void SideStreams::Leave(const std::string& origin) {
  MutexLock lock(mu_);
  --all_;
  const auto of_origin = by_origin_.find(origin);
  if (--of_origin->second == 0) by_origin_.erase(of_origin);
}

}  // namespace outrider
