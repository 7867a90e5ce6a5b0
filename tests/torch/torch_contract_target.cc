#include "common/base/status.h"
#include "common/torch/torch_target.h"
#include "tests/model/contract_target.h"

namespace outrider {

absl::StatusOr<std::unique_ptr<Target>> MakeContractTarget(const std::string& path,
                                                           const TargetLimits& limits,
                                                           ThreadPool&) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<ModelFile> model, ModelFile::Open(path));
  return LoadTorchTarget(*model, path,
                         {.device = "cpu",
                          .thread_count = 1,
                          .context_length = limits.context_length,
                          .sequence_count_max = limits.sequence_count_max,
                          .node_count_max = limits.node_count_max,
                          .row_count_max = limits.row_count_max},
                         nullptr);
}

}  // namespace outrider
