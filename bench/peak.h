// What the machine can do when it does nothing else: the other side of a benchmark's ratios.
#pragma once

#include <cstddef>
#include <span>

#include "common/kernels/isa.h"

namespace outrider {

// Reads every byte, as two streams with prefetches ahead, which is how memory gives most.
void ReadStreams(std::span<const std::byte> bytes);

// Multiplications a second of one thread in the instruction that `isa` is about, on registers only:
// tdpbssd, vpdpbusd, vpmaddubsw, or float fmas where `integers` is false. Measured once each; 0
// where we have no such loop (Arm).
double PeakProducts(Isa isa, bool integers);

}  // namespace outrider
