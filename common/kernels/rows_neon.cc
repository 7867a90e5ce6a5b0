#include "common/kernels/lanes_neon.h"
#include "common/kernels/row_tables.h"
#include "common/kernels/rows_impl.h"

namespace outrider {

constinit const RowKernels kNeonRows = kRowsOf<NeonLanes>;

}  // namespace outrider
