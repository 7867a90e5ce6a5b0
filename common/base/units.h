// Sizes and counts as people read them.
#pragma once

#include <cstdint>
#include <string>

namespace outrider {

std::string HumanBytes(uint64_t bytes);  // "1.5 GiB", "812 B"
std::string HumanCount(uint64_t count);  // "1.24 B" parameters, "260 k"
std::string Fixed(double value, int decimals);

}  // namespace outrider
