#include "common/base/portable_math.h"

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace outrider::portable {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

constexpr int kFractionBits = 52;
constexpr int kExponentBias = 1023;

bool IsNaN(double x) {
  return x != x;
}

// 2^exponent, for exponents of normal numbers.
double PowerOfTwo(int exponent) {
  return std::bit_cast<double>(static_cast<uint64_t>(exponent + kExponentBias) << kFractionBits);
}

// The nearest whole number, ties to even, for |x| < 2^51: beyond 2^52 a double has no fraction, so
// the sum is rounded to one.
double Round(double x) {
  constexpr double kShift = 0x1.8p52;
  return (x + kShift) - kShift;
}

// c[0] + x * (c[1] + x * (...)).
template <size_t kTerms>
double Polynomial(double x, const std::array<double, kTerms>& c) {
  double sum = c[kTerms - 1];
  for (size_t i = kTerms - 1; i-- > 0;) sum = c[i] + x * sum;
  return sum;
}

// ln 2 in two parts. The first has 42 bits, so its product with an exponent is exact.
constexpr double kLn2High = 0x1.62e42fefa3800p-1;
constexpr double kLn2Low = 0x1.ef35793c76730p-45;
constexpr double kInverseLn2 = 0x1.71547652b82fep+0;

// ---- Numbers of twice the precision, for what has to be rounded late --------------------------

// high + low, with |low| at most half an ulp of high.
struct Twice {
  double high;
  double low;
};

// a + b to the last bit, for |a| >= |b| (or a == 0).
Twice SumOrdered(double a, double b) {
  const double sum = a + b;
  return {sum, b - (sum - a)};
}

Twice Sum(double a, double b) {
  const double sum = a + b;
  const double b_part = sum - a;
  return {sum, (a - (sum - b_part)) + (b - b_part)};
}

// a * b to the last bit, by halves of 26 bits (Dekker); for factors below 2^996 whose product's low
// part is a normal number.
Twice Product(double a, double b) {
  constexpr double kSplit = 0x1p27 + 1;
  const auto halves = [](double x) {
    const double shifted = kSplit * x;
    const double high = shifted - (shifted - x);
    return Twice{high, x - high};
  };
  const Twice x = halves(a);
  const Twice y = halves(b);
  const double product = a * b;
  const double low =
      ((x.high * y.high - product) + x.high * y.low + x.low * y.high) + x.low * y.low;
  return {product, low};
}

Twice operator+(Twice a, Twice b) {
  const Twice sum = Sum(a.high, b.high);
  return SumOrdered(sum.high, sum.low + (a.low + b.low));
}

Twice operator*(Twice a, Twice b) {
  const Twice product = Product(a.high, b.high);
  return SumOrdered(product.high, product.low + (a.high * b.low + a.low * b.high));
}

// a / b for an exact a.
Twice Quotient(double a, Twice b) {
  const double quotient = a / b.high;
  const Twice back = Product(quotient, b.high);
  const double rest = ((a - back.high) - back.low) - quotient * b.low;
  return SumOrdered(quotient, rest / b.high);
}

// ---- Exponentials -----------------------------------------------------------------------------

// Beyond these the result is infinite, or rounds to zero.
constexpr double kExpMax = 710;
constexpr double kExpMin = -746;

// y * 2^exponent, rounded once, for y near 1 and exponents in [-1080, 1025].
double Scale(double y, int exponent) {
  if (exponent >= -1021 && exponent <= kExponentBias) return y * PowerOfTwo(exponent);
  const int half = exponent / 2;
  return y * PowerOfTwo(half) * PowerOfTwo(exponent - half);
}

// e^(x.high + x.low) for kExpMin <= x.high <= kExpMax. With x = k ln 2 + r, |r| <= 0.35:
// e^r = 1 + r + r^2 (1/2! + r/3! + ... + r^11/13!), whose rest is below 2^-57.
double ExpOf(Twice x) {
  static constexpr std::array<double, 12> kCoefficients = {
      1.0 / 2,        1.0 / 6,          1.0 / 24,          1.0 / 120,
      1.0 / 720,      1.0 / 5040,       1.0 / 40'320,      1.0 / 362'880,
      1.0 / 3628'800, 1.0 / 39'916'800, 1.0 / 479'001'600, 1.0 / 6'227'020'800};
  const double k = Round(x.high * kInverseLn2);
  const double high = x.high - k * kLn2High;  // exact: the product is, and the two are close
  const double low = k * kLn2Low - x.low;
  const double r = high - low;
  const double lost = (high - r) - low;  // what rounding took from r
  const double power = 1 + (r + (r * r * Polynomial(r, kCoefficients) + (lost + lost * r)));
  return Scale(power, static_cast<int>(k));
}

// ---- Logarithms -------------------------------------------------------------------------------

// x = m * 2^exponent with sqrt(1/2) <= m < sqrt(2), for finite x > 0.
struct Scaled {
  double m;
  int exponent;
};

Scaled Unscale(double x) {
  constexpr uint64_t kSqrtHalf = 0x3fe6a09e667f3bcd;
  constexpr uint64_t kLeastNormal = uint64_t{1} << kFractionBits;
  uint64_t bits = std::bit_cast<uint64_t>(x);
  int exponent = 0;
  if (bits < kLeastNormal) {
    bits = std::bit_cast<uint64_t>(x * 0x1p54);
    exponent = -54;
  }
  const int64_t steps = static_cast<int64_t>(bits - kSqrtHalf) >> kFractionBits;
  bits -= static_cast<uint64_t>(steps) << kFractionBits;
  return {std::bit_cast<double>(bits), exponent + static_cast<int>(steps)};
}

// k ln 2 + log(1 + f) + lost, for sqrt(1/2) <= 1 + f < sqrt(2). With s = f / (2 + f),
// log(1 + f) = 2 atanh(s) = 2 s + s R(s^2), and 2 s = f - f^2/2 + s f^2/2 keeps f, which is exact,
// apart from everything that is rounded. R(z) = 2 z/3 + 2 z^2/5 + ... + 2 z^10/21: z < 0.0295, so
// the rest is below 2^-60 of the result.
double LogOf(double f, int k, double lost) {
  static constexpr std::array<double, 10> kCoefficients = {2.0 / 3,  2.0 / 5,  2.0 / 7,  2.0 / 9,
                                                           2.0 / 11, 2.0 / 13, 2.0 / 15, 2.0 / 17,
                                                           2.0 / 19, 2.0 / 21};
  const double s = f / (2 + f);
  const double z = s * s;
  const double r = z * Polynomial(z, kCoefficients);
  const double half_square = 0.5 * f * f;
  const double small = s * (half_square + r) + (k * kLn2Low + lost);
  return k * kLn2High - ((half_square - small) - f);
}

// log x to about 64 bits, for Pow. The same series, with 2 s and 2 s^3/3 in twice the precision;
// what follows is below 2^-12 of the result and needs no more than a double.
Twice LogTwice(double x) {
  static constexpr std::array<double, 11> kCoefficients = {2.0 / 5,  2.0 / 7,  2.0 / 9,  2.0 / 11,
                                                           2.0 / 13, 2.0 / 15, 2.0 / 17, 2.0 / 19,
                                                           2.0 / 21, 2.0 / 23, 2.0 / 25};
  constexpr Twice kTwoThirds = {2.0 / 3, 0x1.5555555555555p-55};
  const Scaled scaled = Unscale(x);
  const double f = scaled.m - 1;
  const Twice s = Quotient(f, SumOrdered(2, f));
  const Twice z = s * s;
  const double rest = s.high * z.high * z.high * Polynomial(z.high, kCoefficients);
  const Twice series = Twice{2 * s.high, 2 * s.low} + (s * z * kTwoThirds + Twice{rest, 0});
  const double k = scaled.exponent;
  return SumOrdered(k * kLn2High, k * kLn2Low) + series;
}

// ---- Sine and cosine --------------------------------------------------------------------------

constexpr double kQuarterPi = 0x1.921fb54442d18p-1;
constexpr Twice kHalfPi = {0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54};

// x = quadrant * pi/2 + (high + low), |high| <= pi/4 but for rounding, quadrant modulo 4.
struct Reduced {
  Twice angle;
  unsigned quadrant;
};

// 2/pi behind 64 zero bits: bit i, counted from the first, is worth 2^(63 - i).
constexpr std::array<uint64_t, 20> kTwoOverPi = {
    0x0000000000000000, 0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041,
    0xfe5163abdebbc561, 0xb7246e3a424dd2e0, 0x06492eea09d1921c, 0xfe1deb1cb129a73e,
    0xe88235f52ebb4484, 0xe99c7026b45f7e41, 0x3991d639835339f4, 0x9c845f8bbdf9283b,
    0x1ff897ffde05980f, 0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7, 0x4f463f669e5fea2d,
    0x7527bac7ebe5f17b, 0x3d0739f78a5292ea, 0x6bfb5fb11f8d5d08, 0x56033046fc7b6bab};

// 64 bits of 2/pi from bit i on.
uint64_t TwoOverPiBits(int i) {
  const size_t word = static_cast<size_t>(i) / 64;
  const int shift = i % 64;
  const uint64_t high = kTwoOverPi[word] << shift;
  return shift == 0 ? high : high | kTwoOverPi[word + 1] >> (64 - shift);
}

// For finite x > pi/4 (Payne and Hanek). x = m * 2^e with a whole m < 2^53, so bits of 2/pi worth
// 4 * 2^-e or more add whole turns and are left out. The 192 bits from there on, times m, modulo 4,
// are x * 2/pi with two whole bits and 190 of fraction, the cut-off rest below 2^-137. No double
// comes closer than 2^-63 to a multiple of pi/2, so 74 bits are right at worst.
Reduced Reduce(double x) {
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  const int e = static_cast<int>(bits >> kFractionBits) - kExponentBias - kFractionBits;
  const uint64_t m = (bits & ((uint64_t{1} << kFractionBits) - 1)) | uint64_t{1} << kFractionBits;

  using Wide = unsigned __int128;
  const int first = 62 + e;  // the bit worth 2 * 2^-e
  const Wide low = Wide{m} * TwoOverPiBits(first + 128);
  const Wide middle = Wide{m} * TwoOverPiBits(first + 64) + static_cast<uint64_t>(low >> 64);
  const uint64_t top = m * TwoOverPiBits(first) + static_cast<uint64_t>(middle >> 64);

  // The fraction, 128 bits of it: the last 62 cannot matter, see above.
  unsigned quadrant = static_cast<unsigned>(top >> 62);
  Wide fraction =
      Wide{top} << 66 | Wide{static_cast<uint64_t>(middle)} << 2 | static_cast<uint64_t>(low) >> 62;
  const bool negative = static_cast<bool>(fraction >> 127);  // the nearer quadrant is the next
  if (negative) {
    fraction = -fraction;
    ++quadrant;
  }
  int zeros = 0;
  if (static_cast<uint64_t>(fraction >> 64) == 0) {
    fraction <<= 64;
    zeros = 64;
  }
  const int more = std::countl_zero(static_cast<uint64_t>(fraction >> 64));
  fraction <<= more;
  zeros += more;
  const double unit = PowerOfTwo(-zeros - 53);
  const Twice turns = {
      static_cast<double>(static_cast<uint64_t>(fraction >> 75)) * unit,
      static_cast<double>(static_cast<uint64_t>(fraction >> 22) & ((uint64_t{1} << 53) - 1)) *
          (unit * 0x1p-53)};
  Twice angle = turns * kHalfPi;
  if (negative) angle = {-angle.high, -angle.low};
  return {angle, quadrant % 4};
}

// sin(y.high + y.low) for |y| <= pi/4: y - y^3/3! + ... + y^17/17!, the rest below 2^-62; the low
// part enters by its derivative, 1 - y^2/2.
double SinOf(Twice y) {
  static constexpr std::array<double, 7> kCoefficients = {1.0 / 120,
                                                          -1.0 / 5040,
                                                          1.0 / 362'880,
                                                          -1.0 / 39'916'800,
                                                          1.0 / 6'227'020'800,
                                                          -1.0 / 1'307'674'368'000,
                                                          1.0 / 355'687'428'096'000};
  const double square = y.high * y.high;
  const double cube = square * y.high;
  const double series = cube * Polynomial(square, kCoefficients);
  return y.high - ((square * (0.5 * y.low - series) - y.low) + cube * (1.0 / 6));
}

// cos likewise: 1 - y^2/2! + ... - y^18/18!, with what rounding 1 - y^2/2 loses added back.
double CosOf(Twice y) {
  static constexpr std::array<double, 8> kCoefficients = {1.0 / 24,
                                                          -1.0 / 720,
                                                          1.0 / 40'320,
                                                          -1.0 / 3'628'800,
                                                          1.0 / 479'001'600,
                                                          -1.0 / 87'178'291'200,
                                                          1.0 / 20'922'789'888'000,
                                                          -1.0 / 6'402'373'705'728'000};
  const double square = y.high * y.high;
  const double half_square = 0.5 * square;
  const double near = 1 - half_square;
  const double series = square * square * Polynomial(square, kCoefficients);
  return near + (((1 - near) - half_square) + (series - y.high * y.low));
}

}  // namespace

double Exp(double x) {
  if (IsNaN(x)) return kNaN;
  if (x > kExpMax) return kInfinity;
  if (x < kExpMin) return 0;
  return ExpOf({x, 0});
}

double Log(double x) {
  if (x == 0) return -kInfinity;
  if (!(x > 0)) return kNaN;
  if (x == kInfinity) return kInfinity;
  const Scaled scaled = Unscale(x);
  return LogOf(scaled.m - 1, scaled.exponent, 0);
}

double Log1p(double x) {
  if (x == -1) return -kInfinity;
  if (!(x > -1)) return kNaN;
  if (x == kInfinity) return kInfinity;
  if (x < 0x1p-54 && x > -0x1p-54) return x;
  if (x > -0.2928 && x < 0.4142) return LogOf(x, 0, 0);
  const double sum = 1 + x;
  const double lost = x >= 1 ? 1 - (sum - x) : x - (sum - 1);  // exact
  const Scaled scaled = Unscale(sum);
  return LogOf(scaled.m - 1, scaled.exponent, lost / sum);
}

SinCosResult SinCos(double x) {
  const double magnitude = x < 0 ? -x : x;
  if (!(magnitude < kInfinity)) return {kNaN, kNaN};
  if (magnitude < 0x1p-27) return {x, 1};
  if (magnitude <= kQuarterPi) return {SinOf({x, 0}), CosOf({x, 0})};
  const Reduced reduced = Reduce(magnitude);
  const double sin = SinOf(reduced.angle);
  const double cos = CosOf(reduced.angle);
  SinCosResult result = {};
  switch (reduced.quadrant) {
    case 0:
      result = {sin, cos};
      break;
    case 1:
      result = {cos, -sin};
      break;
    case 2:
      result = {-sin, -cos};
      break;
    default:
      result = {-cos, sin};
      break;
  }
  if (x < 0) result.sin = -result.sin;
  return result;
}

double Pow(double base, double exponent) {
  if (exponent == 0 || base == 1) return 1;
  if (IsNaN(exponent) || !(base >= 0)) return kNaN;
  const double for_large = exponent > 0 ? kInfinity : 0;  // of a base far above 1
  const double for_small = exponent > 0 ? 0 : kInfinity;
  if (base == 0) return for_small;
  if (base == kInfinity) return for_large;
  const Twice log = LogTwice(base);
  const double estimate = exponent * log.high;
  if (estimate > kExpMax) return kInfinity;
  if (estimate < kExpMin) return 0;
  if (estimate < 0x1p-54 && estimate > -0x1p-54) return 1;
  // Between those bounds the exponent is below 2^64 and above 2^-64: nothing over- or underflows.
  return ExpOf(log * Twice{exponent, 0});
}

}  // namespace outrider::portable
