#include "server/operations/metrics.h"

#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/histogram.h"
#include "common/base/status.h"
#include "prometheus/metric_family.h"
#include "prometheus/text_serializer.h"

namespace outrider {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Labels = std::vector<ClientMetric::Label>;

double ProcessorSeconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

// Families as they are added up, each sample with the labels that all have.
class Families {
 public:
  explicit Families(Labels common) : common_(std::move(common)) {}

  void Count(const std::string& name, const std::string& help, double value, Labels labels = {}) {
    ClientMetric& metric = Add(MetricType::Counter, name, help, std::move(labels));
    metric.counter.value = value;
  }

  void Gauge(const std::string& name, const std::string& help, double value, Labels labels = {}) {
    ClientMetric& metric = Add(MetricType::Gauge, name, help, std::move(labels));
    metric.gauge.value = value;
  }

  void Distribution(const std::string& name, const std::string& help, const Histogram& histogram) {
    ClientMetric& metric = Add(MetricType::Histogram, name, help, {});
    uint64_t count = 0;
    for (size_t i = 0; i < histogram.counts().size(); ++i) {
      count += histogram.counts()[i];
      const bool is_last = i == histogram.bounds().size();
      const double bound =
          is_last ? std::numeric_limits<double>::infinity() : histogram.bounds()[i];
      metric.histogram.bucket.push_back({.cumulative_count = count, .upper_bound = bound});
    }
    metric.histogram.sample_count = count;
    metric.histogram.sample_sum = histogram.sum();
  }

  std::string Text() const { return prometheus::TextSerializer().Serialize(families_); }

 private:
  // Samples of one family follow one another.
  ClientMetric& Add(MetricType type, const std::string& name, const std::string& help,
                    Labels labels) {
    if (families_.empty() || families_.back().name != name) {
      families_.push_back({.name = name, .help = help, .type = type, .metric = {}});
    }
    ClientMetric& metric = families_.back().metric.emplace_back();
    metric.label = common_;
    for (ClientMetric::Label& label : labels) metric.label.push_back(std::move(label));
    return metric;
  }

