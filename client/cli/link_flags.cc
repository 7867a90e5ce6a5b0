#include "client/cli/link_flags.h"

#include <cstdlib>

#include "CLI/CLI.hpp"
#include "common/verification/wire_padding.h"

namespace outrider {

void AddLinkFlags(CLI::App& command, CLI::Option& server, LinkSecurity& security) {
  command
      .add_flag("--tls", security.tls,
                "Reach the server by TLS, as this machine's roots vouch for it")
      ->needs(&server)
      ->envname("OUTRIDER_TLS");
  command.add_option("--ca", security.ca, "By TLS, and only this certificate vouches for it (PEM)")
      ->needs(&server)
      ->envname("OUTRIDER_CA");
  command
      .add_option("--cert", security.certificate,
                  "The device's own certificate, where the server asks for one (PEM)")
      ->needs(&server)
      ->envname("OUTRIDER_CERT");
  command.add_option("--cert-key", security.certificate_key, "Its private key (PEM)")
      ->needs(&server)
      ->envname("OUTRIDER_CERT_KEY");
  command
      .add_option("--key-file", security.key_file,
                  "Where the key stands that the server knows this device by; without it, "
                  "OUTRIDER_KEY is that key")
      ->needs(&server)
      ->envname("OUTRIDER_KEY_FILE");
  command
      .add_flag("--insecure", security.insecure,
                "Reach a server that is not this machine without TLS")
      ->needs(&server)
      ->envname("OUTRIDER_INSECURE");
  command
      .add_option("--frames", security.frame_bytes,
                  "Pad each message, both ways, to a multiple of so many bytes, so that its size "
                  "does not tell what was drafted and what was right; 256 makes all of a reply "
                  "alike")
      ->needs(&server)
      ->check(CLI::Range(uint32_t{1}, kFrameBytesMax))
      ->envname("OUTRIDER_FRAMES");
  if (const char* const key = std::getenv("OUTRIDER_KEY")) security.key = key;
}

}  // namespace outrider
