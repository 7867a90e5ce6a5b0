// The edits of a session (appends, truncations), and which of them its verifier may not know of.
//
//   made      by the device: sent, or to be sent when a stream is attached
//   taken in  of them by the verifier, as far as it has told
//
// While some are in doubt, its verdicts are about a past and count for nothing. What no edit in
// doubt has touched, the verifier has for certain.
//
// Threads: as a vector.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace outrider {

class Edits {
 public:
  // Both sides know of so many, and of no other.
  void Agree(uint32_t count) {
    made_ = taken_in_ = count;
    untouched_.reset();
  }

  // One that leaves the first `length` tokens as they are.
  void Make(size_t length) {
    ++made_;
    untouched_ = std::min(untouched_.value_or(length), length);
  }

  // The verifier tells of so many more.
  void TakenIn(uint32_t count) { taken_in_ += count; }
  // A verdict has shown that the verifier's tokens are ours.
  void Settle() { untouched_.reset(); }

  bool in_doubt() const { return taken_in_ < made_; }
  // The verifier tells of edits that nobody has made.
  bool contradicted() const { return taken_in_ > made_; }
  uint32_t made() const { return made_; }
  // So many of the committed tokens no edit in doubt has touched; nothing: all of them.
  std::optional<size_t> untouched() const { return untouched_; }

 private:
  uint32_t made_ = 0;
  uint32_t taken_in_ = 0;
  std::optional<size_t> untouched_;
};

}  // namespace outrider
