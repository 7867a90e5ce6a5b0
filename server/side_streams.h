// Streams of what gRPC answers by itself beside our own service: Watch of health checks, and
// reflection. Nobody needs a key for them, and each is kept for as long as its caller likes, so
// there are few of one origin and few in all. What is asked once (Check) has no limit: it is over
// when it is answered.
//
//   creators.push_back(std::make_unique<SideStreams>(book, entrance));
//   builder.experimental().SetInterceptorCreators(std::move(creators));
//
// Memory:  a number for each origin that has some.
// Threads: any.
// Errors:  ResourceExhausted, to who calls.
#pragma once

#include <cstdint>
#include <memory>

#include "grpcpp/support/server_interceptor.h"
#include "server/connection_book.h"
#include "server/operations/entrance_log.h"

namespace outrider {

class SideStreams final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  static constexpr uint32_t kOfOriginMax = 16;
  static constexpr uint32_t kMax = 256;

  class Count;  // of those that are open

  // Both outlive all calls.
  SideStreams(const ConnectionBook& book, EntranceLog& entrance);

  grpc::experimental::Interceptor* CreateServerInterceptor(
      grpc::experimental::ServerRpcInfo* call) override;

 private:
  const ConnectionBook& book_;
  EntranceLog& entrance_;
  const std::shared_ptr<Count> count_;
};

}  // namespace outrider
