// How a command is told what its link to a server is to be.
#pragma once

#include "client/verifier/link_security.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace outrider {

// All of them need `server`. The key itself comes from a file or from the environment (OUTRIDER_KEY),
// where not everybody who lists processes reads it.
void AddLinkFlags(CLI::App& command, CLI::Option& server, LinkSecurity& security);

}  // namespace outrider
