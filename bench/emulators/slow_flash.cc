// Flash that is slower than this machine's, for a program that is started with it:
//
//   LD_PRELOAD=build/release/bench/libslow_flash.so SLOW_FLASH_BYTES_PER_SECOND=300000000 outrider run ...
//
// All pread()s of the process together get that many bytes a second: each returns when a device of
// that rate, which reads one after another, would have had it. io_uring is refused, since its reads
// are the kernel's, and so a program that can do without takes to pread() (base/direct_file.h).
// Reads by page faults are as fast as they were: this is for machines whose kernel has no block-I/O
// cgroup to slow them down.
#include <dlfcn.h>
#include <sys/types.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <thread>

namespace {

using Clock = std::chrono::steady_clock;
using PreadFunction = ssize_t (*)(int, void*, size_t, off_t);

double BytesPerSecond() {
  const char* const text = std::getenv("SLOW_FLASH_BYTES_PER_SECOND");
  return text == nullptr ? 0 : std::atof(text);
}

// Until the device would have read so much more.
void AwaitRead(ssize_t bytes) {
  static const double rate = BytesPerSecond();
  static std::mutex mutex;
  static Clock::time_point busy_until;
  if (rate <= 0 || bytes <= 0) return;
  Clock::time_point landed;
  {
    const std::lock_guard lock(mutex);
    const std::chrono::duration<double> time(static_cast<double>(bytes) / rate);
    busy_until =
        std::max(busy_until, Clock::now()) + std::chrono::duration_cast<Clock::duration>(time);
    landed = busy_until;
  }
  std::this_thread::sleep_until(landed);
}

}  // namespace

extern "C" {

ssize_t pread(int file, void* out, size_t bytes, off_t offset) {
  static const auto real = reinterpret_cast<PreadFunction>(dlsym(RTLD_NEXT, "pread"));
  const ssize_t result = real(file, out, bytes, offset);
  const int error = errno;
  AwaitRead(result);
  errno = error;
  return result;
}

int io_uring_queue_init(unsigned, void*, unsigned) {
  return -ENOSYS;
}
}
