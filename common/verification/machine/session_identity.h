// Who a session is to its device: the name and the secrets by which it is found again.
//
// A nonce, given by the device, opens one session: the same Open again is the same device, which
// never saw the answer, unless it has spoken since or come back with its token: others of its key
// may know what it has opened, and nobody takes a session over by knowing that. Name and token, given with the answer, take the session over to another
// stream. Streams of one device may come in another order than it asked for them, so each carries
// its attempt, and a session is attached to rising ones only.
//
// Secrets: a token is 128 random bits, compared in constant time, and new at every attachment. The
// one before stays good until the device has said something on the stream that gave it the new one:
// an answer may be lost.
//
// Threads: as a vector.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "common/verification/machine/resume_token.h"
#include "proto/outrider/v1/verifier.pb.h"

namespace outrider {

class SessionIdentity {
 public:
  using RandomBits = std::function<uint64_t()>;

  // `random_bits` outlives it.
  // `open_hash` is HashOf(open).
  SessionIdentity(const v1::Open& open, size_t open_hash, const RandomBits& random_bits);

  // Of all it says but for the attempt. Takes as long as the Open is.
  static size_t HashOf(const v1::Open& open);

  // Whether one of this hash says what the first one did.
  bool IsOpenedBy(const v1::Open& open, size_t hash) const {
    return open.nonce() == nonce_ && hash == open_hash_;
  }
  // Whether the device has shown that it has a token. From then on that alone is it.
  bool has_token() const { return has_token_; }
  // Whether a stream of this attempt was given up by its device.
  bool IsLate(uint32_t attempt) const { return attempt <= attempt_; }
  // Whether it has the newest token, or the one before it while that is good.
  bool Admits(const v1::Resume& resume) const;

  // Attaches another stream, which is not late and has been admitted: a new token.
  void Reopen(const v1::Open& open);
  void Resume(const v1::Resume& resume);
  // The device has said something on its stream.
  void DeviceHasToken() {
    has_token_ = true;
    old_token_.reset();
  }

  const std::string& id() const { return id_; }
  uint64_t nonce() const { return nonce_; }
  // For the wire, and nowhere else.
  const std::string& token() const { return token_.Bytes(); }

 private:
  const RandomBits& random_bits_;
  const std::string id_;
  const uint64_t nonce_;
  const size_t open_hash_;
  uint32_t attempt_;  // the highest that it was attached to
  bool has_token_ = false;
  ResumeToken token_;
  std::optional<ResumeToken> old_token_;
};

}  // namespace outrider
