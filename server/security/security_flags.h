// How a server is told whom to let in, and by what.
#pragma once

#include <string>

#include "server/security/transport_security.h"

namespace CLI {
class App;
}

namespace outrider {

struct SecurityFlags {
  TransportFlags transport;
  std::string keys;  // a file of them (keys.h); empty: everybody is let in
};

// Each with its environment twin; and --new-key, which makes a key, prints it, and ends the program.
void AddSecurityFlags(CLI::App& app, SecurityFlags& flags);

}  // namespace outrider
