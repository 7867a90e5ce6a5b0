#include "server/health_service.h"

#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "common/base/mutex.h"
#include "grpcpp/grpcpp.h"
#include "proto/grpc/health/v1/health.pb.h"
#include "server/security/origin.h"
#include "server/streamed_service.h"

namespace outrider {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;
using ServingStatus = HealthCheckResponse::ServingStatus;

namespace {

class HealthWatch;

// How services are, and who is to be told when that changes.
class HealthBoard {
 public:
  void Set(const std::string& service, ServingStatus status);
  std::optional<ServingStatus> Find(const std::string& service) const;

  // Tells it how the service is, at once and until it leaves.
  void Enter(HealthWatch& watch, const std::string& service);
  void Leave(HealthWatch& watch);

 private:
  struct Service {
    ServingStatus status = HealthCheckResponse::UNKNOWN;
    std::set<HealthWatch*> watches = {};
  };

  mutable Mutex mu_;  // before a watch's
  std::map<std::string, Service> services_ ABSL_GUARDED_BY(mu_);
};

// Lives until its call is over. One message is written at a time; what has changed meanwhile is told
// as it is when that is done.
class HealthWatch final : public grpc::ServerBidiReactor<HealthCheckRequest, HealthCheckResponse> {
 public:
  HealthWatch(HealthBoard& board, std::shared_ptr<ConnectionBook::Entry> connection)
      : board_(board), connection_(std::move(connection)) {
    StartRead(&request_);
  }

  void Tell(ServingStatus status) {
    MutexLock lock(mu_);
    newest_ = status;
    Go();
  }

 private:
  void OnReadDone(bool ok) override {
    if (!ok) {
      connection_->Refuse();  // reset as soon as it was made, or no message of ours
      return Leave({grpc::StatusCode::INVALID_ARGUMENT, NoMessage<HealthCheckRequest>()});
    }
    HealthCheckRequest request;
    request.Swap(&request_);  // which may be long, and is not kept
    board_.Enter(*this, request.service());
  }

  void OnWriteDone(bool ok) override {
    MutexLock lock(mu_);
    is_writing_ = false;
    if (!ok && !end_) end_ = grpc::Status::CANCELLED;
    Go();
  }

  void OnCancel() override { Leave(grpc::Status::CANCELLED); }

  void OnDone() override {
    board_.Leave(*this);
    delete this;
  }

  void Leave(const grpc::Status& status) {
    MutexLock lock(mu_);
    if (!end_) end_ = status;
    Go();
  }

  // On to its end, or to what is new, unless something is being written.
  void Go() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (is_writing_ || is_over_) return;
    if (end_) {
      is_over_ = true;
      return Finish(*end_);
    }
    if (newest_ == told_) return;
    told_ = newest_;
    response_.set_status(*newest_);
    is_writing_ = true;
    StartWrite(&response_);
  }

  HealthBoard& board_;
  const std::shared_ptr<ConnectionBook::Entry> connection_;
  HealthCheckRequest request_;    // untouched until OnReadDone()
  HealthCheckResponse response_;  // untouched while it is being written

  Mutex mu_;
  std::optional<ServingStatus> newest_ ABSL_GUARDED_BY(mu_);
  std::optional<ServingStatus> told_ ABSL_GUARDED_BY(mu_);
  std::optional<grpc::Status> end_ ABSL_GUARDED_BY(mu_);  // when nothing is being written
  bool is_writing_ ABSL_GUARDED_BY(mu_) = false;
  bool is_over_ ABSL_GUARDED_BY(mu_) = false;  // as far as this side is concerned
};

void HealthBoard::Set(const std::string& service, ServingStatus status) {
  MutexLock lock(mu_);
  Service& set = services_[service];
  set.status = status;
  for (HealthWatch* const watch : set.watches) watch->Tell(status);
}

std::optional<ServingStatus> HealthBoard::Find(const std::string& service) const {
  MutexLock lock(mu_);
  const auto found = services_.find(service);
  return found == services_.end() ? std::nullopt : std::optional(found->second.status);
}

void HealthBoard::Enter(HealthWatch& watch, const std::string& service) {
  MutexLock lock(mu_);
  const auto found = services_.find(service);
  if (found == services_.end()) return watch.Tell(HealthCheckResponse::SERVICE_UNKNOWN);
  found->second.watches.insert(&watch);
  watch.Tell(found->second.status);
}

void HealthBoard::Leave(HealthWatch& watch) {
  MutexLock lock(mu_);
  for (auto& [name, service] : services_) service.watches.erase(&watch);
}

}  // namespace

class HealthService::Implementation final : public StreamedService {
 public:
  explicit Implementation(const ConnectionBook& book) : book_(book) {
    Add<HealthCheckRequest, HealthCheckResponse>(
        "/grpc.health.v1.Health/Check", [this](const grpc::CallbackServerContext& context) {
          return new OneAnswer<HealthCheckRequest, HealthCheckResponse>(
              ConnectionOf(context),
              [this](const HealthCheckRequest& request, HealthCheckResponse& response) {
                return Check(request, response);
              });
        });
    Add<HealthCheckRequest, HealthCheckResponse>(
        "/grpc.health.v1.Health/Watch", [this](const grpc::CallbackServerContext& context) {
          return new HealthWatch(board_, ConnectionOf(context));
        });
  }

  void Set(const std::string& service, bool serving) {
    board_.Set(service, serving ? HealthCheckResponse::SERVING : HealthCheckResponse::NOT_SERVING);
  }

 private:
  grpc::Status Check(const HealthCheckRequest& request, HealthCheckResponse& response) {
    const std::optional<ServingStatus> status = board_.Find(request.service());
    if (!status) {
      return {grpc::StatusCode::NOT_FOUND,
              "there is no service of this name here; ask for outrider.v1.Verifier, for live, or "
              "for none by name"};
    }
    response.set_status(*status);
    return grpc::Status::OK;
  }

  std::shared_ptr<ConnectionBook::Entry> ConnectionOf(
      const grpc::CallbackServerContext& context) const {
    return book_.Find(PeerOf(context.peer()));
  }

  const ConnectionBook& book_;
  HealthBoard board_;
};

HealthService::HealthService(const ConnectionBook& book)
    : implementation_(std::make_unique<Implementation>(book)) {}

HealthService::~HealthService() = default;

void HealthService::Set(const std::string& service, bool serving) {
  implementation_->Set(service, serving);
}

grpc::Service& HealthService::grpc() {
  return *implementation_;
}

}  // namespace outrider
