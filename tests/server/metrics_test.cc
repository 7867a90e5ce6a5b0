#include "server/operations/metrics.h"

#include <chrono>
#include <map>
#include <set>
#include <sstream>
#include <string>

#include "common/base/check.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace outrider {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// By name and labels. Every family is described once, before its samples.
std::map<std::string, double> Samples(const std::string& text) {
  std::map<std::string, double> samples;
  std::set<std::string> families;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("# TYPE ")) {
      const std::string family = line.substr(7, line.rfind(' ') - 7);
      EXPECT_TRUE(families.insert(family).second) << "twice: " << family;
    }
    if (line.empty() || line.starts_with("#")) continue;
    const size_t space = line.rfind(' ');
    const bool is_new =
        samples.insert({line.substr(0, space), std::stod(line.substr(space))}).second;
    EXPECT_TRUE(is_new) << "twice: " << line;
  }
  return samples;
}

VerifierDriver::Stats SomeStats() {
  VerifierDriver::Stats stats = {.machine = {}, .bytes_up = 10, .bytes_down = 20};
  VerifierStats& machine = stats.machine;
  machine.sessions = 5;
  machine.sessions_waiting = 2;
  machine.memory_used = 0.25;
  machine.shared_tokens = 30;
  machine.faults[v1::Fault::OVERLOADED] = 4;
  machine.running.prompt_tokens = 70;
  machine.writing.passes = 10;
  machine.writing.alone_passes = 4;
  machine.writing.pass_nodes = 40;
  machine.writing.tokens = 22;
  machine.writing.accepted_at[0] = 6;
  machine.writing.finished[v1::FINISH_STOP_STRING] = 1;
  machine.writing.finished[v1::FINISH_END_TOKEN] = 2;
  machine.writing.first_token_time.Add(0.03);
  machine.writing.first_token_time.Add(2000);
  machine.writing.first_token_time.Add(9999);
  machine.exits = {{.depth = 500, .on = true, .counts = {.guesses = 9, .right = 3}},
                   {.depth = 875, .on = false, .counts = {}}};
  return stats;
}

TEST(Metrics, HaveTheNamesThatDashboardsKnow) {
  const auto samples =
      Samples(MetricsText(ServedModel{.name = "m", .numerics_id = "ab"}, SomeStats(), {}));
  const auto value = [&](const std::string& name, const std::string& labels = "") {
    const auto found = samples.find("outrider:" + name + "{model_name=\"m\"" + labels + "}");
    EXPECT_NE(found, samples.end()) << name << labels;
    return found == samples.end() ? -1 : found->second;
  };
  EXPECT_EQ(value("num_requests_running"), 3);
  EXPECT_EQ(value("num_requests_waiting"), 2);
  EXPECT_EQ(value("kv_cache_usage_perc"), 0.25);
  EXPECT_EQ(value("prefix_cache_queries_total"), 100);
  EXPECT_EQ(value("prefix_cache_hits_total"), 30);
  EXPECT_EQ(value("spec_decode_num_drafts_total"), 6);
  EXPECT_EQ(value("spec_decode_num_draft_tokens_total"), 40);
  EXPECT_EQ(value("spec_decode_num_accepted_tokens_total"), 12);
  EXPECT_EQ(value("spec_decode_num_accepted_tokens_per_pos_total", ",position=\"0\""), 6);
  EXPECT_EQ(value("sketch_nodes_wasted_total"), 28);
  EXPECT_EQ(value("dry_starts_total"), 4);
  EXPECT_EQ(value("request_success_total", ",finished_reason=\"stop\""), 3);
  EXPECT_EQ(value("faults_total", ",kind=\"OVERLOADED\""), 4);
  EXPECT_EQ(value("exit_matches_total", ",depth=\"0.5\""), 3);
  EXPECT_EQ(value("exit_on", ",depth=\"0.875\""), 0);
  EXPECT_EQ(value("message_bytes_total", ",direction=\"down\""), 20);
  EXPECT_EQ(value("time_to_first_token_seconds_bucket", ",le=\"0.02\""), 0);
  EXPECT_EQ(value("time_to_first_token_seconds_bucket", ",le=\"0.05\""), 1);
  EXPECT_EQ(value("time_to_first_token_seconds_bucket", ",le=\"2560\""), 2);
  EXPECT_EQ(value("time_to_first_token_seconds_bucket", ",le=\"+Inf\""), 3);
  EXPECT_EQ(value("time_to_first_token_seconds_count"), 3);
  EXPECT_NEAR(value("time_to_first_token_seconds_sum"), 11999.03, 1e-6);
}

TEST(Metrics, OfAGpuAreThereWhereTheTargetIsOnOne) {
  const ServedModel model = {.name = "m", .numerics_id = "ab"};
  VerifierDriver::Stats stats = SomeStats();
  EXPECT_THAT(MetricsText(model, stats, {}), Not(HasSubstr("outrider:gpu_")));

  DeviceStats& device = stats.machine.running.device.emplace();
  device.run_time.Add(0.004, 3);
  device.run_time.Add(0.006);
  device.exit_time = std::chrono::microseconds(180);
  device.exit_side_time = std::chrono::microseconds(700);
  device.graph_hits = 20;
  device.graph_misses = 5;
  device.graph_captures = 4;
  const auto samples = Samples(MetricsText(model, stats, {}));
  const auto value = [&](const std::string& name, const std::string& labels = "") {
    const auto found = samples.find("outrider:gpu_" + name + "{model_name=\"m\"" + labels + "}");
    EXPECT_NE(found, samples.end()) << name << labels;
    return found == samples.end() ? -1 : found->second;
  };
  EXPECT_EQ(value("iteration_time_seconds_bucket", ",le=\"0.003\""), 0);
  EXPECT_EQ(value("iteration_time_seconds_bucket", ",le=\"0.005\""), 3);
  EXPECT_EQ(value("iteration_time_seconds_count"), 4);
  EXPECT_NEAR(value("iteration_time_seconds_sum"), 0.018, 1e-9);
  EXPECT_NEAR(value("exit_time_seconds_total"), 0.00018, 1e-9);
  EXPECT_NEAR(value("exit_side_time_seconds_total"), 0.0007, 1e-9);
  EXPECT_EQ(value("graph_hits_total"), 20);
  EXPECT_EQ(value("graph_misses_total"), 5);
  EXPECT_EQ(value("graph_captures_total"), 4);
}

TEST(Metrics, BeforeThereIsAModelTheProcessIsKnown) {
  const std::string text = MetricsText(std::nullopt, std::nullopt, {});
  EXPECT_THAT(text, HasSubstr("outrider:ready 0"));
  EXPECT_THAT(text, HasSubstr("process_resident_memory_bytes "));
  EXPECT_THAT(text, Not(HasSubstr("model_name")));
  EXPECT_GT(Samples(text).at("process_resident_memory_bytes"), 1e6);
}

}  // namespace
}  // namespace outrider
