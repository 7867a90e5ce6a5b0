#include "common/kernels/lanes_avx2.h"
#include "common/kernels/row_tables.h"
#include "common/kernels/rows_impl.h"

namespace outrider {

constinit const RowKernels kAvx2Rows = kRowsOf<Avx2Lanes>;

}  // namespace outrider
