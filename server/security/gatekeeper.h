// Who is let in: with a file of keys whoever has one of them, without one everybody.
//
//   OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<Gatekeeper> gate, Gatekeeper::Open(flags.keys));
//   OUTRIDER_ASSIGN_OR_RETURN(const Gatekeeper::Caller caller, gate->Admit(authorization));
//   ... after SIGHUP: gate->Reload()
//
// Threads: any.
// Errors:  Unauthenticated for callers; what is said to them tells nothing of keys.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "common/verification/caller_terms.h"
#include "server/security/keys.h"

namespace outrider {

class Gatekeeper {
 public:
  struct Caller {
    std::string name;  // empty: everybody
    CallerTerms terms;
  };

  // `path` is empty where nobody needs a key.
  static absl::StatusOr<std::unique_ptr<Gatekeeper>> Open(const std::string& path);

  bool asks_for_keys() const { return !path_.empty(); }

  // By what stands in the call's `authorization`, "Bearer KEY"; empty: nothing does.
  absl::StatusOr<Caller> Admit(std::string_view authorization) const;

  // Reads the file again. Returns the names of those who may not call any more; an error leaves
  // everything as it was.
  absl::StatusOr<std::vector<std::string>> Reload();

 private:
  explicit Gatekeeper(std::string path) : path_(std::move(path)) {}

  const std::string path_;
  mutable Mutex mu_;
  std::shared_ptr<const Keys> keys_ ABSL_GUARDED_BY(mu_);
};

}  // namespace outrider
