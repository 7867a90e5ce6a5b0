// A server's life: devices connect, until a signal asks it to end.
//
//   BlockSignals();                                     // before any thread starts
//   OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<Operations> operations,
//                             Operations::Open(flags.operations));
//   OUTRIDER_ASSIGN_OR_RETURN(const LoadedTarget loaded, LoadTarget(flags, operations->log()));
//   return Serve(flags, loaded.tokenizer(), loaded.target(), loaded.pool(), *operations);
//
// The target may be another one over that which was loaded: the server cannot tell.
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/engine/target.h"
#include "common/text/tokenizer.h"
#include "server/config/server_flags.h"
#include "server/loaded_target.h"
#include "server/operations/operations.h"

namespace outrider {

// SIGINT, SIGTERM and SIGHUP, for this thread and all that it starts: Serve() waits for them.
void BlockSignals();

// As LoadedTarget::Load(), and a signal meanwhile ends the process at once: there is nobody to take
// leave of.
absl::StatusOr<LoadedTarget> LoadTarget(const ServerFlags& flags, EventLog& log);

// Its log says where it listens. SIGHUP has it read the file of keys again, and look at certificates.
// It returns after another signal, when all sessions have ended; when they have not in
// flags.drain_seconds and a moment to hear so, or one more signal comes, the process ends at once.
// The draft computes on `pool`, by turns with the target.
absl::Status Serve(const ServerFlags& flags, const Tokenizer& tokenizer, Target& target,
                   ThreadPool& pool, Operations& operations);

}  // namespace outrider
