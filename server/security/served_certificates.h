// The certificates that a server shows, and whom it lets vouch for its callers, while their files
// change.
//
//   ServedCertificates certificates(flags, log);      // flags that were checked
//   ... CredentialsFor(certificates.flags()) ...
//   certificates.LookNow();                           // somebody asks for it: SIGHUP
//
// gRPC reads files every second and takes whatever stands there: with a key that is not the
// certificate's it shakes hands with nobody until they are good again. So the files that it reads
// are in memory, and what is in the others is put there when it has been checked. What is no good
// changes nothing, and the log says why; a certificate and its key are put in place one after the
// other, so it is said of what is still so a second later, or at once when somebody asks.
//
// Memory:  the files.
// Threads: any; one of its own.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/file_descriptor.h"
#include "common/base/mutex.h"
#include "server/operations/event_log.h"
#include "server/security/transport_security.h"

namespace outrider {

class ServedCertificates {
 public:
  // Without TLS there is nothing to do. Fails where they are no good any more.
  static absl::StatusOr<std::unique_ptr<ServedCertificates>> Open(const TransportFlags& flags,
                                                                  EventLog& log);
  ~ServedCertificates();
  ServedCertificates(const ServedCertificates&) = delete;
  ServedCertificates& operator=(const ServedCertificates&) = delete;

  // As given, but with the paths of what is served: this process's alone.
  const TransportFlags& flags() const { return served_flags_; }

  void LookNow();

 private:
  // A file without a name.
  class InMemory {
   public:
    std::string path() const;
    // Whoever opens it sees all of the old text, or all of the new one.
    absl::Status Put(std::string_view text);

   private:
    FileDescriptor file_;
  };

  ServedCertificates(const TransportFlags& flags, EventLog& log);

  absl::Status Put(const TransportTexts& texts) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Look(bool is_asked) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void SayBad(const std::string& why, bool is_asked) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Run();

  const TransportFlags flags_;
  EventLog& log_;
  TransportFlags served_flags_;

  Mutex mu_;
  CondVar stopping_changed_;
  TransportTexts served_ ABSL_GUARDED_BY(mu_);
  InMemory certificate_ ABSL_GUARDED_BY(mu_);
  InMemory key_ ABSL_GUARDED_BY(mu_);
  InMemory client_ca_ ABSL_GUARDED_BY(mu_);
  std::string bad_
      ABSL_GUARDED_BY(mu_);  // why they were when looked at last; empty: they were good
  std::string said_ ABSL_GUARDED_BY(mu_);  // of that, what has been said
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;  // last: starts when all above exists
};

}  // namespace outrider
