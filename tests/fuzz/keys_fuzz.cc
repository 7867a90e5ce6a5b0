// Files of keys: whatever stands in one, it is read or refused with the line.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/check.h"
#include "common/base/status.h"
#include "server/security/keys.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto keys = outrider::Keys::Parse(text, "keys");
  if (!keys.ok()) {
    OUTRIDER_CHECK(outrider::Message(keys.status()).starts_with("keys:"),
                   "an error names its file");
    return 0;
  }
  OUTRIDER_CHECK(keys->size() > 0, "who is let in has a key");
  OUTRIDER_CHECK(keys->Find(text) == nullptr, "a file is not its own key");
  return 0;
}
