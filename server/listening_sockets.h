// Sockets that listen at an address: at all that its host's name stands for, and of 0.0.0.0 or [::] at
// every address of this machine, of both kinds. They do not wait where nobody has come.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/file_descriptor.h"
#include "common/base/network_address.h"

namespace outrider {

// One at the least. Port 0 takes any free one, the same for all. Unavailable: the address cannot be
// had, in a sentence that names the `flag` by which to choose another.
absl::StatusOr<std::vector<FileDescriptor>> ListenOn(const NetworkAddress& address,
                                                     std::string_view flag);

// Of one that listens.
uint16_t PortOf(const FileDescriptor& socket);

}  // namespace outrider
