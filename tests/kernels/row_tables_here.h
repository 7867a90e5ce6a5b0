// The row kernels that this machine can run, the reference first. Free of GoogleTest and Abseil:
// rows_digest.cc is built for machines that have neither.
#pragma once

#include <vector>

#include "common/kernels/rows/row_tables.h"

namespace outrider {

struct NamedRows {
  const char* name;
  const RowKernels* rows;
};

inline std::vector<NamedRows> RowTablesHere() {
  std::vector<NamedRows> tables = {{"scalar", &kScalarRows}};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    tables.push_back({"avx2", &kAvx2Rows});
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
      tables.push_back({"avx512", &kAvx512Rows});
    }
  }
#elif defined(__aarch64__)
  tables.push_back({"neon", &kNeonRows});
#endif
  return tables;
}

}  // namespace outrider
