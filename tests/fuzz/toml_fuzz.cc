// Configuration files: whatever stands in one, it is settings or refused with the line.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/check.h"
#include "common/base/status.h"
#include "server/config/toml_settings.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto settings = outrider::ParseTomlSettings(text, "c.toml");
  if (!settings.ok()) {
    OUTRIDER_CHECK(outrider::Message(settings.status()).starts_with("c.toml:"),
                   "an error names its file");
    return 0;
  }
  for (const outrider::TomlSetting& setting : *settings) {
    OUTRIDER_CHECK(!setting.name.empty() && setting.name.find('_') == std::string::npos,
                   "a setting has a flag's name");
    OUTRIDER_CHECK(setting.line > 0, "a setting stands in a line");
  }
  return 0;
}
