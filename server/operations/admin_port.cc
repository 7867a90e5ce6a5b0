#include "server/operations/admin_port.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <deque>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/file_descriptor.h"
#include "common/base/mutex.h"
#include "common/base/network_address.h"
#include "common/base/status.h"
#include "server/listening_sockets.h"

namespace outrider {
namespace {

constexpr std::string_view kOk = "200 OK";
constexpr std::string_view kUnavailable = "503 Service Unavailable";
constexpr std::string_view kNotFound = "404 Not Found";
constexpr std::string_view kTooLarge = "431 Request Header Fields Too Large";
constexpr std::string_view kJson = "application/json";
constexpr std::string_view kPrometheus = "text/plain; version=0.0.4; charset=utf-8";
constexpr std::string_view kEndOfRequest = "\r\n\r\n";

// The machine's thread answers within milliseconds, or not at all.
constexpr auto kAnswerMax = std::chrono::seconds(2);

std::string Answer(std::string_view status, std::string_view type, std::string_view content) {
  return Concat("HTTP/1.1 ", status, "\r\nContent-Type: ", type,
                "\r\nContent-Length: ", content.size(), "\r\nConnection: close\r\n\r\n", content);
}

// As llama-server and others say it.
std::string Unavailable(std::string_view why) {
  return Answer(kUnavailable, kJson,
                Concat(R"({"error":{"code":503,"message":")", why,
                       R"(","type":"unavailable_error"}})", "\n"));
}

std::string Ok() {
  return Answer(kOk, kJson, "{\"status\":\"ok\"}\n");
}

// "GET /metrics?x HTTP/1.1" asks for /metrics; empty: it asks for nothing there is.
std::string_view PathIn(std::string_view request) {
  constexpr std::string_view kGet = "GET ";
  if (!request.starts_with(kGet)) return "";
  request.remove_prefix(kGet.size());
  return request.substr(0, request.find_first_of(" ?\r\n"));
}

// Somebody who asks.
class Asker {
 public:
  Asker(FileDescriptor socket, MonotonicTime deadline)
      : socket_(std::move(socket)), deadline_(deadline) {}

  int socket() const { return socket_.get(); }
  MonotonicTime deadline() const { return deadline_; }
  short awaited() const { return answer_.empty() ? POLLIN : POLLOUT; }

  // All of a request, when it is there; none: more of it is to come, or is_over().
  std::optional<std::string_view> Read() {
    char bytes[2048];
    const ssize_t count = recv(socket(), bytes, sizeof(bytes), MSG_DONTWAIT);
    if (count > 0) request_.append(bytes, static_cast<size_t>(count));
    is_over_ = count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR);
    const bool is_whole = request_.find(kEndOfRequest) != std::string::npos;
    if (is_over_ || (!is_whole && request_.size() < AdminPort::kRequestBytesMax)) {
      return std::nullopt;
    }
    return is_whole ? request_ : std::string_view();
  }

  void Answer(std::string answer) { answer_ = std::move(answer); }

  void Write() {
    const ssize_t count =
        send(socket(), answer_.data() + sent_, answer_.size() - sent_, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (count > 0) sent_ += static_cast<size_t>(count);
    const bool is_broken = count < 0 && errno != EAGAIN && errno != EINTR;
    is_over_ = is_broken || sent_ == answer_.size();
  }

  bool is_over() const { return is_over_; }

 private:
  FileDescriptor socket_;
  MonotonicTime deadline_;
  std::string request_;
  std::string answer_;  // empty: it has not asked yet
  size_t sent_ = 0;
  bool is_over_ = false;
};

}  // namespace

class AdminPort::Implementation {
 public:
  Implementation(std::vector<FileDescriptor> sockets, NetworkAddress address,
                 const EntranceLog& entrance)
      : sockets_(std::move(sockets)),
        address_(address.ToString()),
        entrance_(entrance),
        stop_(eventfd(0, EFD_CLOEXEC)) {
    OUTRIDER_CHECK(stop_.is_open(), "a process that starts has descriptors");
    thread_ = std::thread([this] { Run(); });
  }

