// The tree policies there are, by name.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/speculation/policies/tree_policy.h"

namespace outrider {

// kAuto is none of them: a controller chooses among some (control/auto_controller.h).
enum class PolicyKind { kChain, kFsd, kLlmcad, kEdgellm, kLever, kOurs, kAwaited, kAuto };

// All that a user may ask for.
inline constexpr std::array kPolicyKinds = {
    PolicyKind::kChain, PolicyKind::kFsd,  PolicyKind::kLlmcad,  PolicyKind::kEdgellm,
    PolicyKind::kLever, PolicyKind::kOurs, PolicyKind::kAwaited, PolicyKind::kAuto};

struct PolicyOptions {
  PolicyKind kind = PolicyKind::kOurs;
  uint32_t gamma = 4;                // chain and fsd: tokens in a row
  std::optional<double> alpha = {};  // llmcad and edgellm: for good; none: the fallback rule's
};

// "chain", "fsd", "llmcad", "edgellm", "lever", "ours", "awaited", "auto". InvalidArgument, naming
// all of them.
absl::StatusOr<PolicyKind> ParsePolicyKind(std::string_view name);
std::string_view PolicyName(PolicyKind kind);

// Whether it shows the target growth while a pass runs. One that does not has nothing to show a
// target that never waits (Dry::kAlone), since there a pass is always running.
bool SendsDuringPasses(PolicyKind kind);

// Not of kAuto.
std::unique_ptr<TreePolicy> MakePolicy(const PolicyOptions& options);

}  // namespace outrider
