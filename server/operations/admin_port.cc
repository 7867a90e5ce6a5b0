#include "server/operations/admin_port.h"

#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/network_address.h"
#include "common/base/status.h"
#include "httplib.h"

namespace outrider {
namespace {

constexpr int kOk = 200;
constexpr int kUnavailable = 503;
constexpr auto kJson = "application/json";
constexpr auto kPrometheus = "text/plain; version=0.0.4; charset=utf-8";

// Who asks is on the operators' network, but may be slow or gone all the same.
constexpr size_t kThreadCount = 4;
constexpr size_t kBodyBytesMax = 1024;
constexpr time_t kSecondsMax = 5;
// The machine's thread answers within milliseconds, or not at all.
constexpr auto kAnswerMax = std::chrono::seconds(2);

// As llama-server and others say it.
void SayUnavailable(httplib::Response& response, std::string_view why) {
  response.status = kUnavailable;
  response.set_content(
      Concat(R"({"error":{"code":503,"message":")", why, R"(","type":"unavailable_error"}})", "\n"),
      kJson);
}

void SayOk(httplib::Response& response) {
  response.status = kOk;
  response.set_content("{\"status\":\"ok\"}\n", kJson);
}

}  // namespace

class AdminPort::Implementation {
 public:
  Implementation() {
    http_.new_task_queue = [] { return new httplib::ThreadPool(kThreadCount); };
    http_.set_payload_max_length(kBodyBytesMax);
    http_.set_read_timeout(kSecondsMax);
    http_.set_write_timeout(kSecondsMax);
    http_.set_keep_alive_timeout(kSecondsMax);
    // Not the library's own, which lets two servers have one port.
    http_.set_socket_options([](int socket) {
      const int yes = 1;
      setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    });
    http_.Get("/health/live", [this](const auto&, auto& response) { AnswerLive(response); });
    http_.Get("/health/ready", [this](const auto&, auto& response) { AnswerReady(response); });
    http_.Get("/health", [this](const auto&, auto& response) { AnswerReady(response); });
    http_.Get("/metrics", [this](const auto&, auto& response) { AnswerMetrics(response); });
  }

  ~Implementation() {
    http_.stop();
    if (thread_.joinable()) thread_.join();
  }

  absl::Status Listen(NetworkAddress address) {
    const std::string host = address.host.starts_with('[')
                                 ? address.host.substr(1, address.host.size() - 2)
                                 : address.host;
    const bool has_port = address.port != 0;
    const int port = has_port ? (http_.bind_to_port(host, address.port) ? address.port : -1)
                              : http_.bind_to_any_port(host);
    if (port < 0) {
      return absl::UnavailableError(Concat(
          "cannot listen on ", address.ToString(),
          ": the port is in use or the host is not this machine's; choose another (--admin)"));
    }
    address.port = static_cast<uint16_t>(port);
    address_ = address.ToString();
    thread_ = std::thread([this] { http_.listen_after_bind(); });
    while (!http_.is_running()) std::this_thread::yield();  // before that it cannot be stopped
    return absl::OkStatus();
  }

  const std::string& address() const { return address_; }

  void Begin(ServedModel model, VerifierDriver& driver) {
    MutexLock lock(mu_);
    model_ = std::move(model);
    driver_ = &driver;
  }

  void SetReady(bool ready) {
    MutexLock lock(mu_);
    ready_ = ready;
  }

  void End() {
    MutexLock lock(mu_);
    driver_ = nullptr;
    ready_ = false;
  }

 private:
  std::optional<VerifierDriver::Stats> AskStats() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (driver_ == nullptr) return std::nullopt;
    return driver_->AskStats(RealClock().Now() + kAnswerMax);
  }

  void AnswerLive(httplib::Response& response) {
    MutexLock lock(mu_);
    if (driver_ != nullptr && !AskStats()) {
      return SayUnavailable(response, "the thread that decides does not answer");
    }
    SayOk(response);
  }

  void AnswerReady(httplib::Response& response) {
    MutexLock lock(mu_);
    if (ready_) return SayOk(response);
    SayUnavailable(response, model_ ? "Draining" : "Loading model");
  }

  void AnswerMetrics(httplib::Response& response) {
    MutexLock lock(mu_);
    response.set_content(MetricsText(model_, AskStats()), kPrometheus);
  }

  httplib::Server http_;
  std::string address_;
  Mutex mu_;
  std::optional<ServedModel> model_ ABSL_GUARDED_BY(mu_);  // once it is loaded
  VerifierDriver* driver_ ABSL_GUARDED_BY(mu_) = nullptr;
  bool ready_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;  // last: starts when all above exists
};

absl::StatusOr<std::unique_ptr<AdminPort>> AdminPort::Open(const std::string& address) {
  OUTRIDER_ASSIGN_OR_RETURN(NetworkAddress where, NetworkAddress::Parse(address));
  auto implementation = std::make_unique<Implementation>();
  OUTRIDER_RETURN_IF_ERROR(implementation->Listen(std::move(where)));
  return std::unique_ptr<AdminPort>(new AdminPort(std::move(implementation)));
}

AdminPort::AdminPort(std::unique_ptr<Implementation> implementation)
    : implementation_(std::move(implementation)) {}

AdminPort::~AdminPort() = default;

const std::string& AdminPort::address() const {
  return implementation_->address();
}

void AdminPort::Begin(ServedModel model, VerifierDriver& driver) {
  implementation_->Begin(std::move(model), driver);
}

void AdminPort::SetReady(bool ready) {
  implementation_->SetReady(ready);
}

void AdminPort::End() {
  implementation_->End();
}

}  // namespace outrider
