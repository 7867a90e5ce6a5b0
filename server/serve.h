// A server's life: devices connect, until a signal asks it to end.
//
//   BlockSignals();                                     // before any thread starts
//   OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<Operations> operations,
//                             Operations::Open(flags.operations));
//   OUTRIDER_ASSIGN_OR_RETURN(const LoadedTarget loaded,
//                             LoadedTarget::Load(flags, operations->log()));
//   return Serve(flags, loaded.tokenizer(), loaded.target(), *operations);
//
// The target may be another one over that which was loaded: the server cannot tell.
#pragma once

#include "absl/status/status.h"
#include "common/engine/target.h"
#include "common/text/tokenizer.h"
#include "server/config/server_flags.h"
#include "server/operations/operations.h"

namespace outrider {

// SIGINT, SIGTERM and SIGHUP, for this thread and all that it starts: Serve() waits for them.
void BlockSignals();

// Its log says where it listens. SIGHUP has it read the file of keys again. It returns after another
// signal, when all sessions have ended or have had flags.drain_seconds; one more ends the process at
// once.
absl::Status Serve(const ServerFlags& flags, const Tokenizer& tokenizer, Target& target,
                   Operations& operations);

}  // namespace outrider
