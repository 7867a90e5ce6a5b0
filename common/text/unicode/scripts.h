// Characters by script and block, for the expressions that list them.
#pragma once

namespace outrider {

// \p{Han}
bool IsHan(char32_t code);

// Letters of scripts that have two cases: DeepSeek LLM's expression lists them.
bool IsOfCasedScript(char32_t code);

// Scripts that are written without spaces, and some of their neighbours: AFMoE's expression lists
// their blocks.
bool IsWrittenTogether(char32_t code);

}  // namespace outrider
