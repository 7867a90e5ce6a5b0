// Over folders that look as the kernel's do.
#include "common/base/energy_meter.h"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>

#include "common/base/process_io.h"
#include "gtest/gtest.h"
#include "tests/base/scratch_dir.h"

namespace outrider {
namespace {

class EnergyMeterTest : public testing::Test {
 protected:
  void Put(const std::string& path, const std::string& value) {
    const std::filesystem::path whole = root_ + "/class/" + path;
    std::filesystem::create_directories(whole.parent_path());
    std::ofstream(whole) << value << "\n";
  }

  const ScratchDir dir_;
  const std::string root_ = dir_.File("sys");
  FakeClock clock_;
};

TEST_F(EnergyMeterTest, WhereNothingIsSaidThereIsNothing) {
  EnergyMeter meter(root_, clock_);
  meter.Sample();
  EXPECT_FALSE(meter.joules().has_value());
  EXPECT_EQ(meter.source(), "");
}

TEST_F(EnergyMeterTest, CountsPackagesOverTheirEnd) {
  for (const char* const package : {"0", "1"}) {
    const std::string zone = std::string("powercap/intel-rapl:") + package;
    Put(zone + "/name", std::string("package-") + package);
    Put(zone + "/energy_uj", "900000000");
    Put(zone + "/max_energy_range_uj", "1000000000");
  }
  Put("powercap/intel-rapl:0:0/name", "core");  // is in its package
  Put("powercap/intel-rapl:0:0/energy_uj", "1");
  EnergyMeter meter(root_, clock_);
  EXPECT_EQ(meter.source(), "RAPL");
  EXPECT_EQ(meter.joules(), 0);
  Put("powercap/intel-rapl:0/energy_uj", "950000000");
  Put("powercap/intel-rapl:1/energy_uj", "20000000");
  Put("powercap/intel-rapl:0:0/energy_uj", "50000000");
  meter.Sample();
  EXPECT_DOUBLE_EQ(*meter.joules(), 50 + 120);
}

TEST_F(EnergyMeterTest, OfABoardTheWholeSupplyIsAddedUpInTime) {
  Put("hwmon/hwmon0/name", "cpu_thermal");
  Put("hwmon/hwmon1/name", "ina3221");
  for (const char* const n : {"1", "2"}) {
    Put(std::string("hwmon/hwmon1/in") + n + "_input", "5000");
    Put(std::string("hwmon/hwmon1/curr") + n + "_input", "1000");
  }
  Put("hwmon/hwmon1/in1_label", "VDD_IN");
  Put("hwmon/hwmon1/in2_label", "VDD_CPU_GPU_CV");
  EnergyMeter meter(root_, clock_);
  EXPECT_EQ(meter.source(), "INA");
  clock_.Advance(std::chrono::seconds(2));
  meter.Sample();
  EXPECT_DOUBLE_EQ(*meter.joules(), 10);
  Put("hwmon/hwmon1/curr1_input", "3000");
  clock_.Advance(std::chrono::seconds(1));
  meter.Sample();
  EXPECT_DOUBLE_EQ(*meter.joules(), 20);
}

TEST_F(EnergyMeterTest, ABatteryCountsWhileItDischarges) {
  Put("power_supply/AC/type", "Mains");
  Put("power_supply/BAT0/type", "Battery");
  Put("power_supply/BAT0/status", "Charging");
  Put("power_supply/BAT0/energy_now", "1000000");
  EXPECT_EQ(EnergyMeter(root_, clock_).source(), "");
  Put("power_supply/BAT0/status", "Discharging");
  EnergyMeter meter(root_, clock_);
  Put("power_supply/BAT0/energy_now", "999000");
  meter.Sample();
  EXPECT_DOUBLE_EQ(*meter.joules(), 3.6);
}

TEST(ProcessIoTest, WhatIsWrittenToADiskIsCounted) {
  const ProcessIo before = ReadProcessIo();
  if (!before.written_bytes) GTEST_SKIP() << "this kernel does not say";
  const ScratchDir dir;
  std::ofstream(dir.File("file")) << std::string(1 << 20, 'x') << std::flush;
  // Memory that is a file system takes no disk.
  EXPECT_GE(*ReadProcessIo().written_bytes, *before.written_bytes);
}

}  // namespace
}  // namespace outrider
