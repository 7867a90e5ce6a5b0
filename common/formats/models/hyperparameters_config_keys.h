// Which keys a config.json may have: those that are read, those that say nothing of arithmetic, and of
// others those whose value says that nothing is computed otherwise. Private to this room.
#pragma once

#include <string_view>

#include "absl/status/status.h"
#include "common/formats/models/json_section.h"

namespace outrider {

// Unimplemented, naming file and key, for one that is none of these, or is unknown. `config` is of a
// model of this type, or the decoder's part of one.
absl::Status CheckConfigKeys(const Section& config, std::string_view model_type);

// Likewise the keys around the decoder's part, of models that look at images.
absl::Status CheckSeeingKeys(const Section& config);

// And those of rope_scaling and rope_parameters, of any type.
absl::Status CheckRopeKeys(const Section& rope);

}  // namespace outrider
