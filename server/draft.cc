#include "server/draft.h"

#include <utility>

#include "common/base/status.h"
#include "common/engine/cpu_engine.h"
#include "common/formats/models/model_file.h"
#include "common/model/model_spec.h"
#include "common/model/weights/resident_weights.h"
#include "common/speculation/drafting/lm_drafter.h"
#include "common/text/fingerprint.h"
#include "common/text/tokenizer_source.h"
#include "common/verification/machine/draft_here.h"
#include "server/model_log.h"

namespace outrider {
namespace {

constexpr uint32_t kRows = 64;  // of one run: nodes, and a prompt's chunk

}  // namespace

absl::StatusOr<std::unique_ptr<ServerDraft>> ServerDraft::Load(const std::string& path,
                                                               const Tokenizer& target,
                                                               uint32_t session_count,
                                                               const Kernels& kernels,
                                                               ThreadPool& pool, EventLog& log) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<Tokenizer> tokenizer, OpenTokenizer(path));
  if (tokenizer->fingerprint() != target.fingerprint()) {
    return FailedPrecondition(path, ": its tokenizer has fingerprint ",
                              FingerprintDigits(tokenizer->fingerprint()), " and the target's ",
                              FingerprintDigits(target.fingerprint()),
                              "; take a draft of the same family");
  }
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<ModelFile> model, ModelFile::Open(path));
  SayNotices(*model, path, log);
  OUTRIDER_ASSIGN_OR_RETURN(const ModelSpec spec, ModelSpec::From(*model, path));
  OUTRIDER_ASSIGN_OR_RETURN(std::shared_ptr<ResidentWeights> weights,
                            ResidentWeights::Load(*model, spec, path, pool, nullptr));
  const EngineOptions options = {.sequence_count_max = session_count,
                                 .node_count_max = DraftHere::kChain,
                                 .row_count_max = kRows};
  OUTRIDER_ASSIGN_OR_RETURN(
      std::unique_ptr<CpuEngine> engine,
      CpuEngine::Create(spec, weights, weights->content_hash(), options, kernels, pool));
  return std::unique_ptr<ServerDraft>(new ServerDraft(std::move(engine)));
}

DraftRunner::NewDrafter ServerDraft::NewDrafter() const {
  return [this](const Chooser& chooser) -> absl::StatusOr<std::unique_ptr<Drafter>> {
    return LmDrafter::Create(*engine_, chooser);
  };
}

}  // namespace outrider
