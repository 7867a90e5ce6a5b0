// exp, log, log1p, sin, cos and pow in double precision, with the same bits on every machine.
//
// The library's own differ between processors (glibc picks a version by the features it finds) and
// between platforms, and one bit is enough to change a token. These are made of additions,
// multiplications, divisions and integer operations only, each of which IEEE 754 defines to the
// bit; the tree is compiled with -ffp-contract=off, so none of them is fused behind our back.
//
// Accuracy: below 1 ulp (pow: below 2) over the whole range, subnormal arguments and results
//           included. Where a result is not a number it is the one NaN of the C++ library, so its
//           bits are equal everywhere too.
// Cost:     10 to 20 ns, sin and cos 40, pow 100; no tables to speak of, no allocation, no errno.
//           They round to nearest: hold a ScopedIeeeMode (ieee_mode.h) around what must repeat.
//
// The polynomials are Taylor series rather than minimax fits: two or three terms longer, and every
// coefficient can be checked by eye.
#pragma once

namespace outrider::portable {

double Exp(double x);
double Log(double x);    // NaN below 0, -inf at 0
double Log1p(double x);  // log(1 + x); NaN below -1, -inf at -1

struct SinCosResult {
  double sin;
  double cos;
};

// Exact argument reduction for every finite x, so 1e22 is as good as 1. NaN for infinities.
SinCosResult SinCos(double x);

// NaN for a base below 0; otherwise as IEEE 754 pow, so 0^0 and 1^NaN are 1.
double Pow(double base, double exponent);

}  // namespace outrider::portable
