#include "server/security/transport_security.h"

#include "common/base/network_address.h"
#include "common/base/plain_file.h"
#include "common/base/status.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/security/tls_certificate_provider.h"
#include "grpcpp/security/tls_credentials_options.h"
#include "openssl/bio.h"
#include "openssl/pem.h"
#include "openssl/x509.h"

namespace outrider {
namespace {

// Whoever changes them and looks sees the new ones.
constexpr unsigned kReadAgainSeconds = 1;
constexpr size_t kTextBytesMax = 1 << 20;

struct BioFree {
  void operator()(BIO* bio) const { BIO_free(bio); }
};
struct CertificateFree {
  void operator()(X509* certificate) const { X509_free(certificate); }
};
struct KeyFree {
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};
using Bio = std::unique_ptr<BIO, BioFree>;
using Certificate = std::unique_ptr<X509, CertificateFree>;
using PrivateKey = std::unique_ptr<EVP_PKEY, KeyFree>;

// A file's text and its name, which errors begin with.
struct Pem {
  const std::string& text;
  const std::string& path;

  Bio Open() const { return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size()))); }
};

absl::StatusOr<std::string> ReadText(const std::string& path) {
  absl::StatusOr<std::string> text = ReadWholeFile(path);
  if (!text.ok()) return NotFound(path, ": cannot be read");
  if (text->size() > kTextBytesMax) return InvalidArgument(path, ": is too large to be in PEM");
  return text;
}

// A server starts without anybody at its terminal: OpenSSL is not to ask there.
int NoPassPhrase(char*, int, int, void*) {
  return -1;
}

absl::StatusOr<Certificate> ParseCertificate(const Pem& pem) {
  const std::string& path = pem.path;
  Certificate certificate(PEM_read_bio_X509(pem.Open().get(), nullptr, NoPassPhrase, nullptr));
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

absl::Status CheckPair(const Pem& certificate_pem, const Pem& key_pem) {
  OUTRIDER_ASSIGN_OR_RETURN(const Certificate certificate, ParseCertificate(certificate_pem));
  const PrivateKey key(
      PEM_read_bio_PrivateKey(key_pem.Open().get(), nullptr, NoPassPhrase, nullptr));
  if (key == nullptr) {
    return InvalidArgument(
        key_pem.path, ": begins with no private key in PEM that can be read without a pass phrase");
  }
  if (X509_check_private_key(certificate.get(), key.get()) != 1) {
    return InvalidArgument(key_pem.path, ": is not the key of the certificate in ",
                           certificate_pem.path);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TransportTexts> ReadTransport(const TransportFlags& flags) {
  TransportTexts texts;
  OUTRIDER_ASSIGN_OR_RETURN(texts.certificate, ReadText(flags.certificate));
  OUTRIDER_ASSIGN_OR_RETURN(texts.key, ReadText(flags.key));
  OUTRIDER_RETURN_IF_ERROR(
      CheckPair({texts.certificate, flags.certificate}, {texts.key, flags.key}));
  if (flags.client_ca.empty()) return texts;
  OUTRIDER_ASSIGN_OR_RETURN(texts.client_ca, ReadText(flags.client_ca));
  OUTRIDER_RETURN_IF_ERROR(ParseCertificate({texts.client_ca, flags.client_ca}).status());
  return texts;
}

absl::Status CheckTransport(const TransportFlags& flags, const std::string& address) {
  if (flags.certificate.empty() != flags.key.empty()) {
    return InvalidArgument("--tls-cert and --tls-key go together: a certificate and its key");
  }
  if (!flags.certificate.empty()) return ReadTransport(flags).status();
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
