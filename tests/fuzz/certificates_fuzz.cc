// Certificates and keys as a server is given them: whatever stands in the files, they are taken or refused
// with the file's name.
//
// The input is three texts one after another, apart by zero bytes: a certificate, its key, and who vouches
// for callers.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/check.h"
#include "common/base/file_descriptor.h"
#include "common/base/status.h"
#include "server/security/transport_security.h"

namespace outrider {
namespace {

// A file that nobody else sees.
class PrivateFile {
 public:
  explicit PrivateFile(std::string_view text) : file_(memfd_create("pem", MFD_CLOEXEC)) {
    OUTRIDER_CHECK(file_.is_open() && write(file_.get(), text.data(), text.size()) ==
                                          static_cast<ssize_t>(text.size()),
                   "memory holds a file");
  }
  std::string path() const { return Concat("/proc/self/fd/", file_.get()); }

 private:
  FileDescriptor file_;
};

// Up to the next zero byte.
std::string_view Next(std::string_view& left) {
  const size_t end = left.find('\0');
  const std::string_view text = left.substr(0, end);
  left = end == std::string_view::npos ? std::string_view() : left.substr(end + 1);
  return text;
}

void Check(std::string_view input) {
  const PrivateFile certificate(Next(input));
  const PrivateFile key(Next(input));
  const PrivateFile callers(Next(input));
  const absl::Status status = CheckTransport({.certificate = certificate.path(),
                                              .key = key.path(),
                                              .client_ca = callers.path(),
                                              .insecure = false},
                                             "0.0.0.0:7373");
  OUTRIDER_CHECK(status.ok() || Message(status).starts_with("/proc/self/fd/"),
                 "an error names its file");
}

}  // namespace
}  // namespace outrider

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  outrider::Check({reinterpret_cast<const char*>(data), size});
  return 0;
}
