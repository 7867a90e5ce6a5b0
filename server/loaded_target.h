// The model that a server was told of: its tokenizer, the threads that compute it, and the target.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "common/base/thread_pool.h"
#include "common/engine/target.h"
#include "common/text/tokenizer.h"
#include "server/server_flags.h"

namespace outrider {

class LoadedTarget {
 public:
  // Takes its time; a slow one says on standard error how far it is.
  static absl::StatusOr<LoadedTarget> Load(const ServerFlags& flags);

  const Tokenizer& tokenizer() const { return *tokenizer_; }
  Target& target() const { return *target_; }

 private:
  LoadedTarget() = default;

  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<ThreadPool> pool_;
  std::unique_ptr<Target> target_;  // last: it computes on the pool
};

}  // namespace outrider