  const Labels common_;
  std::vector<MetricFamily> families_;
};

// What every process is expected to say.
void AddProcess(Families& families) {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  families.Count("process_cpu_seconds_total", "Processor time, of user and system",
                 ProcessorSeconds(used.ru_utime) + ProcessorSeconds(used.ru_stime));
  uint64_t all_pages = 0;
  uint64_t pages = 0;
  if (FILE* const file = std::fopen("/proc/self/statm", "r"); file != nullptr) {
    if (std::fscanf(file, "%lu %lu", &all_pages, &pages) != 2) pages = 0;
    std::fclose(file);
  }
  families.Gauge("process_resident_memory_bytes", "Memory that is in use",
                 static_cast<double>(pages) * static_cast<double>(sysconf(_SC_PAGESIZE)));
}

void AddHeld(const VerifierStats& stats, Families& families) {
  const double waiting = static_cast<double>(stats.sessions_waiting);
  families.Gauge("outrider:num_requests_running", "Sessions with keys and values in memory",
                 static_cast<double>(stats.sessions) - waiting);
  families.Gauge("outrider:num_requests_waiting", "Sessions that wait for memory", waiting);
  families.Gauge("outrider:kv_cache_usage_perc", "Of the pages for keys and values: 1 is all",
                 stats.memory_used);
  families.Gauge("outrider:num_streams", "Calls that are under way",
                 static_cast<double>(stats.streams));
  families.Gauge("outrider:num_callers", "Keys of which something is here",
                 static_cast<double>(stats.callers));
  families.Gauge("outrider:draining", "1: no new sessions are taken", stats.draining ? 1 : 0);
}

void AddEntrance(const EntranceStats& entrance, Families& families) {
  families.Gauge("outrider:num_connections", "Connections of devices",
                 static_cast<double>(entrance.connections));
  for (size_t i = 0; i < kRefusals; ++i) {
    families.Count("outrider:refusals_total", "Who was not let in, by why",
                   static_cast<double>(entrance.refused[i]),
                   {{"reason", NameOf(static_cast<Refusal>(i))}});
  }
}

void AddSessions(const VerifierStats& stats, Families& families) {
  const auto count = [&](const char* name, const char* help, uint64_t value) {
    families.Count(name, help, static_cast<double>(value));
  };
  count("outrider:sessions_opened_total", "Sessions that were opened", stats.sessions_opened);
  count("outrider:sessions_refused_total", "Sessions for which there was no room",
        stats.sessions_refused);
  count("outrider:resumes_total", "Sessions that came back on another stream", stats.resumes);
  count("outrider:num_preemptions_total", "Sessions that lost their memory to others",
        stats.evictions);
  for (int kind = 1; kind < v1::Fault::Kind_ARRAYSIZE; ++kind) {
    families.Count("outrider:faults_total", "Streams that ended with a fault, by its kind",
                   static_cast<double>(stats.faults[static_cast<size_t>(kind)]),
                   {{"kind", v1::Fault::Kind_Name(static_cast<v1::Fault::Kind>(kind))}});
  }
}

// Other servers know two reasons.
void AddReplies(const WritingStats& writing, Families& families) {
  const char* const help = "Replies that were finished, by why";
  const uint64_t stopped =
      writing.finished[v1::FINISH_END_TOKEN] + writing.finished[v1::FINISH_STOP_STRING];
  const uint64_t long_enough =
      writing.finished[v1::FINISH_TOKEN_LIMIT] + writing.finished[v1::FINISH_LENGTH];
  families.Count("outrider:request_success_total", help, static_cast<double>(stopped),
                 {{"finished_reason", "stop"}});
  families.Count("outrider:request_success_total", help, static_cast<double>(long_enough),
                 {{"finished_reason", "length"}});
  families.Distribution("outrider:request_queue_time_seconds",
                        "From a request to its first run of the model", writing.queue_time);
  families.Distribution("outrider:time_to_first_token_seconds", "From a request to its first token",
                        writing.first_token_time);
  families.Distribution("outrider:inter_token_latency_seconds",
                        "Between tokens; those of one verdict share its time", writing.token_time);
  families.Distribution("outrider:request_time_per_output_token_seconds",
                        "Of a reply: from its first token to its last, by those after the first",
                        writing.reply_token_time);
  families.Distribution("outrider:e2e_request_latency_seconds", "From a request to its last token",
                        writing.reply_time);
}

void AddRuns(const VerifierStats& stats, Families& families) {
  const RunStats& running = stats.running;
  families.Count("outrider:prompt_tokens_total", "Tokens that were read",
                 static_cast<double>(running.prompt_tokens));
  families.Count("outrider:generation_tokens_total", "Tokens that were written",
                 static_cast<double>(stats.writing.tokens));
  families.Count("outrider:prefix_cache_queries_total", "Tokens that were to be read",
                 static_cast<double>(running.prompt_tokens + stats.shared_tokens));
  families.Count("outrider:prefix_cache_hits_total", "Of those, tokens that were there already",
                 static_cast<double>(stats.shared_tokens));
  families.Distribution("outrider:iteration_time_seconds", "Runs of the model", running.run_time);
  families.Distribution("outrider:iteration_tokens_total", "Rows of a run: what is read, and nodes",
                        running.run_rows);
}

// The GPU's own account of those, where the target is on one.
void AddDevice(const std::optional<DeviceStats>& device, Families& families) {
  if (!device) return;
  families.Distribution("outrider:gpu_iteration_time_seconds",
                        "Runs of the model, by the GPU's clock", device->run_time);
  families.Count("outrider:gpu_exit_time_seconds_total",
                 "Of that, what exits have taken and what was waited for them",
                 Seconds(device->exit_time));
  families.Count("outrider:gpu_exit_side_time_seconds_total",
                 "Not of that: what exits have taken of the GPU beside runs",
                 Seconds(device->exit_side_time));
  const auto count = [&](const char* name, const char* help, uint64_t value) {
    families.Count(name, help, static_cast<double>(value));
  };
  count("outrider:gpu_graph_hits_total", "Pieces of runs that were started as one graph",
        device->graph_hits);
  count("outrider:gpu_graph_misses_total", "Pieces of runs that were started kernel by kernel",
        device->graph_misses);
  count("outrider:gpu_graph_captures_total", "Of those, pieces that became a graph",
        device->graph_captures);
}

// The sketch. `spec_decode_...` is what servers of speculative decoding have come to say.
void AddDrafting(const WritingStats& writing, Families& families) {
  const auto count = [&](const char* name, const char* help, uint64_t value) {
    families.Count(name, help, static_cast<double>(value));
  };
  const uint64_t accepted = writing.tokens - writing.passes;  // a pass commits one token besides
  count("outrider:spec_decode_num_drafts_total", "Passes with drafted tokens",
        writing.passes - writing.alone_passes);
  count("outrider:spec_decode_num_draft_tokens_total", "Drafted tokens that passes took",
        writing.pass_nodes);
  count("outrider:spec_decode_num_accepted_tokens_total", "Of those, tokens that were right",
        accepted);
  for (size_t i = 0; i < writing.accepted_at.size(); ++i) {
    families.Count("outrider:spec_decode_num_accepted_tokens_per_pos_total",
                   "Drafted tokens that were right, by their place in a row of such",
                   static_cast<double>(writing.accepted_at[i]), {{"position", Concat(i)}});
  }
  count("outrider:passes_total", "Passes of sessions", writing.passes);
  count("outrider:dry_starts_total", "Of those, passes without a drafted token",
        writing.alone_passes);
  count("outrider:sketch_nodes_wasted_total", "Drafted tokens that passes took and left",
        writing.pass_nodes - std::min(accepted, writing.pass_nodes));
}

// As a part of the layers: 0.5.
std::string DepthOf(const VerifierStats::Exit& exit) {
  return Concat(static_cast<double>(exit.depth) / 1000);
}

void AddExits(const VerifierStats& stats, Families& families) {
  families.Count("outrider:hints_sent_total", "Guesses of exits that were queued for devices",
                 static_cast<double>(stats.hints_sent));
  families.Count("outrider:hints_overtaken_total", "Of those, guesses whose verdict came first",
                 static_cast<double>(stats.hints_overtaken));
  const auto each = [&](const char* name, const char* help, const auto& value) {
    for (const VerifierStats::Exit& exit : stats.exits) {
      families.Count(name, help, value(exit.counts), {{"depth", DepthOf(exit)}});
    }
  };
  using Counts = ExitWorth::Counts;
  for (const VerifierStats::Exit& exit : stats.exits) {
    families.Gauge("outrider:exit_on", "1: the exit behind this part of the layers earns its time",
                   exit.on ? 1 : 0, {{"depth", DepthOf(exit)}});
  }
  each("outrider:exit_guesses_total", "Outcomes that an exit has guessed",
       [](const Counts& counts) { return static_cast<double>(counts.guesses); });
  each("outrider:exit_matches_total", "Of those, outcomes that came true",
       [](const Counts& counts) { return static_cast<double>(counts.right); });
  each("outrider:exit_first_matches_total", "Of those, outcomes that no exit before had guessed",
       [](const Counts& counts) { return static_cast<double>(counts.first_right); });
  each("outrider:exit_news_total", "Of those, outcomes below which nothing was drafted yet",
       [](const Counts& counts) { return static_cast<double>(counts.news); });
  each("outrider:exit_lead_seconds_total", "How long before its verdict a first match came",
       [](const Counts& counts) { return Seconds(counts.lead); });
  each("outrider:exit_time_seconds_total", "What an exit has taken of runs",
       [](const Counts& counts) { return Seconds(counts.time); });
}

}  // namespace

