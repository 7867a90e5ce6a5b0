#include "common/model/weights/model_notices.h"

#include <utility>

#include "common/model/weights/type_speed.h"

namespace outrider {

std::vector<std::string> ModelNotices(const ModelFile& model, const std::string& path) {
  std::vector<std::string> notices = model.Notices();
  std::string slow = SlowTypesNotice(model, path);
  if (!slow.empty()) notices.push_back(std::move(slow));
  return notices;
}

}  // namespace outrider
