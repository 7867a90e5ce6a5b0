#include "common/formats/models/hyperparameters_rules.h"

#include <array>
#include <cmath>
#include <limits>

#include "common/base/check.h"
#include "common/base/portable_math.h"
#include "common/base/status.h"

namespace outrider {
namespace {

constexpr std::array kArchitectures = {
    Architecture::kLlama,    Architecture::kQwen2, Architecture::kQwen3,
    Architecture::kQwen3Moe, Architecture::kOlmoe, Architecture::kGpt2,
    Architecture::kT5,       Architecture::kBart,  Architecture::kSwitch,
};

absl::Status CheckHeads(const Hyperparameters& model, const HyperparameterKeys& keys,
                        const std::string& name) {
  OUTRIDER_CHECK(model.head_count.size() == model.total_block_count() &&
                     model.head_count_kv.size() == model.total_block_count(),
                 "readers fill in one head count per block");
  for (size_t block = 0; block < model.head_count.size(); ++block) {
    if (model.head_count[block] % model.head_count_kv[block] != 0) {
      return InvalidArgument(name, ": ", keys.head_count, " is ", model.head_count[block],
                             " in block ", block, ", no multiple of ", keys.head_count_kv, ", ",
                             model.head_count_kv[block]);
    }
  }
  return absl::OkStatus();
}

absl::Status CheckRope(const Hyperparameters& model, const HyperparameterKeys& keys,
                       const std::string& name) {
  const Rope& rope = model.rope;
  if (rope.style == RopeStyle::kNone) return absl::OkStatus();
  if (rope.dimension_count % 2 != 0) {
    return InvalidArgument(name, ": ", keys.rope_dimension_count, " is ", rope.dimension_count,
                           ", but positions turn pairs of dimensions");
  }
  if (rope.dimension_count > model.key_length) {
    return InvalidArgument(name, ": ", keys.rope_dimension_count, " is ", rope.dimension_count,
                           ", more than a key's ", model.key_length);
  }
  if (rope.style == RopeStyle::kInterleaved && rope.dimension_count != model.key_length) {
    return InvalidArgument(name, ": ", keys.rope_dimension_count, " is ", rope.dimension_count,
                           ", but ", Name(model.architecture), " turns all ", model.key_length,
                           " dimensions of a key");
  }
  return absl::OkStatus();
}

absl::Status CheckExperts(const Hyperparameters& model, const HyperparameterKeys& keys,
                          const std::string& name) {
  if (model.experts.count == 0) return absl::OkStatus();
  if (model.experts.used_count > model.experts.count) {
    return InvalidArgument(name, ": ", keys.expert_used_count, " is ", model.experts.used_count,
                           ", more than ", keys.expert_count, ", ", model.experts.count);
  }
  OUTRIDER_CHECK(model.experts.blocks.size() == model.total_block_count(),
                 "readers say of every block whether it has experts");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Architecture> ArchitectureFromName(std::string_view name, const std::string& file) {
  std::string supported;
  for (const Architecture architecture : kArchitectures) {
    if (Name(architecture) == name) return architecture;
    supported += Concat(supported.empty() ? "" : ", ", Name(architecture));
  }
  return Unimplemented(file, ": architecture \"", name,
                       "\" is not supported; these are: ", supported);
}

Hyperparameters ArchitectureDefaults(Architecture architecture) {
  Hyperparameters model;
  model.architecture = architecture;
  switch (architecture) {
    case Architecture::kLlama:
      model.rope.style = RopeStyle::kInterleaved;
      model.experts.renormalize = true;  // Mixtral
      break;
    case Architecture::kQwen3Moe:
      model.experts.renormalize = true;
      [[fallthrough]];
    case Architecture::kQwen2:
    case Architecture::kQwen3:
    case Architecture::kOlmoe:
      model.rope.style = RopeStyle::kHalves;
      break;
    case Architecture::kGpt2:
      model.norm = NormKind::kLayer;
      model.activation = Activation::kGeluTanh;
      model.gated = false;
      break;
    case Architecture::kBart:
      model.norm = NormKind::kLayer;
      model.activation = Activation::kGeluErf;
      model.gated = false;
      break;
    case Architecture::kT5:  // the first T5; its successors are gated and say so
    case Architecture::kSwitch:
      model.activation = Activation::kRelu;
      model.gated = false;
      break;
  }
  return model;
}

float YarnAttentionFactor(float factor) {
  return factor <= 1.0f ? 1.0f : static_cast<float>(0.1 * portable::Log(double{factor}) + 1.0);
}

float TiedT5OutputScale(uint32_t embedding_length) {
  return static_cast<float>(1.0 / std::sqrt(static_cast<double>(embedding_length)));
}

bool IsPositiveFloat(double number) {
  return number >= std::numeric_limits<float>::denorm_min() &&
         number <= std::numeric_limits<float>::max();
}

absl::Status CheckHyperparameters(const Hyperparameters& hyperparameters,
                                  const HyperparameterKeys& keys, const std::string& name) {
  OUTRIDER_RETURN_IF_ERROR(CheckHeads(hyperparameters, keys, name));
  OUTRIDER_RETURN_IF_ERROR(CheckRope(hyperparameters, keys, name));
  OUTRIDER_RETURN_IF_ERROR(CheckExperts(hyperparameters, keys, name));
  // Half the encoder's buckets are for keys behind the query, and half of those for exact
  // distances.
  if (hyperparameters.relative_buckets % 4 != 0) {
    return InvalidArgument(name, ": ", keys.relative_buckets, " is ",
                           hyperparameters.relative_buckets, ", no multiple of 4");
  }
  if (hyperparameters.relative_buckets > 0 &&
      hyperparameters.relative_max_distance <= hyperparameters.relative_buckets / 2) {
    return InvalidArgument(name, ": the largest relative distance, ",
                           hyperparameters.relative_max_distance, ", must exceed half of ",
                           keys.relative_buckets, ", ", hyperparameters.relative_buckets);
  }
  return absl::OkStatus();
}

}  // namespace outrider