std::string MetricsText(const std::optional<ServedModel>& model,
                        const std::optional<VerifierDriver::Stats>& stats,
                        const EntranceStats& entrance) {
  Families process({});
  AddProcess(process);
  const bool is_ready = stats && !stats->machine.draining;
  process.Gauge("outrider:ready", "1: new sessions are taken", is_ready ? 1 : 0);
  if (!model || !stats) return process.Text();
  Families families({{"model_name", model->name}});
  families.Gauge("outrider:model_info", "The model that is served", 1,
                 {{"numerics_id", model->numerics_id}});
  AddHeld(stats->machine, families);
  AddEntrance(entrance, families);
  AddSessions(stats->machine, families);
  AddReplies(stats->machine.writing, families);
  AddRuns(stats->machine, families);
  AddDevice(stats->machine.running.device, families);
  AddDrafting(stats->machine.writing, families);
  AddExits(stats->machine, families);
  const char* const help = "Of messages: up is to the server";
  families.Count("outrider:message_bytes_total", help, static_cast<double>(stats->bytes_up),
                 {{"direction", "up"}});
  families.Count("outrider:message_bytes_total", help, static_cast<double>(stats->bytes_down),
                 {{"direction", "down"}});
  return process.Text() + families.Text();
}

}  // namespace outrider
