// The engine that *_contract_test.cc are about. The pool outlives it.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/base/thread_pool.h"
#include "common/engine/engine.h"

namespace outrider {

absl::StatusOr<std::unique_ptr<Engine>> MakeContractEngine(const std::string& path,
                                                           const EngineOptions& options,
                                                           ThreadPool& pool);

// Of the same model, but all its layers hear an encoder, by the weights of tests/model/hearing.h.
absl::StatusOr<std::unique_ptr<Engine>> MakeHearingEngine(const std::string& path,
                                                          const EngineOptions& options,
                                                          ThreadPool& pool);

}  // namespace outrider
