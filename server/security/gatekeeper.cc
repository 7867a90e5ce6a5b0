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

absl::StatusOr<Gatekeeper::Caller> Gatekeeper::Admit(std::string_view authorization) const {
  if (!asks_for_keys()) return Caller{};
  constexpr std::string_view kBearer = "Bearer ";
  if (!authorization.starts_with(kBearer)) {
    return absl::UnauthenticatedError(
        "this server asks for a key; give the device one (--key-file, or OUTRIDER_KEY)");
  }
  std::shared_ptr<const Keys> keys;
  {
    MutexLock lock(mu_);
    keys = keys_;
  }
  const Keys::Key* const key = keys->Find(authorization.substr(kBearer.size()));
  if (key == nullptr) {
    return absl::UnauthenticatedError(
        "this server does not know the device's key, or not any more");
  }
  return Caller{key->name, key->terms};
}

absl::StatusOr<std::vector<std::string>> Gatekeeper::Reload() {
  std::vector<std::string> revoked;
  if (!asks_for_keys()) return revoked;
  OUTRIDER_ASSIGN_OR_RETURN(Keys read, Keys::Read(path_));
  const auto keys = std::make_shared<const Keys>(std::move(read));
  MutexLock lock(mu_);
  if (keys_ != nullptr) revoked = keys_->NamesNotIn(*keys);
  keys_ = keys;
  return revoked;
}

}  // namespace outrider
