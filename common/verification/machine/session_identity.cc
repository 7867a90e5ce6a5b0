#include "common/verification/machine/session_identity.h"

#include "common/base/check.h"

namespace outrider {
SessionIdentity::SessionIdentity(const v1::Open& open, size_t open_hash,
                                 const RandomBits& random_bits)
    : random_bits_(random_bits),
      id_(RandomBytes(random_bits)),
      nonce_(open.nonce()),
      open_hash_(open_hash),
      attempt_(open.attempt()),
      token_(random_bits) {}

size_t SessionIdentity::HashOf(const v1::Open& open) {
  v1::Open first = open;
  first.clear_attempt();
  return std::hash<std::string>()(first.SerializeAsString());
}

bool SessionIdentity::Admits(const v1::Resume& resume) const {
  const bool is_new = token_.Matches(resume.token());
  const bool is_old = old_token_ && old_token_->Matches(resume.token());
  return is_new || is_old;
}

void SessionIdentity::Reopen(const v1::Open& open) {
  OUTRIDER_CHECK(!IsLate(open.attempt()), "a session is attached to rising attempts");
  attempt_ = open.attempt();
  token_ = ResumeToken(random_bits_);
  old_token_.reset();
}

// A token that was the newest one is good once more: this answer may be lost as well.
void SessionIdentity::Resume(const v1::Resume& resume) {
  OUTRIDER_CHECK(!IsLate(resume.attempt()), "a session is attached to rising attempts");
  attempt_ = resume.attempt();
  has_token_ = true;
  if (token_.Matches(resume.token())) old_token_ = token_;
  token_ = ResumeToken(random_bits_);
}

}  // namespace outrider
