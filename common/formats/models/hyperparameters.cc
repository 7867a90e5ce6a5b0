#include "common/formats/models/hyperparameters.h"

#include "common/base/check.h"

namespace outrider {

std::string_view Name(Architecture architecture) {
  switch (architecture) {
    case Architecture::kLlama:
      return "llama";
    case Architecture::kMistral3:
      return "mistral3";
    case Architecture::kQwen2:
      return "qwen2";
    case Architecture::kQwen3:
      return "qwen3";
    case Architecture::kQwen3Moe:
      return "qwen3moe";
    case Architecture::kOlmoe:
      return "olmoe";
    case Architecture::kQwen2Moe:
      return "qwen2moe";
    case Architecture::kOlmo2:
      return "olmo2";
    case Architecture::kGemma:
      return "gemma";
    case Architecture::kGemma2:
      return "gemma2";
    case Architecture::kGemma3:
      return "gemma3";
    case Architecture::kPhi3:
      return "phi3";
    case Architecture::kSmolLm3:
      return "smollm3";
    case Architecture::kGranite:
      return "granite";
    case Architecture::kGraniteMoe:
      return "granitemoe";
    case Architecture::kStableLm:
      return "stablelm";
    case Architecture::kCohere2:
      return "cohere2";
    case Architecture::kExaone4:
      return "exaone4";
    case Architecture::kGptOss:
      return "gpt-oss";
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
