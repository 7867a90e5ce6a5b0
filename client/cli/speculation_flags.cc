#include "client/cli/speculation_flags.h"

#include <algorithm>
#include <map>
#include <utility>

#include "CLI/CLI.hpp"
#include "common/base/status.h"
#include "common/formats/models/model_file.h"
#include "common/model/model_spec.h"
#include "common/speculation/lm_drafter.h"
#include "common/speculation/ngram_drafter.h"
#include "common/speculation/policies.h"
#include "common/text/fingerprint.h"
#include "common/text/tokenizer_source.h"
#include "common/tokens/chooser.h"

namespace outrider {
namespace {

const std::map<std::string, v1::DryPolicy>& DryPolicies() {
  static const auto& policies =
      *new std::map<std::string, v1::DryPolicy>{{"adaptive", v1::DRY_POLICY_ADAPTIVE},
                                                {"wait", v1::DRY_POLICY_WAIT},
                                                {"alone", v1::DRY_POLICY_ALONE}};
  return policies;
}

std::string CheckPolicy(const std::string& name) {
  const auto kind = ParsePolicyKind(name);
  return kind.ok() ? std::string() : std::string(Message(kind.status()));
}

}  // namespace

void AddSpeculationFlags(CLI::App& command, SpeculationFlags& flags, CLI::Option& server) {
  CLI::Option* const draft =
      command
          .add_option("--draft", flags.draft,
                      "What guesses ahead on this machine: a small model of the target's family; "
                      "or ngram, which needs no model and says again what the text has said before")
          ->envname("OUTRIDER_DRAFT");
  server.needs(draft);
  command
      .add_option("--policy", flags.policy,
                  "How the draft is grown: chain, fsd, llmcad, edgellm, lever, awaited, ours; "
                  "or auto, by what is measured")
      ->check(CheckPolicy)
      ->capture_default_str()
      ->envname("OUTRIDER_POLICY");
  command
      .add_option("--spec-gamma", flags.gamma, "Policies chain and fsd: tokens drafted in a row")
      ->check(CLI::Range(1, 64))
      ->capture_default_str()
      ->envname("OUTRIDER_SPEC_GAMMA");
  command
      .add_option("--spec-pass-nodes", flags.pass_nodes,
                  "Drafted tokens that one pass of the target checks, at the most")
      ->check(CLI::Range(1, 255))
      ->capture_default_str()
      ->envname("OUTRIDER_SPEC_PASS_NODES");
  command
      .add_option("--spec-sketch-nodes", flags.sketch_nodes,
                  "Drafted tokens that are kept at a time, at the most")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str()
      ->envname("OUTRIDER_SPEC_SKETCH_NODES");
  command
      .add_option("--spec-dry", flags.dry,
                  "What the target does when nothing is drafted: wait, go on alone (policy ours), "
                  "or adaptive; policy auto chooses itself")
      ->check(CLI::IsMember({"adaptive", "wait", "alone"}))
      ->capture_default_str()
      ->envname("OUTRIDER_SPEC_DRY");
}

absl::Status CheckSpeculation(const SpeculationFlags& flags) {
  OUTRIDER_ASSIGN_OR_RETURN(const PolicyKind kind, ParsePolicyKind(flags.policy));
  if (!flags.drafts() || flags.dry == "adaptive") return absl::OkStatus();
  if (kind == PolicyKind::kAuto) {
    return InvalidArgument("--spec-dry ", flags.dry,
                           ": policy auto chooses what the target does when nothing is drafted; "
                           "take another --policy, such as ours, or leave it to auto");
  }
  if (flags.dry != "alone" || SendsDuringPasses(kind)) return absl::OkStatus();
  return InvalidArgument("--spec-dry alone: policy ", flags.policy,
                         " sends its draft between two passes, and a target that never waits is "
                         "always in one; take --policy ours, or --spec-dry wait");
}

absl::StatusOr<std::unique_ptr<TreePolicy>> MakePolicy(const SpeculationFlags& flags) {
  OUTRIDER_ASSIGN_OR_RETURN(const PolicyKind kind, ParsePolicyKind(flags.policy));
  return MakePolicy(PolicyOptions{.kind = kind, .gamma = flags.gamma});
}

void SetSession(const SpeculationFlags& flags, SessionOptions& options) {
  options.dry_policy = DryPolicies().at(flags.dry);
  options.sketch.node_count_max = flags.sketch_nodes;
  options.sketch.pass_node_count_max = flags.pass_nodes;
}

absl::Status CheckFamily(const SpeculationFlags& flags, const Tokenizer& target) {
  if (!flags.draft_is_model()) return absl::OkStatus();
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<Tokenizer> tokenizer, OpenTokenizer(flags.draft));
  if (tokenizer->fingerprint() == target.fingerprint()) return absl::OkStatus();
  return FailedPrecondition(flags.draft, ": its tokenizer has fingerprint ",
                            FingerprintDigits(tokenizer->fingerprint()), " and the target's ",
                            FingerprintDigits(target.fingerprint()),
                            "; take a draft of the same family");
}

std::unique_ptr<Draft> Draft::OfText(const Tokenizer& tokenizer, uint32_t context) {
  std::unique_ptr<Draft> draft(new Draft());
  draft->vocabulary_size_ = tokenizer.vocabulary_size();
  draft->drafter_ = std::make_unique<NgramDrafter>(context);
  return draft;
}

absl::StatusOr<std::unique_ptr<Draft>> Draft::Load(const SpeculationFlags& flags,
                                                   const SamplingOptions& sampling,
                                                   uint32_t context, const Kernels& kernels,
                                                   ThreadPool& pool) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<ModelFile> model, ModelFile::Open(flags.draft));
  OUTRIDER_ASSIGN_OR_RETURN(const ModelSpec spec, ModelSpec::From(*model, flags.draft));
  std::unique_ptr<Draft> draft(new Draft());
  OUTRIDER_ASSIGN_OR_RETURN(draft->weights_,
                            ResidentWeights::Load(*model, spec, flags.draft, pool, nullptr));
  draft->vocabulary_size_ = static_cast<int32_t>(spec.vocabulary_size);
  OUTRIDER_ASSIGN_OR_RETURN(const Chooser chooser,
                            Chooser::Create(sampling, draft->vocabulary_size_));
  OUTRIDER_ASSIGN_OR_RETURN(
      draft->drafter_, LmDrafter::Create(spec, *draft->weights_, chooser,
                                         {.context_length = std::min(context, spec.context_length),
                                          .node_count_max = flags.sketch_nodes},
                                         kernels, pool));
  return draft;
}

}  // namespace outrider
