// The operators' port, apart from the devices': plain HTTP for probes and Prometheus.
//
//   GET /health/live    200 while the process answers for its threads, 503 when one of them hangs
//   GET /health/ready   200 while sessions are taken; 503 while the model is loaded, and from SIGTERM
//   GET /metrics        metrics.h
//
// It is there before the model is, so that a probe can tell loading from dead. Whoever reaches it may
// read it; it says nothing of sessions' texts, keys or names.
//
// A connection is one request, of kRequestBytesMax, and its answer, and has kSecondsMax for both. There
// are kConnectionsMax at a time; one more, and the oldest is hung up on. So whoever is slow, or
// holds many of them open, keeps nobody else from being answered.
//
// Threads: any. It has one of its own.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/verification/verifier_driver.h"
#include "server/operations/entrance_log.h"
#include "server/operations/metrics.h"

namespace outrider {

class AdminPort {
 public:
  static constexpr size_t kConnectionsMax = 32;
  static constexpr size_t kRequestBytesMax = 8 << 10;
  static constexpr int kSecondsMax = 5;

  // `address` is host:port; port 0 takes any free one. InvalidArgument when it is none, Unavailable
  // when it cannot be had. `entrance` outlives it.
  static absl::StatusOr<std::unique_ptr<AdminPort>> Open(const std::string& address,
                                                         const EntranceLog& entrance);
  ~AdminPort();

  const std::string& address() const;

  // The model is loaded, and `driver` serves it until End().
  void Begin(ServedModel model, VerifierDriver& driver);
  void SetReady(bool ready);
  void End();

 private:
  class Implementation;

  explicit AdminPort(std::unique_ptr<Implementation> implementation);

  const std::unique_ptr<Implementation> implementation_;
};

}  // namespace outrider
