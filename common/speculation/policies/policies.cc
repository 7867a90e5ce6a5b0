#include "common/speculation/policies/policies.h"

#include <algorithm>
#include <array>
#include <utility>

#include "common/base/check.h"
#include "common/base/quote.h"
#include "common/base/status.h"
#include "common/speculation/policies/chain_policy.h"
#include "common/speculation/policies/edgellm_policy.h"
#include "common/speculation/policies/fsd_policy.h"
#include "common/speculation/policies/lever_policy.h"
#include "common/speculation/policies/llmcad_policy.h"
#include "common/speculation/policies/ours_policy.h"

namespace outrider {
namespace {

constexpr std::array<std::pair<PolicyKind, std::string_view>, 8> kNames = {{
    {PolicyKind::kChain, "chain"},
    {PolicyKind::kFsd, "fsd"},
    {PolicyKind::kLlmcad, "llmcad"},
    {PolicyKind::kEdgellm, "edgellm"},
    {PolicyKind::kLever, "lever"},
    {PolicyKind::kOurs, "ours"},
    {PolicyKind::kAwaited, "awaited"},
    {PolicyKind::kAuto, "auto"},
}};

}  // namespace

absl::StatusOr<PolicyKind> ParsePolicyKind(std::string_view name) {
  for (const auto& [kind, known] : kNames) {
    if (name == known) return kind;
  }
  return InvalidArgument("there is no tree policy ", Quote(name),
                         "; there are chain, fsd, llmcad, edgellm, lever, ours, awaited and auto");
}

std::string_view PolicyName(PolicyKind kind) {
  const auto at = std::ranges::find(kNames, kind, [](const auto& entry) { return entry.first; });
  OUTRIDER_CHECK(at != kNames.end(), "every kind has a name");
  return at->second;
}

bool SendsDuringPasses(PolicyKind kind) {
  return kind == PolicyKind::kOurs || kind == PolicyKind::kAuto;
}

std::unique_ptr<TreePolicy> MakePolicy(const PolicyOptions& options) {
  switch (options.kind) {
    case PolicyKind::kChain:
      return std::make_unique<ChainPolicy>(options.gamma);
    case PolicyKind::kFsd:
      return std::make_unique<FsdPolicy>(options.gamma);
    case PolicyKind::kLlmcad:
      return std::make_unique<LlmcadPolicy>(options.alpha);
    case PolicyKind::kEdgellm:
      return std::make_unique<EdgellmPolicy>(options.alpha);
    case PolicyKind::kLever:
      return std::make_unique<LeverPolicy>();
    case PolicyKind::kOurs:
      return std::make_unique<OursPolicy>(/*ahead=*/true);
    case PolicyKind::kAwaited:
      return std::make_unique<OursPolicy>(/*ahead=*/false);
    case PolicyKind::kAuto:
      break;
  }
  OUTRIDER_CHECK(false, "what a controller chooses is no policy");
}

}  // namespace outrider
