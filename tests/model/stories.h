// The small real model of tests/data/models/stories260k as a GGUF file, and a copy of it with noise
// on its weights. Only for programs with outrider_uses_stories() (tests/tools/CMakeLists.txt).
#pragma once

#include <string>

namespace outrider {

inline std::string Stories() {
  return OUTRIDER_STORIES_DIR "/stories.gguf";
}
inline std::string DamagedStories() {
  return OUTRIDER_STORIES_DIR "/damaged_stories.gguf";
}

}  // namespace outrider
