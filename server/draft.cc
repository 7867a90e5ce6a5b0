#include "server/draft.h"

#include <utility>

#include "common/base/status.h"
#include "common/engine/cpu_engine.h"
#include "common/formats/models/model_file.h"
#include "common/speculation/drafting/lm_drafter.h"
#include "common/text/fingerprint.h"
#include "common/text/tokenizer_source.h"

namespace outrider {
namespace {

constexpr uint32_t kRows = 64;  // of one run: nodes, and a prompt's chunk

// A drafter and what it runs on, which is its own: it comes and goes while another one computes.
class DrafterWithEngine final : public Drafter {
 public:
  DrafterWithEngine(std::unique_ptr<CpuEngine> engine, std::unique_ptr<LmDrafter> drafter)
      : engine_(std::move(engine)), drafter_(std::move(drafter)) {}

  absl::Status Propose(const TokenHistory& committed, std::span<const DraftedNode> nodes,
                       std::span<const Context> contexts, Proposals& proposals,
                       const Cancellation& cancellation) override {
    return drafter_->Propose(committed, nodes, contexts, proposals, cancellation);
  }

 private:
  const std::unique_ptr<CpuEngine> engine_;
  const std::unique_ptr<LmDrafter> drafter_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ServerDraft>> ServerDraft::Load(const std::string& path,
                                                               const Tokenizer& target,
                                                               const Kernels& kernels,
                                                               ThreadPool& pool) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<Tokenizer> tokenizer, OpenTokenizer(path));
  if (tokenizer->fingerprint() != target.fingerprint()) {
    return FailedPrecondition(path, ": its tokenizer has fingerprint ",
                              FingerprintDigits(tokenizer->fingerprint()), " and the target's ",
                              FingerprintDigits(target.fingerprint()),
                              "; take a draft of the same family");
  }
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<ModelFile> model, ModelFile::Open(path));
  OUTRIDER_ASSIGN_OR_RETURN(const ModelSpec spec, ModelSpec::From(*model, path));
  OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<ResidentWeights> weights,
                            ResidentWeights::Load(*model, spec, path, pool, nullptr));
  return std::unique_ptr<ServerDraft>(new ServerDraft(spec, std::move(weights), kernels, pool));
}

Generation::NewDrafter ServerDraft::NewDrafter() const {
  return [this](const Chooser& chooser) -> absl::StatusOr<std::unique_ptr<Drafter>> {
    OUTRIDER_ASSIGN_OR_RETURN(
        std::unique_ptr<CpuEngine> engine,
        CpuEngine::Create(spec_, weights_, weights_->content_hash(),
                          {.node_count_max = Generation::kChain, .row_count_max = kRows}, kernels_,
                          pool_));
    OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<LmDrafter> drafter,
                              LmDrafter::Create(*engine, chooser));
    return std::make_unique<DrafterWithEngine>(std::move(engine), std::move(drafter));
  };
}

}  // namespace outrider
