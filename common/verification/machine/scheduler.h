// Who goes into the target's next run, and with how much.
//
//   scheduler.Choose(candidates, shares);      // all sessions that could use the target now
//   ... run it ...
//   scheduler.Charge(session, time);           // what its part has cost
//
// Passes of a run share its rows: a root and its drafted nodes take one each, and the weights are
// read once for all of them. How many nodes are worth their rows is decided before they come here
// (row_worth.h). A run has rows for as much time as it takes whatever is in it, by what a row costs
// on this machine; for each of many sessions a few; and no more than twice what was tried of late,
// lest a machine where rows are dear find that out by one run that takes seconds. Of the rows each
// caller's key gets a part by its share, and below it first every session's root, then the nodes that are
// the most likely to be passed, whoever's they are; of those equally likely each session gets an
// equal part. What one does not want goes to the others. When there are more sessions than rows, those go
// that have had the least of the target's time: first the key, then the session below it.
//
// A run reads prompts beside the passes, one after the other by the same order, as far as they leave
// rows: what does not fit would take another read of the weights. Where others are writing, a prompt
// is read in pieces. All it adds to their time is its own rows', in pieces of whatever size; but
// every piece is another run, whose weights and passes the prompt waits for, and delays others'
// next token by what it takes. So a piece takes several times what the run would without it, for
// the prompt to take little longer than it would alone, and never more than a bounded time. What
// that is is learned from runs (run_time.h); none is more than twice as large as what was tried of
// late. With nobody else there, as much is read as a run holds.
//
// Time is accounted as start-time fair queueing does it: who has used less, a key for its share, is
// served first, and who
// comes back from doing nothing starts even with those being served, not with credit.
//
// Memory:  an account for each session and key; Choose() allocates nothing once it has been as
//          large.
// Threads: as a vector.
#pragma once

#include <array>
#include <chrono>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "common/base/monotonic_time.h"
#include "common/verification/machine/run_steps.h"
#include "common/verification/machine/run_time.h"

namespace outrider {

// Nodes counted by how likely the text is to pass them: entry i of those with a chance of about
// 2^(-i/2).
using NodesByDoubt = std::array<uint16_t, 20>;

class Scheduler {
 public:
  struct Options {
    uint32_t row_count_max = 1024;     // of all passes of a run, if it takes so many
    uint32_t first_row_count = 64;     // of those, before anything is known of their price
    uint32_t session_row_count = 2;    // of each session, however dear they are
    uint32_t run_row_count_max = 256;  // of a run in all, passes and prompts
    uint32_t prompt_tokens_min = 16;   // of a run, however slow they are
    // Of a piece beside others: it may always take that long, and never longer.
    Duration prompt_time_min = std::chrono::milliseconds(50);
    Duration prompt_time_max = std::chrono::milliseconds(500);
  };

  // What a pass may have of a run.
  enum class Claim : uint8_t {
    kPart,    // its part
    kSpare,   // what nobody else wants, or nothing
    kBeside,  // so, too, where the run takes place without it
  };

  struct Candidate {
    uint64_t session;              // that Open() has been told of
    uint32_t prompt_tokens = 0;    // to be read before it can have a pass
    bool wants_pass = false;       // when those are read
    uint32_t node_count = 0;       // nodes it would like in that pass
    NodesByDoubt by_doubt = {{}};  // of them, from the likeliest on; those left out are the last
    Claim claim = Claim::kPart;
  };

  struct Share {
    size_t candidate = 0;        // index
    uint32_t prompt_tokens = 0;  // of those to be read
    bool has_pass = false;
    uint32_t node_count = 0;
  };

  // What a run takes place beside: others that want nothing now, and may want a pass at any moment;
  // and the tokens that a second more of it delays. 0: nodes are not weighed.
  struct Around {
    uint32_t expected_count = 0;
    double second_price = 0;
  };

  explicit Scheduler(const Options& options);

