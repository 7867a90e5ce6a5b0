// What a user may do with a file that somebody else made or spoilt: open it, have it inspected, and
// run three tokens, with the tokenizer it brings and the exits that lie beside it.
//
// However it goes, it goes with a sentence, in two seconds of the processor's time and a gigabyte.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/engine/cpu_engine.h"
#include "common/formats/models/model_file.h"

namespace outrider {

// A folder of this process's own, in memory where there is such a file system. `name`: of who asks.
std::string TrialFolder(const std::string& name);

// Large enough for three tokens after three.
absl::StatusOr<std::unique_ptr<CpuEngine>> LoadForTrial(const ModelFile& model,
                                                        const std::string& path);

// At the end the process says on standard error what became of how many.
void TryModel(const std::string& path);

}  // namespace outrider
