// Counts every call on the devices' port, whoever answers it: among the silent ones from its headers
// to its first message (silent_calls.h), and one that its caller then has for as long as he likes
// among those (side_streams.h), unless the machine counts it.
//
//   CallWatch watch(first_message_max, book, entrance);
//   builder.experimental().SetInterceptorCreators(watch.Creators());
//
// Threads: any.
// Errors:  ResourceExhausted, to who calls.
#pragma once

#include <memory>
#include <vector>

#include "common/base/monotonic_time.h"
#include "grpcpp/support/server_interceptor.h"
#include "server/connection_book.h"
#include "server/operations/entrance_log.h"
#include "server/side_streams.h"
#include "server/silent_calls.h"

namespace outrider {

class CallWatch {
 public:
  // Both outlive it, and it outlives the server.
  CallWatch(Duration first_message_max, const ConnectionBook& book, EntranceLog& entrance)
      : book_(book), entrance_(entrance), silent_(first_message_max, entrance) {}

  std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> Creators();

 private:
  class Call;
  class Creator;

  const ConnectionBook& book_;
  EntranceLog& entrance_;
  SilentCalls silent_;
  SideStreams side_streams_;
};

}  // namespace outrider
