// GPT-2's tokenization and that of its descendants: text is cut by a pre-tokeniser, and each piece
// starts as its bytes.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "common/text/text_model.h"

namespace outrider {

// `spec` must outlive the model. A byte that is no token becomes the unknown token; without one it
// is dropped.
absl::StatusOr<std::unique_ptr<TextModel>> CreateByteLevelBpe(const TokenizerSpec& spec);

}  // namespace outrider
