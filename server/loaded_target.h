// The model that a server was told of: its tokenizer, the threads that compute it, and the target.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "common/base/thread_pool.h"
#include "common/engine/target.h"
#include "common/text/tokenizer.h"
#include "server/config/server_flags.h"
#include "server/operations/event_log.h"

namespace outrider {

class LoadedTarget {
 public:
  // Takes its time; the log of a slow one says how far it is.
  static absl::StatusOr<LoadedTarget> Load(const ServerFlags& flags, EventLog& log);

  const Tokenizer& tokenizer() const { return *tokenizer_; }
  Target& target() const { return *target_; }
  ThreadPool& pool() const { return *pool_; }

 private:
  LoadedTarget() = default;

  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<ThreadPool> pool_;
  std::unique_ptr<Target> target_;  // last: it computes on the pool
};

}  // namespace outrider