  ~Implementation() {
    eventfd_write(stop_.get(), 1);
    thread_.join();
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
  void Run() {
    while (Await()) {
      for (size_t i = 0; i < sockets_.size(); ++i) {
        if (polled_[1 + i].revents != 0) Accept(sockets_[i].get());
      }
      std::erase_if(askers_, [now = RealClock().Now()](const Asker& asker) {
        return asker.is_over() || now >= asker.deadline();
      });
    }
  }

  // Until something happens, of which those who ask have been served then. False: it is to stop.
  bool Await() {
    polled_ = {{.fd = stop_.get(), .events = POLLIN, .revents = 0}};
    const bool is_resting = std::exchange(rests_, false);
    for (const FileDescriptor& socket : sockets_) {
      polled_.push_back({.fd = is_resting ? -1 : socket.get(), .events = POLLIN, .revents = 0});
    }
    const size_t first_asker = polled_.size();
    for (const Asker& asker : askers_) {
      polled_.push_back({.fd = asker.socket(), .events = asker.awaited(), .revents = 0});
    }
    const int wait_ms = askers_.empty() ? -1 : kTickMs;
    poll(polled_.data(), polled_.size(), is_resting ? kRestMs : wait_ms);
    if (polled_[0].revents != 0) return false;
    for (size_t i = 0; i < askers_.size(); ++i) {
      if (polled_[first_asker + i].revents != 0) Serve(askers_[i]);
    }
    return true;
  }

  void Accept(int socket) {
    FileDescriptor accepted(accept4(socket, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    // Where there is no descriptor for him, whoever has come stays, and is seen again at once.
    rests_ = rests_ || !accepted.is_open();
    if (!accepted.is_open()) return;
    if (askers_.size() == kConnectionsMax) askers_.pop_front();
    askers_.emplace_back(std::move(accepted),
                         RealClock().Now() + std::chrono::seconds(kSecondsMax));
  }

  void Serve(Asker& asker) {
    if (asker.awaited() == POLLIN) {
      const std::optional<std::string_view> request = asker.Read();
      if (!request) return;
      asker.Answer(request->empty() ? Answer(kTooLarge, kJson, "{}\n") : AnswerTo(*request));
    }
    asker.Write();
  }

  std::string AnswerTo(std::string_view request) {
    const std::string_view path = PathIn(request);
    MutexLock lock(mu_);
    if (path == "/health/live") return Live();
    if (path == "/health/ready" || path == "/health") return Ready();
    if (path == "/metrics") {
      return Answer(kOk, kPrometheus, MetricsText(model_, AskStats(), entrance_.stats()));
    }
    return Answer(kNotFound, kJson, "{}\n");
  }

  std::optional<VerifierDriver::Stats> AskStats() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (driver_ == nullptr) return std::nullopt;
    return driver_->AskStats(RealClock().Now() + kAnswerMax);
  }

  std::string Live() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (driver_ == nullptr || AskStats()) return Ok();
    return Unavailable("the thread that decides does not answer");
  }

  std::string Ready() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return ready_ ? Ok() : Unavailable(model_ ? "Draining" : "Loading model");
  }

  static constexpr int kTickMs = 500;  // how late a deadline may be seen to
  static constexpr int kRestMs = 50;   // until somebody is accepted again where nobody could be

  const std::vector<FileDescriptor> sockets_;  // that listen
  const std::string address_;
  const EntranceLog& entrance_;
  const FileDescriptor stop_;   // an eventfd
  std::vector<pollfd> polled_;  // its thread only: stop, sockets, those who ask
  bool rests_ = false;          // its thread only: it accepts nobody in the next poll
  std::deque<Asker> askers_;    // its thread only; the oldest first, kConnectionsMax at the most

  Mutex mu_;
  std::optional<ServedModel> model_ ABSL_GUARDED_BY(mu_);  // once it is loaded
  VerifierDriver* driver_ ABSL_GUARDED_BY(mu_) = nullptr;
  bool ready_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;  // last: starts when all above exists
};

absl::StatusOr<std::unique_ptr<AdminPort>> AdminPort::Open(const std::string& address,
                                                           const EntranceLog& entrance) {
  OUTRIDER_ASSIGN_OR_RETURN(NetworkAddress where, NetworkAddress::Parse(address));
  OUTRIDER_ASSIGN_OR_RETURN(std::vector<FileDescriptor> sockets, ListenOn(where, "--admin"));
  where.port = PortOf(sockets.front());
  return std::unique_ptr<AdminPort>(new AdminPort(
      std::make_unique<Implementation>(std::move(sockets), std::move(where), entrance)));
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
