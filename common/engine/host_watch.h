// Who looks between the layers of an engine that computes on a device: the states of all rows come
// to the host where somebody asks for them, and exits guess there.
//
//   watch.BeginRun(run);
//   ... after a layer:  if (watch.Wants(layer)) watch.See(layer, states);
//
// Memory:  for exits, once some have been attached: the model's weights on the host, loaded again,
//          since the head is what they score with.
// Threads: the engine's.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/base/thread_pool.h"
#include "common/engine/engine.h"
#include "common/engine/exit_heads.h"
#include "common/formats/models/exits_file.h"
#include "common/kernels/kernels.h"
#include "common/model/model_spec.h"
#include "common/model/weights/resident_weights.h"

namespace outrider {

// Where an engine's weights came from, and who computes on the host.
struct HostSource {
  std::string path;
  const Kernels& kernels;
  ThreadPool& pool;
};

class HostWatch {
 public:
  // Of an engine, whose spec and info outlive it.
  HostWatch(const ModelSpec& spec, const EngineInfo& info, HostSource source);

  // As Engine's.
  absl::Status AttachExits(const TrainedExits& exits, const std::string& path,
                           const ExitOptions& options, ExitSink& sink);
  void DetachExits() { exits_.reset(); }
  void SwitchExit(uint32_t exit, bool on);

  // The run outlives what is seen of it.
  void BeginRun(const EngineRun& run);
  bool Wants(uint32_t layer) const;
  // [rows of the run, embedding], after that layer.
  void See(uint32_t layer, std::span<const float> states);

 private:
  bool ExitsLook(uint32_t layer) const;

  const ModelSpec& spec_;
  const EngineInfo& info_;
  const HostSource source_;
  std::unique_ptr<ResidentWeights> weights_;  // whose head exits_ use
  std::unique_ptr<ExitHeads> exits_;          // null: none are attached
  std::vector<uint32_t> rows_;                // 0, 1, 2, ...
  std::unique_ptr<bool[]> dropped_;           // by row: nobody asks for that here
  const EngineRun* run_ = nullptr;
};

}  // namespace outrider
