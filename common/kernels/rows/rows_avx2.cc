#include "common/kernels/lanes/lanes_avx2.h"
#include "common/kernels/rows/row_tables.h"
#include "common/kernels/rows/rows_impl.h"

namespace outrider {

constinit const RowKernels kAvx2Rows = kRowsOf<Avx2Lanes>;

}  // namespace outrider
