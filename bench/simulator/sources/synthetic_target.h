// A Target that asks a Text (sources.h) instead of a model, and takes no time at all: how long a
// run would take is its host's to say (host.h).
//
// It is stricter than a model is: a pass has to come with the very history that the sequence has,
// token for token, and a commit with a pass. Whoever gets that wrong is stopped, not told: only our
// own bug can do it.
//
// Its sequences have pages as a model's have, for all of them at their longest.
//
// Memory: a history of `context_length` tokens for each sequence.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "bench/simulator/sources/sources.h"
#include "common/engine/target.h"

namespace outrider {

class SyntheticTarget : public Target {
 public:
  struct Options {
    uint32_t context_length = 8192;
    uint32_t node_count_max = 256;
    uint32_t sequence_count_max = 64;
  };

  // `text` outlives it.
  SyntheticTarget(const Options& options, const Text& text);

  const TargetInfo& info() const override { return info_; }
  absl::StatusOr<SequenceId> CreateSequence() override;
  absl::StatusOr<SequenceId> Fork(SequenceId sequence, uint32_t length) override;
  absl::Status Close(SequenceId sequence) override;
  absl::StatusOr<uint32_t> Truncate(SequenceId sequence, uint32_t length) override;
  absl::StatusOr<uint32_t> Length(SequenceId sequence) const override;
  void Run(std::span<Reading> readings, std::span<const Pass> passes,
           std::span<PassResult> results) override;
  absl::Status Commit(SequenceId sequence, const Outcome& outcome) override;

 private:
  struct Sequence {
    TokenHistory history;
    std::vector<DraftedNode> nodes;  // of the last pass
    bool has_pass = false;           // since the last change
  };

  Sequence& Find(SequenceId sequence) const;
  absl::Status RunOne(const Pass& pass, PassResult& result);

  const TargetInfo info_;
  const Text& text_;
  uint64_t last_id_ = 0;
  absl::flat_hash_map<uint64_t, std::unique_ptr<Sequence>> sequences_;
  std::vector<TokenId> path_;
};

}  // namespace outrider
