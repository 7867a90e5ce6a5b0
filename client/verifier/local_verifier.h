// A verifier whose target is in this process: a stream of the same driver that serves many devices
// at a server, whose messages are handed over as they are, not serialised.
//
//   VerifierMachine machine(ConfigFor(target.info(), tokenizer), {tokenizer, RandomBits});
//   VerifierDriver driver(machine, target);
//   LocalVerifier verifier(driver, {...});
//
// Any number of sessions share a driver, each with a verifier of its own, since each counts its
// streams by itself. A stream that is closed leaves its session where it is, and it can be resumed.
//
// Threads: as Verifier says. The listener is called on the driver's.
// Queues:  of a stream one message up and one down, each until it has been taken in.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/base/thread_annotations.h"
#include "client/verifier/verifier.h"
#include "common/base/mutex.h"
#include "common/verification/verifier_driver.h"

namespace outrider {

class LocalVerifier final : public Verifier {
 public:
  struct Options {
    bool shares_processor = true;  // TargetInfo::on_host_processor
    std::string key = {};          // who calls
  };

  // The driver outlives it.
  LocalVerifier(VerifierDriver& driver, Options options);
  ~LocalVerifier() override;  // every stream is down

  void Open(uint64_t stream, Listener& listener) override;
  void Send(uint64_t stream, v1::ClientMessage& message) override;
  void Read(uint64_t stream) override;
  void Close(uint64_t stream) override;
  RunForecast Forecast(const RunShape& shape) const override;

 private:
  class Stream;

  // Those of the driver's, which owns them, that are not down.
  Mutex mu_;
  std::map<uint64_t, Stream*> streams_ ABSL_GUARDED_BY(mu_);

  VerifierDriver& driver_;
  const Options options_;
};

}  // namespace outrider
