// What a machine has drawn of energy, where it says: the best of
//
//   RAPL      counters of a processor's packages      powercap/intel-rapl:N/energy_uj
//   INA       monitors on a board's supply, as Jetsons have them: volts times amperes, sampled
//   battery   what is left of it while it is discharging: coarse, and of the whole device
//
//   EnergyMeter meter;
//   ... meter.Sample();  a few times a second, while something runs ...
//   meter.joules()
//
// All of these are of the machine, or the board, and not of this process: who compares lets nothing
// else run. Where none can be read, which is so in most virtual machines and, of RAPL, for who is
// not root, there is nothing.
//
// Threads: as a vector.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/monotonic_time.h"

namespace outrider {

class EnergyMeter {
 public:
  // Below `root` lie the kernel's files.
  explicit EnergyMeter(const std::string& root = "/sys", const Clock& clock = RealClock());

  void Sample();

  // Since it was made, as of the last sample; nothing: not available here.
  std::optional<double> joules() const;
  // "RAPL", "INA" or "battery"; empty: none.
  const std::string& source() const { return source_; }

 private:
  struct Counter {
    std::string path;
    uint64_t last = 0;
    uint64_t wraps_at = 0;  // 0: it does not
  };
  struct Rail {
    std::string millivolts;
    std::string milliamperes;
  };

  void FindRapl(const std::string& root);
  void FindIna(const std::string& root);
  void FindBattery(const std::string& root);
  void SampleCounters();
  void SampleRails();
  void SampleBattery();

  const Clock& clock_;
  std::string source_;
  double joules_ = 0;

  std::vector<Counter> counters_;  // microjoules
  std::vector<Rail> rails_;
  std::optional<double> watts_;  // of the rails, at the last sample
  MonotonicTime sampled_at_ = {};
  std::string battery_;  // microwatt hours that are left
  uint64_t left_ = 0;    // of them at the last sample
};

}  // namespace outrider
