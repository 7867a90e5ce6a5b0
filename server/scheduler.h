// Who goes into the target's next run, and with how much.
//
//   scheduler.Choose(candidates, shares);      // all sessions that could use the target now
//   ... run it ...
//   scheduler.Charge(session, time);           // what its part has cost
//
// Passes of a run share its rows (a root and its drafted nodes take one each): few enough that the
// run costs little more than a single token, since the weights are read once for all of them. Each
// caller's key gets an equal part of the rows, and each session an equal part of its key's; what
// one does not want goes to the others. So R, the nodes of a pass, falls as load rises. When there
// are more sessions than rows, those go that have had the least of the target's time: first the
// key, then the session below it.
//
// Beside the passes a run reads prompts, for a bounded time, so that no pass waits longer than that
// for somebody's long prompt; they go by the same order, one after the other.
//
// Time is accounted as start-time fair queueing does it: who has used less is served first, and who
// comes back from doing nothing starts even with those being served, not with credit.
//
// Memory:  an account for each session and key; Choose() allocates nothing once it has been as
//          large.
// Threads: as a vector.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "common/base/monotonic_time.h"

namespace outrider {

class Scheduler {
 public:
  struct Options {
    uint32_t row_count_max = 64;                               // of all passes of a run
    uint32_t prompt_tokens_max = 512;                          // of a run, however fast they are
    uint32_t prompt_tokens_min = 16;                           // however slow
    Duration prompt_time_max = std::chrono::milliseconds(50);  // of a run
  };

  struct Candidate {
    uint64_t session;        // that Open() has been told of
    uint32_t prompt_tokens;  // to be read before it can have a pass
    bool wants_pass;         // when those are read
    uint32_t node_count;     // nodes it would like in that pass
    bool can_wait;           // the pass may be had for what nobody else wants, or not at all
  };

  struct Share {
    size_t candidate;        // index
    uint32_t prompt_tokens;  // of those to be read
    bool has_pass;
    uint32_t node_count;
  };

  explicit Scheduler(const Options& options);

  void Open(uint64_t session, uint64_t key);
  void Close(uint64_t session);

  // At least one share when there is something to do. In the order of the candidates.
  void Choose(std::span<const Candidate> candidates, std::vector<Share>& shares);

  void Charge(uint64_t session, Duration time);
  // What reading so many prompt tokens took, for the bound on their time.
  void LearnPromptTime(uint32_t tokens, Duration time);

 private:
  // Time used, as compared with others of its kind; not a total.
  struct KeyAccount {
    Duration used{};
    Duration served{};  // of its session that was served last, when it was
    uint32_t session_count = 0;
  };
  struct SessionAccount {
    uint64_t key;
    Duration used{};
  };

  const Options options_;
  absl::flat_hash_map<uint64_t, KeyAccount> keys_;
  absl::flat_hash_map<uint64_t, SessionAccount> sessions_;
  Duration served_{};         // of the key that was served last, when it was
  double token_seconds_ = 0;  // of a prompt's token; 0: not known yet
};

}  // namespace outrider
