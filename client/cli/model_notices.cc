#include "client/cli/model_notices.h"

#include <cstdio>
#include <string>

#include "common/formats/models/model_file.h"
#include "common/model/weights/model_notices.h"

namespace outrider {

void TellOfModels(const DeviceOptions& options) {
  for (const std::string& path : {options.model, options.draft.model}) {
    const auto model = ModelFile::Open(path);
    if (!model.ok()) continue;  // at a server, or no model
    for (const std::string& notice : ModelNotices(**model, path)) {
      std::fprintf(stderr, "outrider: %s\n", notice.c_str());
    }
  }
}

}  // namespace outrider
