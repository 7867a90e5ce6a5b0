// How fast a file is read by who does nothing else: what is read on flash is a share of that.
//
//   flash_reader FILE SECONDS
//
// Prints bytes a second, of reads for so long: past the page cache into large pages, a mebibyte at a time
// and four in flight.
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "bench/plain_reader.h"
#include "common/base/clock.h"
#include "common/base/status.h"

namespace outrider {
namespace {

constexpr uint64_t kAtATime = uint64_t{16} << 20;

absl::Status Run(const std::string& path, double seconds_min) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<PlainReader> reader, PlainReader::Open(path));
  const MonotonicTime begin = RealClock().Now();
  uint64_t bytes = 0;
  double seconds = 0;
  do {
    OUTRIDER_RETURN_IF_ERROR(reader->Read(kAtATime));
    bytes += kAtATime;
    seconds = std::chrono::duration<double>(RealClock().Now() - begin).count();
  } while (seconds < seconds_min);
  std::printf("%.0f\n", static_cast<double>(bytes) / seconds);
  return absl::OkStatus();
}

}  // namespace
}  // namespace outrider

int main(int argc, char** argv) {
  double seconds = 0;
  const std::string_view text = argc == 3 ? argv[2] : "";
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (argc != 3 || error != std::errc() || end != text.data() + text.size() || !(seconds > 0)) {
    std::fputs("usage: flash_reader FILE SECONDS\n", stderr);
    return 2;
  }
  const absl::Status status = outrider::Run(argv[1], seconds);
  if (status.ok()) return 0;
  std::fprintf(stderr, "flash_reader: %s\n", std::string(outrider::Message(status)).c_str());
  return 1;
}
