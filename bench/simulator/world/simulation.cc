#include "bench/simulator/world/simulation.h"

#include <algorithm>
#include <utility>

#include "bench/simulator/sources/text.h"
#include "bench/simulator/sources/vocabulary.h"
#include "bench/simulator/world/chance.h"
#include "common/base/check.h"
#include "common/base/status.h"

namespace outrider {
namespace {

// Questions asked of the scenario's seed.
enum Question : uint64_t { kPrompt = 1, kHostBits, kDeviceBits, kLinkBits, kDraftBits };

uint64_t SeedOf(const Scenario& scenario, Question question, uint64_t which) {
  return Draw(scenario.seed, static_cast<uint64_t>(question) << 48 | which).Bits();
}

StopOptions StopsOf(const Scenario& scenario) {
  return {.at_end_of_generation = scenario.ends_at_end_token, .max_tokens = scenario.max_tokens};
}

}  // namespace

Simulation::Simulation(const World& world, const Scenario& scenario, Journal* journal)
    : world_(world),
      scenario_(scenario),
      journal_(journal),
      draft_processor_(events_, scenario.one_draft_processor.value_or(Stalls{})),
      begin_(events_.now()) {
  AddHost();
  for (size_t i = 0; i < scenario.session_count; ++i) AddDevice(i);
}

bool Simulation::Run(Duration time_max) {
  for (size_t i = 0; i < devices_.size(); ++i) {
    events_.At(begin_ + static_cast<int64_t>(i) * scenario_.stagger,
               [this, i] { devices_[i]->Start(); });
  }
  const auto is_done = [](const auto& device) { return device->done(); };
  bool is_to_change = scenario_.change.has_value();
  while (!std::ranges::all_of(devices_, is_done)) {
    if (events_.now() - begin_ > time_max || !events_.RunNext()) return false;
    if (!is_to_change || devices_[0]->shown().size() < scenario_.change->after_tokens) continue;
    is_to_change = false;
    Apply(*scenario_.change);
  }
  return true;
}

void Simulation::Apply(const Change& change) {
  LinkShape shape = link();
  shape.delay = Scaled(shape.delay, change.link_delay);
  for (const std::unique_ptr<Connection>& connection : connections_) connection->Reshape(shape);
  host_->ScalePasses(change.pass_time);
  for (const Seat& seat : seats_) {
    if (change.skill && seat.skilled != nullptr) seat.skilled->Become(*change.skill);
  }
}

const LinkShape& Simulation::link() const {
  static const LinkShape kNone;
  return scenario_.one_processor ? kNone : scenario_.link;
}

size_t Simulation::KeyNumberOf(size_t device) const {
  if (scenario_.sessions_of_key.empty()) return device;
  size_t key = 0;
  for (const uint32_t count : scenario_.sessions_of_key) {
    if (device < count) break;
    device -= count;
    ++key;
  }
  return key;
}

Connection& Simulation::Dial(size_t device, Connection::Listener& listener,
                             const std::string& key) {
  const uint32_t dial = seats_[device].dials++;
  const std::optional<LinkShape> shape = shape_plan_ ? shape_plan_(device, dial) : std::nullopt;
  connections_.push_back(std::make_unique<Connection>(
      events_, shape.value_or(link()),
      SeedOf(scenario_, kLinkBits, static_cast<uint64_t>(device) << 20 | dial),
      cut_plan_ ? cut_plan_(device, dial) : std::nullopt));
  Connection& connection = *connections_.back();
  connection.Attach(End::kDevice, listener);
  host_->Accept(connection, key, device);
  return connection;
}

Simulation::Expectation Simulation::Expected(size_t i) const {
  TokenHistory history({.vocabulary_size = world_.text().vocabulary_size(),
                        .capacity = length_max(),
                        .counts_tokens = scenario_.sampling.penalizes()});
  const StopConditions stops = *StopConditions::Create(StopsOf(scenario_), world_.tokenizer());
  Expectation expected;
  const auto write = [&](std::span<const TokenId> tokens) {
    OUTRIDER_CHECK_OK(history.Append(tokens));
    WriteAlone(world_.text(), *seats_[i].chooser, stops, history);
    expected.replies.emplace_back(history.reply().begin(), history.reply().end());
  };
  write(PromptOf(i));
  for (const Turn& turn : scenario_.turns) {
    if (turn.truncate_to) OUTRIDER_CHECK_OK(history.Truncate(*turn.truncate_to));
    write(turn.tokens);
  }
  expected.committed.assign(history.tokens().begin(), history.tokens().end());
  return expected;
}

std::vector<TokenId> Simulation::PromptOf(size_t i) const {
  if (const Trace* trace = world_.trace(); trace != nullptr) {
    return {trace->prompt().begin(), trace->prompt().end()};
  }
  if (!scenario_.prompts.empty()) return scenario_.prompts[i % scenario_.prompts.size()];
  Draw draw(SeedOf(scenario_, kPrompt, i));
  std::vector<TokenId> prompt(scenario_.prompt_length);
  const uint64_t words =
      static_cast<uint64_t>(world_.text().vocabulary_size()) - kVocabularyEnd - 1;
  for (TokenId& token : prompt)
    token = kVocabularyEnd + 1 + static_cast<TokenId>(draw.Below(words));
  return prompt;
}

uint32_t Simulation::length_max() const {
  size_t length = 0;
  for (size_t i = 0; i < scenario_.session_count; ++i)
    length = std::max(length, PromptOf(i).size());
  length += scenario_.max_tokens;
  for (const Turn& turn : scenario_.turns) length += turn.tokens.size() + scenario_.max_tokens;
  return static_cast<uint32_t>(length);
}

// Every session samples in its own way.
SamplingOptions Simulation::SamplingOf(size_t i) const {
  SamplingOptions sampling = scenario_.sampling;
  sampling.seed += i;
  return sampling;
}

void Simulation::AddHost() {
  const auto pages_of_one =
      static_cast<uint32_t>(PagesFor(length_max()) + PagesFor(scenario_.pass_nodes_max));
  VerifierConfig config;
  config.model_name = "synthetic";
  config.vocabulary_size = static_cast<uint32_t>(world_.text().vocabulary_size());
  config.context_length = length_max();
  config.pass_nodes_max = scenario_.pass_nodes_max;
  for (const double depth : world_.exits().depths()) {
    config.exit_depths.push_back(static_cast<uint32_t>(depth * 1000));
  }
  config.hint_order = scenario_.hint_order;
  config.sketch_nodes_max = scenario_.sketch.node_count_max;
  config.sequence_count_max = std::max(16u, scenario_.session_count);
  config.session_count_of_key_max = config.session_count_max;
  config.stream_count_of_key_max = config.stream_count_max;
  config.page_groups = {
      {.page_count =
           scenario_.sessions_in_memory.value_or(config.sequence_count_max) * pages_of_one}};
  config.forks_share_pages = true;
  config.drafts = scenario_.server_draft_time.has_value();
  config.draft_shares_cores = shared_processor() != nullptr;
  config.scheduler.row_count_max = scenario_.rows_max;
  host_ = std::make_unique<Host>(
      events_,
      Host::Options{.config = std::move(config),
                    .pass_time = scenario_.pass_time,
                    .prompt_token_time = scenario_.prompt_token_time,
                    .draft_token_time = scenario_.server_draft_time,
                    .exit_share = scenario_.exit_share,
                    .seed = SeedOf(scenario_, kHostBits, 0)},
      Host::Parts{world_.tokenizer(), world_.text(), world_.exits(),
                  [this](size_t i) -> const Drafts& { return *seats_[i].drafts; }, journal_,
                  shared_processor()});
}

void Simulation::AddDevice(size_t i) {
  Seat seat;
  seat.chooser =
      std::make_unique<Chooser>(*Chooser::Create(SamplingOf(i), world_.text().vocabulary_size()));
  if (world_.trace() != nullptr) {
    seat.drafts = std::make_unique<TracedDrafts>(*world_.trace(), world_.text(), *seat.chooser);
  } else {
    auto drafts = std::make_unique<SkilledDrafts>(scenario_.skill, SeedOf(scenario_, kDraftBits, i),
                                                  world_.text(), *seat.chooser);
    seat.skilled = drafts.get();
    seat.drafts = std::move(drafts);
  }
  seats_.push_back(std::move(seat));

  SimulatedDevice::Options options;
  options.session.prompt = PromptOf(i);
  options.session.sampling = SamplingOf(i);
  options.session.stops = StopsOf(scenario_);
  options.session.length_max = length_max();
  options.session.dry_policy = scenario_.dry_policy;
  options.session.hints = scenario_.hints;
  options.session.sketch = scenario_.sketch;
  options.session.link = scenario_.patience;
  options.policy = scenario_.policy;
  options.baseline = scenario_.baseline;
  options.draft_time = scenario_.draft_time;
  options.draft_workers = scenario_.draft_workers;
  options.assumed = scenario_.assumed;
  if (scenario_.greed && i == 0) {
    options.session.sketch.pass_node_count_max = scenario_.greed->pass_nodes;
    options.draft_time = scenario_.greed->draft_time;
  }
  if (scenario_.one_processor) {
    options.target_is_here = true;
    options.session.sketch.takes_turns = true;
    options.assumed.round_trip_ms = 0;
  }
  options.turns = scenario_.turns;
  options.alone_time = scenario_.alone_time;
  options.server_drafts = scenario_.server_draft_time.has_value();
  options.objective = scenario_.objective;
  options.sizes_passes = scenario_.sizes_passes;
  options.moves_every = scenario_.moves_every;
  options.seed = SeedOf(scenario_, kDeviceBits, i);
  devices_.push_back(std::make_unique<SimulatedDevice>(
      events_, std::move(options),
      SimulatedDevice::Parts{world_.tokenizer(), *seats_.back().drafts, world_.text(),
                             *seats_.back().chooser,
                             [this, i](Connection::Listener& listener) -> Connection& {
                               return Dial(i, listener, KeyOf(i));
                             },
                             journal_, i, draft_processor()}));
}

}  // namespace outrider
