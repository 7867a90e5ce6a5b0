// What whoever runs a model is to hear of it once, before it runs: how its files were taken where they
// say too little or too much, and which of its types are slow.
#pragma once

#include <string>
#include <vector>

#include "common/formats/models/model_file.h"

namespace outrider {

// A sentence each, for a log or a terminal. `path` is the model's.
std::vector<std::string> ModelNotices(const ModelFile& model, const std::string& path);

}  // namespace outrider
