#include "common/formats/models/hyperparameters.h"

#include "common/base/check.h"

namespace outrider {

std::string_view Name(Architecture architecture) {
  switch (architecture) {
    case Architecture::kLlama:
      return "llama";
    case Architecture::kQwen2:
      return "qwen2";
    case Architecture::kQwen3:
      return "qwen3";
    case Architecture::kQwen3Moe:
      return "qwen3moe";
    case Architecture::kOlmoe:
      return "olmoe";
    case Architecture::kGpt2:
      return "gpt2";
    case Architecture::kT5:
      return "t5";
    case Architecture::kBart:
      return "bart";
    case Architecture::kSwitch:
      return "switch";
  }
  OUTRIDER_CHECK(false, "every architecture has a name");
}

}  // namespace outrider
