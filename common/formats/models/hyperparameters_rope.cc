// The rope of a decoder's config.json, in all of the spellings that transformers has had for it.
#include <cstdint>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/formats/models/hyperparameters.h"
#include "common/formats/models/hyperparameters_config_keys.h"
#include "common/formats/models/hyperparameters_config_parts.h"
#include "common/formats/models/hyperparameters_gguf_names.h"
#include "common/formats/models/hyperparameters_rules.h"
#include "common/formats/models/json_section.h"

namespace outrider {
namespace {

// What a dictionary of scaling leaves to the keys beside it.
struct RopeSurroundings {
  const Section& config;
  Architecture architecture;
  uint32_t context_length;
  uint32_t key_length;
  bool may_turn_part;
};

absl::Status ReadPartTurned(const Section& section, const RopeSurroundings& around, float fallback,
                            Rope& rope) {
  constexpr const char* kKey = "partial_rotary_factor";
  OUTRIDER_ASSIGN_OR_RETURN(const float part, section.PositiveOr(kKey, fallback));
  if (part > 1.0f) return section.Invalid(kKey, " is ", part, ", more than all of a head");
  if (part != 1.0f && !around.may_turn_part) {
    return section.Unsupported(kKey, " is ", part, ", but only whole heads can be turned");
  }
  // As transformers rounds it: down.
  rope.dimension_count = static_cast<uint32_t>(static_cast<float>(around.key_length) * part);
  if (rope.dimension_count == 0) return section.Invalid(kKey, " is ", part, ": nothing would turn");
  return absl::OkStatus();
}

absl::Status ReadLongFactors(const Section& scaling, const char* key, uint32_t count,
                             std::vector<float>& factors) {
  const Json* const values = scaling.Find(key);
  if (values == nullptr) return scaling.Missing(key);
  if (!values->is_array() || values->size() != count) {
    return scaling.Invalid(key, " must list ", count, " numbers, one for each pair that turns");
  }
  for (const Json& value : *values) {
    if (!value.is_number() || !IsPositiveFloat(value.get<double>())) {
      return scaling.Invalid(key, " lists what is no finite number above zero");
    }
    factors.push_back(value.get<float>());
  }
  return absl::OkStatus();
}

absl::Status ReadLongRope(const Section& scaling, const RopeSurroundings& around, Rope& rope) {
  rope.scaling = RopeScaling::kLongRope;
  constexpr const char* kOriginal = "original_max_position_embeddings";
  const Section& from = scaling.Has(kOriginal) ? scaling : around.config;
  OUTRIDER_ASSIGN_OR_RETURN(rope.original_context_length, from.Count(kOriginal, kMaxContext));
  const uint32_t pairs = rope.dimension_count / 2;
  OUTRIDER_RETURN_IF_ERROR(ReadLongFactors(scaling, "short_factor", pairs, rope.short_factors));
  OUTRIDER_RETURN_IF_ERROR(ReadLongFactors(scaling, "long_factor", pairs, rope.long_factors));
  for (const char* key : {"short_mscale", "long_mscale"}) {
    if (scaling.Has(key)) return scaling.Unsupported(key, " of longrope scaling is not supported");
  }
  double factor = static_cast<double>(around.context_length) / rope.original_context_length;
  if (scaling.Has("factor")) {
    OUTRIDER_ASSIGN_OR_RETURN(factor, scaling.Positive("factor"));
  }
  OUTRIDER_ASSIGN_OR_RETURN(
      rope.attention_factor,
      scaling.PositiveOr("attention_factor",
                         LongRopeAttentionFactor(factor, rope.original_context_length)));
  return absl::OkStatus();
}

absl::Status ReadLlama3(const Section& scaling, Rope& rope) {
  rope.scaling = RopeScaling::kLlama3;
  OUTRIDER_ASSIGN_OR_RETURN(rope.factor, scaling.Positive("factor"));
  OUTRIDER_ASSIGN_OR_RETURN(rope.low_frequency_factor, scaling.Positive("low_freq_factor"));
  OUTRIDER_ASSIGN_OR_RETURN(rope.high_frequency_factor, scaling.Positive("high_freq_factor"));
  OUTRIDER_ASSIGN_OR_RETURN(rope.original_context_length,
                            scaling.Count("original_max_position_embeddings", kMaxContext));
  if (rope.high_frequency_factor <= rope.low_frequency_factor) {
    return scaling.Invalid("high_freq_factor", " is ", rope.high_frequency_factor,
                           ", must exceed low_freq_factor, ", rope.low_frequency_factor);
  }
  return absl::OkStatus();
}

// What cosines and sines are multiplied by where no attention_factor is given. Ministral 3 has two
// scales more, and their quotient is 1 where they are the same; 0 is none.
absl::StatusOr<float> ReadYarnScales(const Section& scaling, const Rope& rope) {
  OUTRIDER_ASSIGN_OR_RETURN(const float scale, scaling.PositiveOrZero("mscale"));
  OUTRIDER_ASSIGN_OR_RETURN(const float scale_of_all, scaling.PositiveOrZero("mscale_all_dim"));
  if (scale == 0 || scale_of_all == 0) return YarnAttentionFactor(rope.factor);
  if (scale == scale_of_all) return 1.0f;
  return scaling.Unsupported("mscale", " is ", scale, " and ", scaling.Name("mscale_all_dim"), " ",
                             scale_of_all, "; yarn scaling is supported with both the same");
}

absl::Status ReadYarn(const Section& scaling, const RopeSurroundings& around, Rope& rope) {
  rope.scaling = RopeScaling::kYarn;
  for (const char* key : {"mscale", "mscale_all_dim"}) {
    if (scaling.Has(key) && around.architecture != Architecture::kMistral3) {
      return scaling.Unsupported(key, " of yarn scaling is not supported");
    }
  }
  // Which of the two it is, GGUF leaves to the architecture: gpt-oss alone blends by parts of one.
  OUTRIDER_ASSIGN_OR_RETURN(const bool whole_dimensions, scaling.FlagOr("truncate", true));
  if (whole_dimensions != rope.yarn_whole_dimensions) {
    return scaling.Unsupported("truncate", whole_dimensions ? " must be false of this family"
                                                            : " = false is not supported");
  }
  OUTRIDER_ASSIGN_OR_RETURN(
      rope.original_context_length,
      scaling.CountOr("original_max_position_embeddings", kMaxContext, around.context_length));
  OUTRIDER_ASSIGN_OR_RETURN(
      rope.factor,
      scaling.PositiveOr("factor", static_cast<float>(around.context_length) /
                                       static_cast<float>(rope.original_context_length)));
  OUTRIDER_ASSIGN_OR_RETURN(const float customary, ReadYarnScales(scaling, rope));
  OUTRIDER_ASSIGN_OR_RETURN(rope.attention_factor,
                            scaling.PositiveOr("attention_factor", customary));
  OUTRIDER_ASSIGN_OR_RETURN(rope.yarn_beta_fast, scaling.PositiveOr("beta_fast", 32.0f));
  OUTRIDER_ASSIGN_OR_RETURN(rope.yarn_beta_slow, scaling.PositiveOr("beta_slow", 1.0f));
  return absl::OkStatus();
}

// transformers 5 keeps everything in rope_parameters; before that there were rope_theta and
// rope_scaling, whose "rope_type" was once "type".
absl::Status ReadRopeScaling(const Section& scaling, const RopeSurroundings& around, Rope& rope) {
  OUTRIDER_RETURN_IF_ERROR(CheckRopeKeys(scaling));
  OUTRIDER_ASSIGN_OR_RETURN(const std::string old_type, scaling.TextOr("type", "default"));
  OUTRIDER_ASSIGN_OR_RETURN(const std::string type, scaling.TextOr("rope_type", old_type));
  OUTRIDER_ASSIGN_OR_RETURN(rope.base, scaling.PositiveOr("rope_theta", rope.base));
  if (scaling.Has("partial_rotary_factor")) {
    OUTRIDER_RETURN_IF_ERROR(ReadPartTurned(scaling, around, 1.0f, rope));
  }
  if (type == "default") return absl::OkStatus();
  if (type == "linear") {
    rope.scaling = RopeScaling::kLinear;
    OUTRIDER_ASSIGN_OR_RETURN(rope.factor, scaling.Positive("factor"));
    return absl::OkStatus();
  }
  if (type == "llama3") return ReadLlama3(scaling, rope);
  // Phi 3's first files call it otherwise.
  const bool has_long_factors = scaling.Has("long_factor");
  if (type == "longrope" || (has_long_factors && (type == "su" || type == "yarn"))) {
    return ReadLongRope(scaling, around, rope);
  }
  if (type == "yarn") return ReadYarn(scaling, around, rope);
  return scaling.Unsupported("rope_type", " is \"", type,
                             "\"; supported are default, linear, yarn, longrope and llama3");
}

// One for all blocks, or one for those with the window and one for the others.
absl::Status ReadRopes(const Section& all, const RopeSurroundings& around, Hyperparameters& model) {
  const Json* const full = all.Find("full_attention");
  if (full == nullptr || !full->is_object()) return ReadRopeScaling(all, around, model.rope);
  Rope window = model.window_rope.value_or(model.rope);
  OUTRIDER_RETURN_IF_ERROR(
      ReadRopeScaling(Section(*full, all.file(), all.Name("full_attention.")), around, model.rope));
  if (const Json* const sliding = all.Find("sliding_attention"); sliding != nullptr) {
    if (!sliding->is_object()) {
      return all.Invalid("sliding_attention", " is ", sliding->type_name(), ", not an object");
    }
    OUTRIDER_RETURN_IF_ERROR(ReadRopeScaling(
        Section(*sliding, all.file(), all.Name("sliding_attention.")), around, window));
  }
  if (model.sliding_window) model.window_rope = window;
  return absl::OkStatus();
}

}  // namespace

absl::Status ReadRope(const Section& config, float part_turned, bool may_turn_part,
                      Hyperparameters& model) {
  const RopeSurroundings around = {config, model.architecture, model.context_length,
                                   model.key_length, may_turn_part};
  OUTRIDER_ASSIGN_OR_RETURN(model.rope.base, config.PositiveOr("rope_theta", model.rope.base));
  OUTRIDER_RETURN_IF_ERROR(ReadPartTurned(config, around, part_turned, model.rope));
  if (model.architecture == Architecture::kGemma3 && model.sliding_window) {
    OUTRIDER_ASSIGN_OR_RETURN(const float base,
                              config.PositiveOr("rope_local_base_freq", kGemma3WindowBase));
    model.window_rope = model.rope;
    model.window_rope->base = base;
  }
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    const Json* scaling = config.Find(key);
    if (scaling == nullptr) continue;
    if (!scaling->is_object()) {
      return config.Invalid(key, " is ", scaling->type_name(), ", not an object");
    }
    OUTRIDER_RETURN_IF_ERROR(
        ReadRopes(Section(*scaling, config.file(), Concat(key, ".")), around, model));
    break;
  }
  if (model.window_rope == model.rope) model.window_rope.reset();
  return absl::OkStatus();
}

}  // namespace outrider
