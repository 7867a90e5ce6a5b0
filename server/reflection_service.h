// grpc.reflection.v1alpha: what is spoken here, for tools that have no .proto of it.
//
//   ReflectionService reflection(book);
//   builder.RegisterService(&reflection.grpc());
//
// gRPC has one of its own, which keeps a thread for every call, and of its few threads all for as many
// callers as say nothing.
//
// Memory:  per stream the question that is being answered. How many there may be of those, somebody
//          else says (side_streams.h).
// Threads: any.
// Errors:  NotFound and InvalidArgument, as answers; the stream goes on.
#pragma once

#include <memory>

#include "server/connection_book.h"

namespace grpc {
class Service;
}

namespace outrider {

class ReflectionService {
 public:
  // The book outlives it, and it outlives the server.
  explicit ReflectionService(const ConnectionBook& book);
  ~ReflectionService();

  grpc::Service& grpc();

 private:
  class Implementation;  // keeps gRPC's headers out of this one

  const std::unique_ptr<Implementation> implementation_;
};

}  // namespace outrider
