#include "common/kernels/lanes/lanes_neon.h"
#include "common/kernels/rows/row_tables.h"
#include "common/kernels/rows/rows_impl.h"

namespace outrider {

constinit const RowKernels kNeonRows = kRowsOf<NeonLanes>;

}  // namespace outrider
