// What passes and drafts have cost before, what a controller made of it, and how much of the drafts was
// accepted, in a small file: so that a conversation begins where the last one of its kind ended, and
// need not find out again; and that a forecast need not assume.
//
//   PriceFile file(path);
//   const std::optional<Prices> known = file.Find(key);
//   ... a conversation ...
//   file.Keep(key, prices);            // of the newest kPlaces keys
//   file.Add(target, draft, accepted);
//
// A key names what prices depend on: machine, models, threads, server. What is accepted depends on the
// two models alone, whose content hashes they are known by, and on texts. The file is a help and no
// more: where it cannot be read or makes no sense nothing is known, where it cannot be written
// nothing is kept. It says nothing of any text.
//
// Threads: one at a time. Programs that write at once lose one another's news, never the file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/speculation/control/controller.h"
#include "common/speculation/costs/latency_profile.h"

namespace outrider {

struct Prices {
  double pass_ms;        // of the root alone
  double row_ms;         // of every row besides
  double draft_ms;       // of a batch of one node
  double draft_node_ms;  // of every node besides
  Findings findings;
  std::vector<ShapeTime> passes = {};  // by shape, which is LEVER's online profile
  bool knows_rows = true;              // row_ms was measured

  // Work takes time. Where it is too little to be told from none, nothing is known.
  bool IsTakingTime() const { return pass_ms > 0 && draft_ms > 0; }

  bool operator==(const Prices&) const = default;
};

// What came of a draft at a target: sums over verdicts.
struct Accepted {
  uint64_t verdicts = 0;
  uint64_t tokens = 0;  // that they committed, the target's own and all
  uint64_t nodes = 0;   // that were drafted for them

  bool operator==(const Accepted&) const = default;
};

class PriceFile {
 public:
  static constexpr size_t kPlaces = 100;
  // Of older verdicts a part is forgotten: texts change.
  static constexpr uint64_t kVerdictsMax = 2000;
  static constexpr size_t kShapesMax = 32;

  // In the user's cache: $XDG_CACHE_HOME or ~/.cache. Empty where there is neither.
  static std::string DefaultPath();

  // Of an empty path nothing is known or kept.
  explicit PriceFile(std::string path) : path_(std::move(path)) {}

  std::optional<Prices> Find(uint64_t key) const;
  void Keep(uint64_t key, const Prices& prices) const;

  // Of these models, by their content hashes.
  std::optional<Accepted> FindAccepted(uint64_t target, uint64_t draft) const;
  // More of it.
  void Add(uint64_t target, uint64_t draft, const Accepted& more) const;

 private:
  struct Entry {
    uint64_t key;
    Prices prices;
  };
  struct Pair {
    uint64_t target;
    uint64_t draft;
    Accepted accepted;

    bool IsOf(uint64_t a_target, uint64_t a_draft) const {
      return target == a_target && draft == a_draft;
    }
  };
  struct Contents {
    std::vector<Pair> pairs;
    std::vector<Entry> entries;
  };

  static std::optional<Entry> ParseEntry(std::string_view line);
  static std::optional<Pair> ParsePair(std::string_view line);
  Contents Read() const;
  void Write(const Contents& contents) const;
  absl::Status WriteText(const std::string& text) const;

  const std::string path_;
};

}  // namespace outrider
