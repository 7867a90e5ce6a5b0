// A server's life: devices connect, until a signal asks it to end.
//
//   BlockSignals();                                     // before any thread starts
//   OUTRIDER_ASSIGN_OR_RETURN(const LoadedTarget loaded, LoadedTarget::Load(flags));
//   return Serve(flags, loaded.tokenizer(), loaded.target());
//
// The target may be another one over that which was loaded: the server cannot tell.
#pragma once

#include "absl/status/status.h"
#include "common/engine/target.h"
#include "common/text/tokenizer.h"
#include "server/server_flags.h"

namespace outrider {

// SIGINT, SIGTERM and SIGHUP, for this thread and all that it starts: Serve() waits for them.
void BlockSignals();

// SIGHUP has it read the file of keys again. Says on standard error where it listens, and returns after
// another signal, when all sessions have ended or
// have had flags.drain_seconds; another signal ends the process at once.
absl::Status Serve(const ServerFlags& flags, const Tokenizer& tokenizer, Target& target);

}  // namespace outrider
