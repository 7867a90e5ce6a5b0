// Who calls: everybody of one key is one caller, with a number for as long as something of his is
// here.
//
// Memory:  an entry for each.
// Threads: as a vector.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace outrider {

struct Caller {
  std::string key;
  uint64_t number;  // never given twice
  uint32_t session_count = 0;
  uint32_t stream_count = 0;
  uint32_t kept_count = 0;  // of sessions that have gone, what the target still has (SessionMemory)
};

class Callers {
 public:
  Caller& Of(std::string_view key) {
    const auto found = callers_.find(key);
    if (found != callers_.end()) return *found->second;
    auto caller = std::make_unique<Caller>(Caller{std::string(key), ++last_number_});
    return *callers_.emplace(std::string(key), std::move(caller)).first->second;
  }

  // `caller` may be gone afterwards.
  void ForgetIfUnused(const Caller& caller) {
    if (caller.session_count == 0 && caller.stream_count == 0 && caller.kept_count == 0) {
      callers_.erase(callers_.find(caller.key));
    }
  }

  size_t size() const { return callers_.size(); }

  template <typename Visitor>
  void ForEach(Visitor visit) const {
    for (const auto& [key, caller] : callers_) visit(*caller);
  }

 private:
  std::map<std::string, std::unique_ptr<Caller>, std::less<>> callers_;
  uint64_t last_number_ = 0;
};

}  // namespace outrider
