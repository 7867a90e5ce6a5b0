// OUTRIDER_UNROLL before a loop over registers: the compiler has to unroll it before it can keep an
// array of them in registers.
#pragma once

#ifdef __clang__
#define OUTRIDER_UNROLL _Pragma("unroll")
#else
#define OUTRIDER_UNROLL _Pragma("GCC unroll 16")
#endif
