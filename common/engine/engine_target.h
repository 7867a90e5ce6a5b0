// A target over any engine: readings and passes become runs.
//
//   OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<Engine> engine, LoadCpuEngine(...));
//   OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<EngineTarget> target,
//                             EngineTarget::Create(std::move(engine)));
//
// A sequence's committed tokens but for the root are the engine's cells. A call's readings and
// passes are cut into as few runs as the engine has rows for: of a reading any piece may be a run's,
// a pass's root and nodes stand together. A pass's chain is what of its sequence is not computed,
// the root last; it stays uncommitted until the outcome is, since another pass over the same root
// would need the root's logits again.
//
// Memory:  tokens and nodes of `sequence_count_max` sequences; the rest is the engine's.
// Threads: as Target says. Whoever else uses the engine (a drafter on it) takes turns with it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/engine/engine.h"
#include "common/engine/sequence_table.h"
#include "common/engine/target.h"
#include "common/engine/target_rules.h"

namespace outrider {

class EngineTarget final : public Target, private ExitSink {
 public:
  // InvalidArgument when the engine's largest tree and a root do not fit into one of its runs.
  static absl::StatusOr<std::unique_ptr<EngineTarget>> Create(std::unique_ptr<Engine> engine);

  Engine& engine() { return *engine_; }

  const TargetInfo& info() const override { return info_; }
  absl::StatusOr<SequenceId> CreateSequence() override;
  absl::StatusOr<SequenceId> Fork(SequenceId sequence, uint32_t length) override;
  absl::Status Close(SequenceId sequence) override;
  absl::StatusOr<uint32_t> Truncate(SequenceId sequence, uint32_t length) override;
  absl::StatusOr<uint32_t> Length(SequenceId sequence) const override;
  void Run(std::span<Reading> readings, std::span<const Pass> passes,
           std::span<PassResult> results) override;
  absl::Status Commit(SequenceId sequence, const Outcome& outcome) override;

  void HearExits(ExitSink* sink) override { sink_ = sink; }
  void SwitchExit(uint32_t exit, bool on) override { engine_->SwitchExit(exit, on); }
  std::optional<DeviceWork> CollectDeviceWork() override { return engine_->CollectDeviceWork(); }

  // As Engine::AttachExits(); whoever hears them (HearExits) is told of passes.
  absl::Status AttachExits(const TrainedExits& exits, const std::string& path,
                           const ExitOptions& options);

 private:
  struct Sequence : TargetSequence {
    using TargetSequence::TargetSequence;

    uint64_t id = 0;  // 0: nobody's
    SequenceId cells{};
    uint32_t chain_count = 0;  // of the last pass's chain, which is not committed
    size_t work = 0;           // of the present call
  };

  // What a call has for one sequence.
  struct Work {
    Sequence* sequence;
    Reading* reading;    // null: none
    const Pass* pass;    // null: none
    PassResult* result;  // of the pass
    size_t pass_index;
    size_t length_before;  // tokens, before the reading
  };

  // What a run has of it: some of the chain, and the pass or not yet.
  struct Piece {
    const Work* work;
    uint32_t chain_count;
    bool has_pass;
  };

  explicit EngineTarget(std::unique_ptr<Engine> engine);

  absl::StatusOr<Sequence*> Find(SequenceId id) const;
  uint32_t Uncomputed(const Sequence& sequence) const;
  void CommitRead(Sequence& sequence);

  absl::Status Admit(Reading& reading);
  absl::Status Admit(const Pass& pass, PassResult& result, size_t index);
  void Schedule(const Work& work);
  void AddPiece(const Work& work, uint32_t chain_count, bool has_pass);
  absl::Status RunPieces();
  void Conclude(const Piece& piece, const TreeWalk* walk);
  void Undo(const Work& work, const absl::Status& status);

  void OnGuess(const ExitGuess& guess) override;
  void OnExitTime(uint32_t exit, Duration time) override {
    if (sink_ != nullptr) sink_->OnExitTime(exit, time);  // else nothing is guessed, but pruned
  }

  const std::unique_ptr<Engine> engine_;
  TargetInfo info_;
  TargetRules rules_;
  SequenceTable<Sequence> sequences_;
  ExitSink* sink_ = nullptr;  // null: nobody hears what exits guess

  // Of the present call of Run().
  std::vector<Work> works_;

  // Of the run being put together.
  uint32_t row_count_ = 0;
  std::vector<Piece> pieces_;
  std::vector<RunPart> parts_;     // of the pieces
  std::vector<EngineNode> nodes_;  // of the parts
  std::vector<TreeWalk> walks_;
  std::vector<size_t> walk_passes_;  // by walk: which of the call's passes
};

}  // namespace outrider
