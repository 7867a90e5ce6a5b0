// A draft learns what its target would say, not what the text says next: the whole distribution at
// every token, from text that the target wrote itself.
#pragma once

#include "absl/status/statusor.h"
#include "adapters/text/token_rows.h"
#include "adapters/training/trainer.h"
#include "common/torch/torch_transformer.h"

namespace outrider {

// KL(target || draft) = sum_v p(v) (log p(v) - log q(v)), p the target's distribution and q the
// draft's, both at the temperature that text is to be written at, wherever a row has a target
// token. Both outlive it, have one vocabulary and see rows of their contexts at most. Zero where
// the draft says exactly what the target does. The target stays as it is: what it says of a row is
// kept for later epochs.
Loss DistillationLoss(const TorchTransformer& draft, const TorchTransformer& target,
                      double temperature);

// The share of tokens, of an epoch of `rows`, at which the two name the same token first.
absl::StatusOr<double> FirstChoiceAgreement(const TorchTransformer& draft,
                                            const TorchTransformer& target, TokenRows& rows);

}  // namespace outrider
