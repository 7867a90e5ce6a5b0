#include "server/side_streams.h"

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "grpc/grpc.h"
#include "grpcpp/grpcpp.h"
#include "proto/outrider/v1/verifier.grpc.pb.h"
#include "server/security/origin.h"

namespace outrider {

using grpc::experimental::InterceptionHookPoints;
using grpc::experimental::Interceptor;
using grpc::experimental::InterceptorBatchMethods;
using grpc::experimental::ServerRpcInfo;

class SideStreams::Count {
 public:
  // By which limit there is no room for one more; none: it is counted, until Leave().
  std::optional<Refusal> Enter(const std::string& origin) {
    MutexLock lock(mu_);
    if (all_ >= kMax) return Refusal::kStreams;
    uint32_t& of_origin = by_origin_[origin];
    if (of_origin >= kOfOriginMax) return Refusal::kStreamsOfAddress;
    ++of_origin;
    ++all_;
    return std::nullopt;
  }

  void Leave(const std::string& origin) {
    MutexLock lock(mu_);
    --all_;
    const auto of_origin = by_origin_.find(origin);
    if (--of_origin->second == 0) by_origin_.erase(of_origin);
  }

 private:
  Mutex mu_;
  uint32_t all_ ABSL_GUARDED_BY(mu_) = 0;
  absl::flat_hash_map<std::string, uint32_t> by_origin_ ABSL_GUARDED_BY(mu_);  // none is 0
};

namespace {

std::string WhyRefused(Refusal why) {
  const bool is_origins = why == Refusal::kStreamsOfAddress;
  return Concat(is_origins ? "this address" : "this server", " may have no more than ",
                is_origins ? SideStreams::kOfOriginMax : SideStreams::kMax,
                " streams of health checks and reflection at a time; end one, or ask with Check");
}

// Lives as long as its call.
class SideStream final : public Interceptor {
 public:
  SideStream(ServerRpcInfo& call, const ConnectionBook& book, EntranceLog& entrance,
             std::shared_ptr<SideStreams::Count> count)
      : call_(call), book_(book), entrance_(entrance), count_(std::move(count)) {}
  ~SideStream() override {
    if (is_counted_) count_->Leave(origin_);
  }

  void Intercept(InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::POST_RECV_INITIAL_METADATA)) {
      Begin();
    }
    methods->Proceed();
  }

 private:
  void Begin() {
    const std::string peer = call_.server_context()->peer();
    origin_ = OriginOf(peer);
    const std::optional<Refusal> why = count_->Enter(origin_);
    is_counted_ = !why;
    if (is_counted_) return;
    book_.Find(PeerOf(peer))->Refuse();
    entrance_.Refused(*why, "", origin_);
    // Whoever answers it finds it cancelled; its caller is told this.
    grpc_call_cancel_with_status(call_.server_context()->c_call(), GRPC_STATUS_RESOURCE_EXHAUSTED,
                                 WhyRefused(*why).c_str(), nullptr);
  }

  ServerRpcInfo& call_;
  const ConnectionBook& book_;
  EntranceLog& entrance_;
  const std::shared_ptr<SideStreams::Count> count_;
  std::string origin_;
  bool is_counted_ = false;
};

bool IsOurs(std::string_view method) {
  return method.substr(1).starts_with(v1::Verifier::service_full_name());
}

}  // namespace

SideStreams::SideStreams(const ConnectionBook& book, EntranceLog& entrance)
    : book_(book), entrance_(entrance), count_(std::make_shared<Count>()) {}

Interceptor* SideStreams::CreateServerInterceptor(ServerRpcInfo* call) {
  if (call->type() == ServerRpcInfo::Type::UNARY || IsOurs(call->method())) return nullptr;
  return new SideStream(*call, book_, entrance_, count_);
}

}  // namespace outrider
