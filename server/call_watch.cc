#include "server/call_watch.h"

#include <optional>
#include <string>
#include <string_view>

#include "common/base/status.h"
#include "grpc/grpc.h"
#include "grpcpp/grpcpp.h"
#include "server/security/origin.h"

namespace outrider {

using grpc::experimental::InterceptionHookPoints;
using grpc::experimental::Interceptor;
using grpc::experimental::InterceptorBatchMethods;
using grpc::experimental::ServerRpcInfo;

namespace {

// That its caller has for as long as he likes, and the machine knows nothing of.
bool IsSideStream(std::string_view method) {
  return method == "/grpc.health.v1.Health/Watch" || method.starts_with("/grpc.reflection.");
}

SilentCalls::Ends WhoEnds(std::string_view method) {
  const bool is_machines = method == "/outrider.v1.Verifier/Decode" ||  //
                           method == "/outrider.v1.Verifier/Generate";
  return is_machines ? SilentCalls::Ends::kInMachine : SilentCalls::Ends::kHere;
}

std::string WhyNoSideStream(Refusal why) {
  const bool is_origins = why == Refusal::kStreamsOfAddress;
  return Concat(is_origins ? "this address" : "this server", " may have no more than ",
                is_origins ? SideStreams::kOfOriginMax : SideStreams::kMax,
                " streams of health checks and reflection at a time; end one, or ask with Check");
}

}  // namespace

// Lives as long as its call.
class CallWatch::Call final : public Interceptor {
 public:
  Call(CallWatch& watch, ServerRpcInfo& call) : watch_(watch), call_(call) {}
  ~Call() override {
    if (silent_number_) watch_.silent_.End(*silent_number_);
    if (is_side_stream_) watch_.side_streams_.Leave(origin_);
  }

  void Intercept(InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::POST_RECV_INITIAL_METADATA)) {
      silent_number_ =
          watch_.silent_.Begin(call_.server_context()->c_call(), call_.server_context()->peer(),
                               WhoEnds(call_.method()));
    }
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::POST_RECV_MESSAGE) &&
        methods->GetRecvMessage() != nullptr && silent_number_) {
      watch_.silent_.End(*silent_number_);
      silent_number_.reset();
      if (IsSideStream(call_.method())) EnterSideStreams();
    }
    methods->Proceed();
  }

 private:
  void EnterSideStreams() {
    const std::string peer = call_.server_context()->peer();
    origin_ = OriginOf(peer);
    const std::optional<Refusal> why = watch_.side_streams_.Enter(origin_);
    is_side_stream_ = !why;
    if (is_side_stream_) return;
    watch_.book_.Find(PeerOf(peer))->Refuse();
    watch_.entrance_.Refused(*why, "", origin_);
    // Whoever answers it finds it cancelled; its caller is told this.
    grpc_call_cancel_with_status(call_.server_context()->c_call(), GRPC_STATUS_RESOURCE_EXHAUSTED,
                                 WhyNoSideStream(*why).c_str(), nullptr);
  }

  CallWatch& watch_;
  ServerRpcInfo& call_;
  std::optional<uint64_t> silent_number_;
  std::string origin_;  // of a side stream
  bool is_side_stream_ = false;
};

class CallWatch::Creator final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  explicit Creator(CallWatch& watch) : watch_(watch) {}

  Interceptor* CreateServerInterceptor(ServerRpcInfo* call) override {
    return new Call(watch_, *call);
  }

 private:
  CallWatch& watch_;
};

std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>>
CallWatch::Creators() {
  std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> creators;
  creators.push_back(std::make_unique<Creator>(*this));
  return creators;
}

}  // namespace outrider
