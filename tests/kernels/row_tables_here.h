// The row kernels that this machine can run, the reference first. Free of GoogleTest and Abseil:
// rows_digest.cc is built for machines that have neither.
#pragma once

#include <vector>

#include "common/kernels/row_tables.h"

namespace outrider {

struct NamedRows {
  const char* name;
  const RowKernels* rows;
};

inline std::vector<NamedRows> RowTablesHere() {
  std::vector<NamedRows> tables = {{"scalar", &kScalarRows}};
  return tables;
}

}  // namespace outrider
