#include "server/security/security_flags.h"

#include <cstdio>
#include <string>

#include "CLI/CLI.hpp"
#include "common/base/status.h"
#include "server/security/keys.h"

namespace outrider {
namespace {

// The key is all that goes to standard output. Nothing else is asked for then: it is as --help.
void MakeKey(const std::string& name) {
  const std::string key = NewKey();
  const std::string line = LineOf(name, key);
  const absl::Status status = Keys::Parse(line, "--new-key").status();
  if (!status.ok()) throw CLI::ValidationError(std::string(Message(status)));
  std::printf("%s\n", key.c_str());
  std::fprintf(stderr, "this key is %s's, and kept nowhere; its line for the server's file:\n%s\n",
               name.c_str(), line.c_str());
  throw CLI::Success();
}

}  // namespace

void AddSecurityFlags(CLI::App& app, SecurityFlags& flags) {
  app.add_option(
         "--tls-cert", flags.transport.certificate,
         "TLS 1.2 and up, with this certificate (PEM, and those up to its root); read again "
         "when the file changes")
      ->envname("OUTRIDER_TLS_CERT");
  app.add_option("--tls-key", flags.transport.key, "Its private key (PEM)")
      ->envname("OUTRIDER_TLS_KEY");
  app.add_option("--tls-client-ca", flags.transport.client_ca,
                 "Devices need a certificate that this one vouches for (PEM)")
      ->envname("OUTRIDER_TLS_CLIENT_CA");
  app.add_flag("--insecure", flags.transport.insecure,
               "Serve without TLS on an address that others reach")
      ->envname("OUTRIDER_INSECURE");
  app.add_option("--keys", flags.keys,
                 "Only who has a key of this file is let in. A line a key: name, sha256:HASH, "
                 "sessions=N, streams=N, opens-per-minute=N, share=N; read again on SIGHUP")
      ->envname("OUTRIDER_KEYS");
  app.add_option_function<std::string>(
         "--new-key", MakeKey,
         "Makes a key for this name, prints it and its line for the file, and ends")
      ->configurable(false);
}

}  // namespace outrider
