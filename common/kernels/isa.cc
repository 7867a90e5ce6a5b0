#include "common/kernels/isa.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "common/base/quote.h"
#include "common/base/status.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

namespace outrider {
namespace {

struct IsaName {
  Isa isa;
  std::string_view name;
};

constexpr std::array kNames = std::to_array<IsaName>({
    {Isa::kScalar, "scalar"},
    {Isa::kAvx2, "avx2"},
    {Isa::kAvx512, "avx512"},
    {Isa::kAmx, "amx"},
    {Isa::kDotprod, "dotprod"},
    {Isa::kI8mm, "i8mm"},
});

#if defined(__x86_64__)

constexpr uint32_t Bits(std::initializer_list<int> bits) {
  uint32_t mask = 0;
  for (const int bit : bits) mask |= uint32_t{1} << bit;
  return mask;
}

constexpr bool HasAll(uint32_t value, uint32_t mask) {
  return (value & mask) == mask;
}

// Which register files the operating system saves on a context switch.
uint32_t EnabledStates() {
  uint32_t low = 0;
  uint32_t high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

// Linux hands out the 8 KiB of tile registers only to processes that ask; the permission holds for
// all their threads.
bool RequestTiles() {
  constexpr long kArchReqXcompPerm = 0x1023;
  constexpr long kTileData = 18;
  return syscall(SYS_arch_prctl, kArchReqXcompPerm, kTileData) == 0;
}

std::vector<Isa> Detect() {
  std::vector<Isa> isas = {Isa::kScalar};
  uint32_t eax = 0;
  uint32_t ebx = 0;
  uint32_t ecx = 0;
  uint32_t edx = 0;
  constexpr uint32_t kFma = Bits({12});
  constexpr uint32_t kOsXsaveAvxF16c = Bits({27, 28, 29});
  if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || !HasAll(ecx, kFma | kOsXsaveAvxF16c)) return isas;
  const uint32_t states = EnabledStates();
  if (!__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx)) return isas;

  constexpr uint32_t kYmmStates = Bits({1, 2});
  constexpr uint32_t kAvx2Bit = Bits({5});
  if (!HasAll(states, kYmmStates) || !HasAll(ebx, kAvx2Bit)) return isas;
  isas.push_back(Isa::kAvx2);

  constexpr uint32_t kZmmStates = Bits({5, 6, 7});
  constexpr uint32_t kAvx512FDqBwVl = Bits({16, 17, 30, 31});
  constexpr uint32_t kVnni = Bits({11});
  if (!HasAll(states, kZmmStates) || !HasAll(ebx, kAvx512FDqBwVl) || !HasAll(ecx, kVnni)) {
    return isas;
  }
  isas.push_back(Isa::kAvx512);

  constexpr uint32_t kTileStates = Bits({17, 18});
  constexpr uint32_t kAmxTileInt8 = Bits({24, 25});
  constexpr uint32_t kGfni = Bits({8});
  if (HasAll(states, kTileStates) && HasAll(edx, kAmxTileInt8) && HasAll(ecx, kGfni) &&
      RequestTiles()) {
    isas.push_back(Isa::kAmx);
  }
  return isas;
}

#elif defined(__aarch64__)

std::vector<Isa> Detect() {
  std::vector<Isa> isas = {Isa::kScalar};
  constexpr unsigned long kHwcapDotprod = 1ul << 20;
  constexpr unsigned long kHwcap2I8mm = 1ul << 13;
  if ((getauxval(AT_HWCAP) & kHwcapDotprod) == 0) return isas;
  isas.push_back(Isa::kDotprod);
  if ((getauxval(AT_HWCAP2) & kHwcap2I8mm) != 0) isas.push_back(Isa::kI8mm);
  return isas;
}

#else

std::vector<Isa> Detect() {
  return {Isa::kScalar};
}

#endif

std::string Offered() {
  std::string names;
  for (const Isa isa : SupportedIsas()) names.append(names.empty() ? "" : " ").append(Name(isa));
  return names;
}

}  // namespace

std::string_view Name(Isa isa) {
  return std::ranges::find(kNames, isa, &IsaName::isa)->name;
}

const std::vector<Isa>& SupportedIsas() {
  static const std::vector<Isa> isas = Detect();
  return isas;
}

absl::StatusOr<Isa> SelectIsa(std::optional<std::string_view> name) {
  if (!name.has_value()) return BestIsa();
  const auto* const found = std::ranges::find(kNames, *name, &IsaName::name);
  if (found == kNames.end()) {
    return InvalidArgument("there is no instruction set called ", Quote(*name),
                           "; this machine offers ", Offered());
  }
  const std::vector<Isa>& isas = SupportedIsas();
  if (std::ranges::find(isas, found->isa) == isas.end()) {
    return absl::UnavailableError(Concat("this machine lacks ", *name, "; it offers ", Offered()));
  }
  return found->isa;
}

}  // namespace outrider
