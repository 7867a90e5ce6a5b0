// A service whose every call is told of as soon as its headers are there.
//
//   class Greeter final : public StreamedService {
//     Greeter() { Add<Name, Greeting>("/Greeter/Greet", [this](auto& context) { return ...; }); }
//   };
//
// Of a call that a .proto says has one message up, gRPC tells nobody until that is there: a call that
// never sends it is kept, and nobody counts it or ends it. On the wire such a call is a stream like
// others, of which one side happens to say one thing. So all of them are registered as streams here,
// and read their message themselves. Callers, descriptors and reflection see what the .proto says.
//
// OneAnswer is a call that has one message and one answer.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "common/base/status.h"
#include "grpcpp/grpcpp.h"
#include "grpcpp/impl/codegen/proto_utils.h"  // how messages of protobuf are written and read
#include "grpcpp/impl/codegen/server_callback_handlers.h"
#include "grpcpp/impl/rpc_service_method.h"
#include "grpcpp/impl/service_type.h"
#include "server/connection_book.h"

namespace outrider {

class StreamedService : public grpc::Service {
 protected:
  template <typename Request, typename Response>
  using Begin = std::function<grpc::ServerBidiReactor<Request, Response>*(
      grpc::CallbackServerContext& context)>;

  // `method` is "/package.Service/Method", and a literal: gRPC keeps the pointer.
  template <typename Request, typename Response>
  void Add(const char* method, Begin<Request, Response> begin) {
    AddMethod(new grpc::internal::RpcServiceMethod(
        method, grpc::internal::RpcMethod::BIDI_STREAMING, nullptr));
    MarkMethodCallback(method_count_++,
                       new grpc::internal::CallbackBidiHandler<Request, Response>(
                           [begin = std::move(begin)](grpc::CallbackServerContext* context) {
                             return begin(*context);
                           }));
  }

 private:
  int method_count_ = 0;
};

// To who ends a call without the one message that it has.
template <typename Request>
std::string NoMessage() {
  return Concat("this call has one message, ", Request::descriptor()->full_name(),
                ", and what came is none; send it");
}

// Lives until its call is over.
template <typename Request, typename Response>
class OneAnswer final : public grpc::ServerBidiReactor<Request, Response> {
 public:
  using Answer = std::function<grpc::Status(const Request& request, Response& response)>;

  OneAnswer(std::shared_ptr<ConnectionBook::Entry> connection, Answer answer)
      : connection_(std::move(connection)), answer_(std::move(answer)) {
    this->StartRead(&request_);
  }

 private:
  void OnReadDone(bool ok) override {
    if (!ok) {
      connection_->Refuse();  // reset as soon as it was made, or no message of ours
      return this->Finish({grpc::StatusCode::INVALID_ARGUMENT, NoMessage<Request>()});
    }
    const grpc::Status status = answer_(request_, response_);
    if (!status.ok()) return this->Finish(status);
    this->StartWriteAndFinish(&response_, grpc::WriteOptions(), status);
  }

  void OnDone() override { delete this; }

  const std::shared_ptr<ConnectionBook::Entry> connection_;
  const Answer answer_;
  Request request_;
  Response response_;
};

}  // namespace outrider
