// Who is let in: with a file of keys whoever has one of them, without one everybody.
//
//   OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<Gatekeeper> gate, Gatekeeper::Open(flags.keys));
//   gate->LetIn(authorization, [&](Gatekeeper::Caller caller) { driver.Open(..., caller.identity); });
//   ... after SIGHUP: for who of gate->Reload(): driver.Revoke(who.identity)
//
// Whom LetIn() has told of is told of before a Reload() that withdraws his key returns, so that
// whoever is revoked then has been opened before.
//
// Threads: any.
// Errors:  Unauthenticated for callers; what is said to them tells nothing of keys.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "common/verification/caller_terms.h"
#include "server/security/keys.h"

namespace outrider {

class Gatekeeper {
 public:
  struct Caller {
    std::string identity;  // Keys::Key; empty: everybody
    CallerTerms terms;
  };

  // `path` is empty where nobody needs a key.
  static absl::StatusOr<std::unique_ptr<Gatekeeper>> Open(const std::string& path);

  bool asks_for_keys() const { return !path_.empty(); }

  // By what stands in the call's `authorization`, "Bearer KEY"; empty: nothing does. `tell` is quick.
  absl::Status LetIn(std::string_view authorization, absl::FunctionRef<void(Caller)> tell) const;

  // Reads the file again. Returns the keys by which nobody may call any more; an error leaves
  // everything as it was.
  absl::StatusOr<std::vector<Keys::Key>> Reload();

 private:
  explicit Gatekeeper(std::string path) : path_(std::move(path)) {}

  std::shared_ptr<const Keys> current() const;

  const std::string path_;
  mutable Mutex mu_;
  std::shared_ptr<const Keys> keys_ ABSL_GUARDED_BY(mu_);
};

}  // namespace outrider