  // The key's share is the one that was said last.
  void Open(uint64_t session, uint64_t key, uint32_t share = 1);
  void Close(uint64_t session);

  // At least one share when there is something to do. In the order of the candidates.
  void Choose(std::span<const Candidate> candidates, const Around& around,
              std::vector<Share>& shares);

  void Charge(uint64_t session, Duration time);
  // What a run took of so many rows: roots and nodes, and tokens of prompts.
  void LearnRunTime(uint32_t pass_rows, uint32_t prompt_tokens, Duration time) {
    run_time_.Learn(pass_rows + prompt_tokens, time);
    if (prompt_tokens > 0) return;
    pass_time_.Learn(pass_rows, time);
    pass_steps_.Learn(pass_rows, Seconds(time));
  }
  // None: not known yet.
  std::optional<RunTime::Line> run_line() const { return run_time_.line(); }
  // Of runs without prompts: of the hundreds of rows that those have each costs less than one of a few.
  std::optional<RunTime::Line> pass_line() const {
    const std::optional<RunTime::Line> line = pass_time_.line();
    return line ? line : run_line();
  }
  // What a node costs each of so many sessions if all of them have one more than their root.
  double NodeSeconds(uint32_t session_count, const RunTime::Line& line) const;

 private:
  // `used` and `served` are time used as compared with others of the kind; no totals.
  struct KeyAccount {
    uint32_t share = 1;
    Duration used{};    // for a share of 1
    Duration served{};  // what the session had used that was last served of those that had least
    uint32_t session_count = 0;
  };
  struct SessionAccount {
    uint64_t key;
    Duration used{};
  };
  // A candidate in order of precedence: keys that have had least first, then their sessions.
  struct Rank {
    Duration key_used;
    uint64_t key;
    Duration session_used;
    uint64_t session;
    size_t candidate;

    auto operator<=>(const Rank&) const = default;
  };
  // A part of something that is divided.
  struct Part {
    uint32_t wanted;
    uint32_t share = 1;
    uint32_t granted = 0;
  };
  // Ranks of one key.
  struct Group {
    size_t begin;
    size_t end;
  };

  void Order(std::span<const Candidate> candidates);
  uint32_t PassRowsMax(size_t candidate_count) const;
  bool HasPass(const Candidate& candidate, const Rank& rank, Claim claim) const;
  // Of those that have their part of a run: roots, and nodes by their doubt.
  struct Parts {
    uint32_t roots = 0;
    std::array<uint32_t, NodesByDoubt().size()> by_doubt = {};
  };
  Parts PartsOf(std::span<const Candidate> candidates) const;
  std::optional<uint32_t> RowsWorth(std::span<const Candidate> candidates,
                                    double second_price) const;
  uint32_t RowsReady(std::span<const Candidate> candidates) const;
  uint32_t PieceBesideOthers(uint32_t pass_rows) const;
  void SharePrompts(std::span<const Candidate> candidates, bool beside_others);
  // To the passes of that claim; returns what is left.
  uint32_t ShareRows(std::span<const Candidate> candidates, Claim claim, uint32_t rows);
  bool TakesPlace() const;
  void ShareRowsOfKey(std::span<const Candidate> candidates, std::span<Rank* const> ranks,
                      uint32_t rows);
  static uint32_t Divide(uint32_t total, std::span<Part> parts);

  const Options options_;
  absl::flat_hash_map<uint64_t, KeyAccount> keys_;
  absl::flat_hash_map<uint64_t, SessionAccount> sessions_;
  Duration served_{};  // what the key had used that was last served of those that had least
  RunTime run_time_;
  RunTime pass_time_;    // without prompts
  RunSteps pass_steps_;  // likewise

  // Working memory of Choose().
  std::vector<Rank> ranks_;
  std::vector<Share> shares_;   // by candidate
  std::vector<Rank*> passing_;  // ranks whose pass is being given rows
  std::vector<Group> groups_;   // of passing_
  std::vector<Part> key_parts_;
  std::vector<Part> parts_;
};

}  // namespace outrider
