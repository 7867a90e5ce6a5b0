// What a server says of itself when it is ready.
#pragma once

#include <string>

#include "common/engine/target.h"
#include "proto/outrider/v1/verifier.pb.h"
#include "server/config/server_flags.h"
#include "server/operations/event_log.h"

namespace outrider {

// A few lines for a person, of which the last begins with "serving " and ends with `address`; one
// event for a collector.
void SayServing(const ServerFlags& flags, const TargetInfo& target,
                const v1::DescribeResponse& description, const std::string& address, EventLog& log);

}  // namespace outrider
