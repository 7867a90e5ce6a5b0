#include "server/security/served_certificates.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "common/base/clock.h"
#include "common/base/status.h"

namespace outrider {
namespace {

constexpr std::chrono::seconds kBetweenLooks(1);

bool WriteAll(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = write(file, text.data(), text.size());
    if (count < 0) return false;
    text.remove_prefix(static_cast<size_t>(count));
  }
  return true;
}

}  // namespace

std::string ServedCertificates::InMemory::path() const {
  return Concat("/proc/self/fd/", file_.get());
}

absl::Status ServedCertificates::InMemory::Put(std::string_view text) {
  FileDescriptor file(memfd_create("certificate", MFD_CLOEXEC));
  if (!file.is_open() || !WriteAll(file.get(), text)) {
    return absl::ResourceExhaustedError(
        Concat("certificates cannot be kept in memory: ", std::strerror(errno)));
  }
  if (!file_.is_open()) {
    file_ = std::move(file);
  } else if (dup3(file.get(), file_.get(), O_CLOEXEC) < 0) {
    return absl::ResourceExhaustedError(
        Concat("certificates cannot be replaced: ", std::strerror(errno)));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<ServedCertificates>> ServedCertificates::Open(
    const TransportFlags& flags, EventLog& log) {
  std::unique_ptr<ServedCertificates> certificates(new ServedCertificates(flags, log));
  if (flags.certificate.empty()) return certificates;
  OUTRIDER_ASSIGN_OR_RETURN(const TransportTexts texts, ReadTransport(flags));
  MutexLock lock(certificates->mu_);
  OUTRIDER_RETURN_IF_ERROR(certificates->Put(texts));
  TransportFlags& served = certificates->served_flags_;
  served.certificate = certificates->certificate_.path();
  served.key = certificates->key_.path();
  if (!flags.client_ca.empty()) served.client_ca = certificates->client_ca_.path();
  certificates->thread_ = std::thread([&all = *certificates] { all.Run(); });
  return certificates;
}

ServedCertificates::ServedCertificates(const TransportFlags& flags, EventLog& log)
    : flags_(flags), log_(log), served_flags_(flags) {}

ServedCertificates::~ServedCertificates() {
  if (!thread_.joinable()) return;
  {
    MutexLock lock(mu_);
    stopping_ = true;
    stopping_changed_.NotifyAll();
  }
  thread_.join();
}

void ServedCertificates::LookNow() {
  if (flags_.certificate.empty()) return;
  MutexLock lock(mu_);
  Look(/*is_asked=*/true);
}

void ServedCertificates::Run() {
  MutexLock lock(mu_);
  for (MonotonicTime next = RealClock().Now() + kBetweenLooks; !stopping_;) {
    if (stopping_changed_.WaitUntil(mu_, next)) continue;
    if (!stopping_) Look(/*is_asked=*/false);
    next = RealClock().Now() + kBetweenLooks;
  }
}

void ServedCertificates::Look(bool is_asked) {
  absl::StatusOr<TransportTexts> texts = ReadTransport(flags_);
  if (texts.ok() && *texts == served_) {
    bad_.clear();
    said_.clear();
    if (is_asked) log_.Say("certificates", {}, "certificates have not changed");
    return;
  }
  const absl::Status status = texts.ok() ? Put(*texts) : texts.status();
  if (!status.ok()) return SayBad(std::string(Message(status)), is_asked);
  bad_.clear();
  said_.clear();
  log_.Say("certificates", {}, "certificates that have changed are served from now on");
}

absl::Status ServedCertificates::Put(const TransportTexts& texts) {
  OUTRIDER_RETURN_IF_ERROR(certificate_.Put(texts.certificate));
  OUTRIDER_RETURN_IF_ERROR(key_.Put(texts.key));
  if (!flags_.client_ca.empty()) OUTRIDER_RETURN_IF_ERROR(client_ca_.Put(texts.client_ca));
  served_ = texts;
  return absl::OkStatus();
}

void ServedCertificates::SayBad(const std::string& why, bool is_asked) {
  const bool is_still_so = bad_ == why;
  bad_ = why;
  if (!is_asked && (!is_still_so || said_ == why)) return;
  said_ = why;
  log_.Say("certificates_bad", {{"why", why}}, Concat("certificates stay as they are: ", why));
}

}  // namespace outrider
