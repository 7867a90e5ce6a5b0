// What the log of a server says of a model before it serves.
#pragma once

#include <string>

#include "common/formats/models/model_file.h"
#include "server/operations/event_log.h"

namespace outrider {

// An event for each of its notices (common/model/weights/model_notices.h). `path` is the model's.
void SayNotices(const ModelFile& model, const std::string& path, EventLog& log);

}  // namespace outrider
