// What happened in a simulation, to be read (`--trace`) or drawn (timeline.h).
//
// Devices and host write it down when they are given one; without it nothing is kept.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "bench/simulator/world/link.h"
#include "common/base/monotonic_time.h"

namespace outrider {

class Journal {
 public:
  enum class Kind {
    kUp,  // a message, from when it was written until it was whole at the other end
    kDown,
    kDraft,  // a batch of the drafter
    kRun,    // of the target
    kShown,  // tokens the user got to see
    kNote,   // anything else
  };

  struct Entry {
    Kind kind;
    size_t device;  // of runs: the number of sessions in it
    MonotonicTime begin;
    MonotonicTime end;  // of messages that never arrived: when they were written
    uint32_t count;     // nodes of a message or batch, rows of a run, tokens
    std::string what;
  };

  // Lasts from `begin` to `end`, both of which may be in the future.
  void Add(Entry entry) { entries_.push_back(std::move(entry)); }

  // Messages of a connection arrive in the order they were written in.
  void Sent(const Connection& connection, End from, Entry entry);
  void Received(const Connection& connection, End from, MonotonicTime at);

  const std::vector<Entry>& entries() const { return entries_; }

  // A line for each, in the order of their beginnings.
  std::string ToText(MonotonicTime zero) const;

 private:
  std::vector<Entry> entries_;
  std::map<std::pair<const Connection*, End>, std::deque<size_t>> under_way_;  // entries
};

}  // namespace outrider
