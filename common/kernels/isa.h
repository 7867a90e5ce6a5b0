// The instruction sets we have kernels for, which of them this machine offers, and how one is
// chosen: the best one, once, at start, unless `--isa` names another. Results do not depend on the
// choice (NUMERICS.md).
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace outrider {

enum class Isa {
  kScalar,   // the references: slow, and right by definition
  kAvx2,     // AVX2, FMA, F16C
  kAvx512,   // AVX-512 F BW DQ VL and VNNI
  kAmx,      // the same, AMX int8 and GFNI
  kDotprod,  // Armv8.2 with dotprod
  kI8mm,     // the same with i8mm
};

std::string_view Name(Isa isa);  // "scalar", "avx2", "avx512", "amx", "dotprod", "i8mm"

// What this processor, operating system and build offer, best last; kScalar is always there. The
// first call asks Linux for the AMX state where there is one, for every thread of the process.
const std::vector<Isa>& SupportedIsas();

inline Isa BestIsa() {
  return SupportedIsas().back();
}

// The best one without a name. InvalidArgument for a name nobody knows, Unavailable for one this
// machine lacks; both list what it offers.
absl::StatusOr<Isa> SelectIsa(std::optional<std::string_view> name);

}  // namespace outrider
