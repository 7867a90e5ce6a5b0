// Who may call a server: names, and of each the hash of a key that only its holder has.
//
//   # name    hash of the key                what it may have
//   robot-7   sha256:9f86d081884c7d65...     sessions=4 opens-per-minute=30 share=3
//
// A line a key; what stands after # is not read. Limits that are left out are the server's, and a
// share is 1: where the target's time does not do for all, a key of share 3 has three times as much
// of it. Keys are
// made by NewKey(), of 256 random bits, so that a plain hash of one tells nothing.
//
// Threads: immutable.
// Errors:  InvalidArgument, naming file and line.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/verification/caller_terms.h"

namespace outrider {

class Keys {
 public:
  using Hash = std::array<uint8_t, 32>;

  static constexpr uint32_t kShareMax = 1000;

  struct Key {
    std::string name;
    Hash hash;
    CallerTerms terms;

    // By name and hash, as in "robot-7/9f86d081...": another key of this name is another caller.
    std::string identity() const;
  };

  static absl::StatusOr<Keys> Read(const std::string& path);
  // `name` stands in for the path.
  static absl::StatusOr<Keys> Parse(std::string_view text, const std::string& name);

  // Null: nobody's. Takes as long for every key.
  const Key* Find(std::string_view key) const;
  bool HasName(std::string_view name) const;
  // Those that are not there, or are another's.
  std::vector<Key> NotIn(const Keys& others) const;
  size_t size() const { return keys_.size(); }

 private:
  std::vector<Key> keys_;
};

// What its holder says, and nobody else knows.
std::string NewKey();
// Of an identity, or of everybody: the name.
std::string_view NameIn(std::string_view identity);
// Of the file.
std::string LineOf(std::string_view name, std::string_view key);

}  // namespace outrider
