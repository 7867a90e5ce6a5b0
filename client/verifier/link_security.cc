#include "client/verifier/link_security.h"

#include <algorithm>
#include <fstream>
#include <utility>

#include "common/base/network_address.h"
#include "common/base/quote.h"
#include "common/base/status.h"

namespace outrider {
namespace {

constexpr size_t kFileBytesMax = 1 << 20;

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(kFileBytesMax + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(std::max<std::streamsize>(0, file.gcount())));
  if (text.empty()) return NotFound(path, ": cannot be read, or is empty");
  if (text.size() > kFileBytesMax)
    return InvalidArgument(path, ": is too large for what it is to be");
  return text;
}

absl::StatusOr<std::string> ReadPem(const std::string& path) {
  OUTRIDER_ASSIGN_OR_RETURN(std::string text, ReadFile(path));
  if (text.find("-----BEGIN ") != std::string::npos) return text;
  return InvalidArgument(path, ": has no certificate or key in PEM");
}

// A key goes into a header of every call.
absl::StatusOr<std::string> CheckKey(std::string key, const std::string& place) {
  while (!key.empty() && (key.back() == '\n' || key.back() == '\r' || key.back() == ' ')) {
    key.pop_back();
  }
  constexpr size_t kLengthMax = 1024;
  const bool is_plain = std::ranges::all_of(key, [](char c) { return c > ' ' && c < 127; });
  if (!key.empty() && is_plain && key.size() <= kLengthMax) return key;
  return InvalidArgument(place, ": is no key: that is one word of letters and digits");
}

}  // namespace

absl::StatusOr<LinkSecrets> ReadSecrets(const LinkSecurity& security, const std::string& address) {
  OUTRIDER_ASSIGN_OR_RETURN(const NetworkAddress where, NetworkAddress::Parse(address));
  if (!security.has_tls() && !security.insecure && !where.is_loopback()) {
    return InvalidArgument("--server ", address,
                           ": is not this machine, and whoever is between could "
                           "read prompts and texts; give --tls or --ca, or say --insecure");
  }
  if (security.certificate.empty() != security.certificate_key.empty()) {
    return InvalidArgument("--cert and --cert-key go together: a certificate and its key");
  }
  LinkSecrets secrets = {
      .tls = security.has_tls(), .ca = {}, .certificate = {}, .certificate_key = {}, .key = {}};
  if (!security.ca.empty()) {
    OUTRIDER_ASSIGN_OR_RETURN(secrets.ca, ReadPem(security.ca));
  }
  if (!security.certificate.empty()) {
    OUTRIDER_ASSIGN_OR_RETURN(secrets.certificate, ReadPem(security.certificate));
    OUTRIDER_ASSIGN_OR_RETURN(secrets.certificate_key, ReadPem(security.certificate_key));
  }
  if (!security.key_file.empty()) {
    OUTRIDER_ASSIGN_OR_RETURN(std::string text, ReadFile(security.key_file));
    OUTRIDER_ASSIGN_OR_RETURN(secrets.key, CheckKey(std::move(text), security.key_file));
  } else if (!security.key.empty()) {
    OUTRIDER_ASSIGN_OR_RETURN(secrets.key, CheckKey(security.key, "OUTRIDER_KEY"));
  }
  return secrets;
}

std::string WhyUnreachable(const std::string& address, const LinkSecrets& secrets,
                           std::string_view reason) {
  const auto says = [&](std::string_view words) {
    return reason.find(words) != std::string_view::npos;
  };
  const std::string server = Concat("the server at ", address);
  if (says("certificate verify failed")) {
    return Concat(server, " shows a certificate that ",
                  secrets.ca.empty() ? "none of this machine's roots" : "the one given by --ca",
                  " does not vouch for, or that has expired; give by --ca the certificate that it "
                  "was signed with, or have the server's renewed");
  }
  if (says("is not in peer certificate")) {
    return Concat(server,
                  " shows a certificate for another name; reach it by a name that is in its "
                  "certificate, or have one made for this name");
  }
  if (says("wrong version number")) {
    return Concat(server,
                  " speaks no TLS; start it with --tls-cert and --tls-key, or leave out --tls and "
                  "--ca here");
  }
  const bool is_turned_away = says("failed to connect") && says("Socket closed");
  if (is_turned_away && !secrets.tls) {
    return Concat(
        server,
        " closes the connection before a word: if it speaks TLS alone, give --tls, or --ca "
        "with the certificate that its own was signed with; if not, look for what breaks "
        "the link");
  }
  if (is_turned_away && secrets.certificate.empty()) {
    return Concat(server,
                  " closes the connection, as one does that asks devices for a certificate; "
                  "give --cert and --cert-key");
  }
  if (is_turned_away) {
    return Concat(server,
                  " closes the connection, as one does that does not take the certificate "
                  "given by --cert; have one made by whom its --tls-client-ca names");
  }
  return Concat("cannot reach a verifier at ", address, ": ", Printable(reason));
}

}  // namespace outrider
