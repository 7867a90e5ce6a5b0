// Any bytes at all are exit heads, or an error; and what is read is written and read the same.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>

#include "common/base/check.h"
#include "common/formats/models/exits_file.h"
#include "tests/base/scratch_dir.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto exits =
      outrider::ParseExits(std::as_bytes(std::span(data, size)), "fuzzed.exits.gguf");
  if (!exits.ok()) return 0;
  static const outrider::ScratchDir* const dir = new outrider::ScratchDir;  // for one process
  const std::string path = dir->File("again.gguf");
  OUTRIDER_CHECK_OK(outrider::WriteExits(*exits, path));
  const auto again = outrider::ReadExits(path);
  OUTRIDER_CHECK_OK(again.status());
  OUTRIDER_CHECK(*again == *exits, "what is written is what is read");
  return 0;
}
