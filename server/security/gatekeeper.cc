#include "server/security/gatekeeper.h"

#include <utility>

#include "common/base/status.h"

namespace outrider {

absl::StatusOr<std::unique_ptr<Gatekeeper>> Gatekeeper::Open(const std::string& path) {
  std::unique_ptr<Gatekeeper> gate(new Gatekeeper(path));
  if (path.empty()) return gate;
  OUTRIDER_RETURN_IF_ERROR(gate->Reload().status());
  return gate;
}

// The keys are looked through without the lock, since whoever has none may try as often as he likes.
absl::Status Gatekeeper::LetIn(std::string_view authorization,
                               absl::FunctionRef<void(Caller)> tell) const {
  if (!asks_for_keys()) {
    tell({});
    return absl::OkStatus();
  }
  constexpr std::string_view kBearer = "Bearer ";
  if (!authorization.starts_with(kBearer)) {
    return absl::UnauthenticatedError(
        "this server asks for a key; give the device one (--key-file, or OUTRIDER_KEY)");
  }
  std::shared_ptr<const Keys> keys = current();
  for (;;) {
    const Keys::Key* const key = keys->Find(authorization.substr(kBearer.size()));
    if (key == nullptr) {
      return absl::UnauthenticatedError(
          "this server does not know the device's key, or not any more");
    }
    MutexLock lock(mu_);
    if (keys == keys_) {
      tell({key->identity(), key->terms});
      return absl::OkStatus();
    }
    keys = keys_;  // there are others since
  }
}

std::shared_ptr<const Keys> Gatekeeper::current() const {
  MutexLock lock(mu_);
  return keys_;
}

absl::StatusOr<std::vector<Keys::Key>> Gatekeeper::Reload() {
  std::vector<Keys::Key> revoked;
  if (!asks_for_keys()) return revoked;
  OUTRIDER_ASSIGN_OR_RETURN(Keys read, Keys::Read(path_));
  const auto keys = std::make_shared<const Keys>(std::move(read));
  MutexLock lock(mu_);
  if (keys_ != nullptr) revoked = keys_->NotIn(*keys);
  keys_ = keys;
  return revoked;
}

}  // namespace outrider
