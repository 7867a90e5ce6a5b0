// RFC 4648's standard alphabet, as tokenizer files use it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace outrider {

// Nothing when `text` is not base64 with its padding.
std::optional<std::string> DecodeBase64(std::string_view text);

}  // namespace outrider
