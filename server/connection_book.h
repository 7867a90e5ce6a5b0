// What those who answer calls know of a connection, for the front door, which sees bytes alone.
//
//   const auto entry = book.Add(PeerOf(address));            // the front door
//   book.Find(PeerOf(context.peer()))->ExplainMessage(size); // a call
//
// Bytes of a message are what a connection is for. All else (headers, settings, pings, resets,
// whatever a stranger sends) should be little beside them, and the front door sees to that. A call
// that is refused counts as more than its bytes.
//
// Memory:  an entry for each connection.
// Threads: any.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "common/base/mutex.h"
#include "common/verification/own_limit.h"

namespace outrider {

class ConnectionBook {
 public:
  class Entry {
   public:
    // A call of it may be answered: it has the key, if there are keys.
    void LetIn() { was_let_in_.store(true, std::memory_order_relaxed); }
    // One has been read, or one of no bytes has been written and the other side says so.
    void ExplainMessage(uint64_t bytes) {
      explained_.fetch_add(static_cast<int64_t>(kBesideMessage + bytes + bytes / 8),
                           std::memory_order_relaxed);
    }
    // A call of it has ended. Who is sent away because there is no room for anybody, or leaves, has done
    // nothing wrong; who has all that he may have waits before he asks again.
    void End(const absl::Status& status) {
      if (absl::IsInvalidArgument(status) || absl::IsNotFound(status) || IsOfOwnLimit(status)) {
        Refuse();
      }
    }
    // A call of it has been refused, was wrong, or was over before it had said anything: looking at
    // it took longer than its few bytes did.
    void Refuse() {
      explained_.fetch_sub(kRefused, std::memory_order_relaxed);
      refused_.fetch_add(1, std::memory_order_relaxed);
    }

    bool was_let_in() const { return was_let_in_.load(std::memory_order_relaxed); }
    int64_t explained() const { return explained_.load(std::memory_order_relaxed); }
    uint32_t refused() const { return refused_.load(std::memory_order_relaxed); }
    // What one stands for, in bytes: so eight a second, with what connections may send besides
    // messages by default.
    static constexpr int64_t kRefused = 8192;

   private:
    // A message's own frame, TLS record and length, and the window for it.
    static constexpr uint64_t kBesideMessage = 128;

    std::atomic<bool> was_let_in_ = false;
    std::atomic<int64_t> explained_ = 0;
    std::atomic<uint32_t> refused_ = 0;
  };

  // `peer` is its name (origin.h). Whoever had that name before has gone.
  std::shared_ptr<Entry> Add(const std::string& peer) {
    auto entry = std::make_shared<Entry>();
    MutexLock lock(mu_);
    entries_[peer] = entry;
    return entry;
  }
  void Remove(const std::string& peer, const std::shared_ptr<Entry>& entry) {
    MutexLock lock(mu_);
    const auto found = entries_.find(peer);
    if (found != entries_.end() && found->second == entry) entries_.erase(found);
  }
  // Never null: of a connection that has gone, it is one that nobody looks at.
  std::shared_ptr<Entry> Find(std::string_view peer) const {
    MutexLock lock(mu_);
    const auto found = entries_.find(peer);
    return found == entries_.end() ? std::make_shared<Entry>() : found->second;
  }

 private:
  mutable Mutex mu_;
  std::map<std::string, std::shared_ptr<Entry>, std::less<>> entries_ ABSL_GUARDED_BY(mu_);
};

}  // namespace outrider
