// Memory that is given back to the machine while the buffer that it is part of stays.
#pragma once

#include <cstddef>
#include <span>

namespace outrider {

// How many bytes are: the whole pages in `memory`, which is part of a PageBuffer. They are zeros when they
// are touched again.
size_t ReturnPages(std::span<std::byte> memory);

}  // namespace outrider
