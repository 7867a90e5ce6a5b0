#include "server/model_log.h"

#include "common/model/weights/model_notices.h"

namespace outrider {

void SayNotices(const ModelFile& model, const std::string& path, EventLog& log) {
  for (const std::string& notice : ModelNotices(model, path)) {
    log.Say("notice", {{"file", path}, {"notice", notice}}, notice);
  }
}

}  // namespace outrider
