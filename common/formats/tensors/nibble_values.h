// What the nibbles of a block stand for in the types that look them up.
#pragma once

#include <cstdint>

namespace outrider {

// IQ4_NL and IQ4_XS.
inline constexpr int8_t kIq4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                          1,    13,   25,  38,  53,  69,  89,  113};

// MXFP4: twice the numbers of a float of four bits (a sign, two of exponent, one of fraction).
inline constexpr int8_t kMxfp4Values[16] = {0, 1,  2,  3,  4,  6,  8,  12,
                                            0, -1, -2, -3, -4, -6, -8, -12};

}  // namespace outrider
