#include "server/security/transport_security.h"

#include <cstdio>

#include "common/base/network_address.h"
#include "common/base/status.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/security/tls_certificate_provider.h"
#include "grpcpp/security/tls_credentials_options.h"
#include "openssl/pem.h"
#include "openssl/x509.h"

namespace outrider {
namespace {

// Whoever changes them and looks sees the new ones.
constexpr unsigned kReadAgainSeconds = 1;

struct FileCloser {
  void operator()(FILE* file) const { std::fclose(file); }
};
struct CertificateFree {
  void operator()(X509* certificate) const { X509_free(certificate); }
};
struct KeyFree {
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};
using File = std::unique_ptr<FILE, FileCloser>;
using Certificate = std::unique_ptr<X509, CertificateFree>;
using PrivateKey = std::unique_ptr<EVP_PKEY, KeyFree>;

absl::StatusOr<File> Open(const std::string& path) {
  File file(std::fopen(path.c_str(), "re"));
  if (file == nullptr) return NotFound(path, ": cannot be read");
  return file;
}

// A server starts without anybody at its terminal: OpenSSL is not to ask there.
int NoPassPhrase(char*, int, int, void*) {
  return -1;
}

absl::StatusOr<Certificate> ReadCertificate(const std::string& path) {
  OUTRIDER_ASSIGN_OR_RETURN(const File file, Open(path));
  Certificate certificate(PEM_read_X509(file.get(), nullptr, NoPassPhrase, nullptr));
  if (certificate == nullptr) return InvalidArgument(path, ": begins with no certificate in PEM");
  if (X509_cmp_current_time(X509_get0_notBefore(certificate.get())) > 0) {
    return FailedPrecondition(path,
                              ": its certificate is not valid yet; check this machine's clock");
  }
  if (X509_cmp_current_time(X509_get0_notAfter(certificate.get())) < 0) {
    return FailedPrecondition(path, ": its certificate has expired; have another one made");
  }
  return certificate;
}

absl::Status CheckPair(const TransportFlags& flags) {
  OUTRIDER_ASSIGN_OR_RETURN(const Certificate certificate, ReadCertificate(flags.certificate));
  OUTRIDER_ASSIGN_OR_RETURN(const File file, Open(flags.key));
  const PrivateKey key(PEM_read_PrivateKey(file.get(), nullptr, NoPassPhrase, nullptr));
  if (key == nullptr) {
    return InvalidArgument(
        flags.key, ": begins with no private key in PEM that can be read without a pass phrase");
  }
  if (X509_check_private_key(certificate.get(), key.get()) != 1) {
    return InvalidArgument(flags.key, ": is not the key of the certificate in ", flags.certificate);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckTransport(const TransportFlags& flags, const std::string& address) {
  if (flags.certificate.empty() != flags.key.empty()) {
    return InvalidArgument("--tls-cert and --tls-key go together: a certificate and its key");
  }
  if (!flags.certificate.empty()) {
    OUTRIDER_RETURN_IF_ERROR(CheckPair(flags));
    if (flags.client_ca.empty()) return absl::OkStatus();
    return ReadCertificate(flags.client_ca).status();
  }
  if (!flags.client_ca.empty()) {
    return InvalidArgument("--tls-client-ca asks callers for certificates, which needs --tls-cert");
  }
  OUTRIDER_ASSIGN_OR_RETURN(const NetworkAddress where, NetworkAddress::Parse(address));
  if (flags.insecure || where.is_loopback()) return absl::OkStatus();
  return InvalidArgument("--listen ", address,
                         ": others reach this address, and whoever is between "
                         "could read prompts and texts; give --tls-cert and --tls-key, or say "
                         "--insecure");
}

std::shared_ptr<grpc::ServerCredentials> CredentialsFor(const TransportFlags& flags) {
  if (flags.certificate.empty()) return grpc::InsecureServerCredentials();
  using Provider = grpc::experimental::FileWatcherCertificateProvider;
  const bool asks = !flags.client_ca.empty();
  const auto provider =
      asks ? std::make_shared<Provider>(flags.key, flags.certificate, flags.client_ca,
                                        kReadAgainSeconds)
           : std::make_shared<Provider>(flags.key, flags.certificate, kReadAgainSeconds);
  grpc::experimental::TlsServerCredentialsOptions options(provider);
  options.watch_identity_key_cert_pairs();
  if (asks) options.watch_root_certs();
  options.set_cert_request_type(asks ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
                                     : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE);
  return grpc::experimental::TlsServerCredentials(options);
}

}  // namespace outrider
