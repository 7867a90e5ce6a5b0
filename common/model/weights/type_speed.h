// Which of a model's matrices have no kernel of their own: they are decoded to floats again for
// every product, which takes tens of times as long as a type that kernels read. It is never done
// without a word.
#pragma once

#include <string>

#include "common/formats/models/model_file.h"

namespace outrider {

// "IQ3_S, IQ2_XS"; empty where all have kernels.
std::string TypesWithoutKernels(const ModelFile& model);

// The word, for a log or a terminal; empty where there is nothing to say.
std::string SlowTypesNotice(const ModelFile& model, const std::string& path);

}  // namespace outrider
