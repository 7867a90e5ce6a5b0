// What readers of config.json do alike, and those of parts of it: decoders
// (hyperparameters_decoders.cc) and their rope (hyperparameters_rope.cc). Private to this
// room.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/formats/models/hyperparameters.h"
#include "common/formats/models/json_section.h"

namespace outrider {

absl::StatusOr<Activation> ActivationFromName(const Section& config, const char* key,
                                              std::string_view name);
absl::Status ReadActivation(const Section& config, const char* key, const char* fallback,
                            Hyperparameters& model);

// The same heads in every block.
void FillHeads(Hyperparameters& model, uint32_t heads, uint32_t heads_kv);

// The embedding shared out among the heads, for models that do not give a head's length.
absl::StatusOr<uint32_t> SharedHeadLength(const Section& config, const char* embedding_key,
                                          const char* heads_key, uint32_t embedding,
                                          uint32_t heads);

// num_local_experts or num_experts: transformers 5 writes either, whichever the model had first.
absl::StatusOr<uint32_t> ExpertCount(const Section& config);

// The rope, and that of blocks with a window where it is another. The model has its architecture,
// context, heads and windows already, and the base that a file need not say. Of a head
// `part_turned` turns where no key says it, and it may be less than all where `may_turn_part`.
absl::Status ReadRope(const Section& config, float part_turned, bool may_turn_part,
                      Hyperparameters& model);

// A decoder with rope, of any family; nothing where `model_type` is none of theirs, which
// DecoderTypes() lists ("llama, mistral, ").
absl::StatusOr<std::optional<Hyperparameters>> ReadDecoder(const Section& config,
                                                           std::string_view model_type);
std::string DecoderTypes();

}  // namespace outrider
