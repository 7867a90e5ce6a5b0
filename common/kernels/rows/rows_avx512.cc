#include "common/kernels/lanes/lanes_avx512.h"
#include "common/kernels/rows/row_tables.h"
#include "common/kernels/rows/rows_impl.h"

namespace outrider {

constinit const RowKernels kAvx512Rows = kRowsOf<Avx512Lanes>;

}  // namespace outrider
