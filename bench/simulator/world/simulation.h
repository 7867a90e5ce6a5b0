// Devices, links and a server in virtual time, with the real machines in all of them.
//
//   Simulation simulation(world, scenario);
//   simulation.Run();
//   simulation.device(0).shown();         // the text that its user got to see
//   simulation.Expected(0).committed;     // its tokens, as the target writes them alone
//
// Repeatable: the same world and scenario do the same, event for event.
//
// Threads: one.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/simulator/world/device.h"
#include "bench/simulator/world/event_queue.h"
#include "bench/simulator/world/host.h"
#include "bench/simulator/world/journal.h"
#include "bench/simulator/world/link.h"
#include "bench/simulator/world/scenario.h"
#include "common/base/status.h"

namespace outrider {

class Simulation {
 public:
  // All outlive it. Without a journal nothing is written down.
  Simulation(const World& world, const Scenario& scenario, Journal* journal = nullptr);

  // Where the connection that a device dials is to be cut. Asked for every one; none: nowhere.
  using CutPlan = std::function<std::optional<Cut>(size_t device, uint32_t dial)>;
  void SetCuts(CutPlan plan) { cut_plan_ = std::move(plan); }
  // The link it is over. Asked likewise; none: the scenario's.
  using ShapePlan = std::function<std::optional<LinkShape>(size_t device, uint32_t dial)>;
  void SetShapes(ShapePlan plan) { shape_plan_ = std::move(plan); }

  // Until every device is done, or nothing happens any more. False when `time_max` of virtual time
  // has passed before.
  bool Run(Duration time_max = std::chrono::hours(24));

  EventQueue& events() { return events_; }
  Host& host() { return *host_; }
  SimulatedDevice& device(size_t i) { return *devices_[i]; }
  const SimulatedDevice& device(size_t i) const { return *devices_[i]; }
  size_t device_count() const { return devices_.size(); }
  MonotonicTime begin() const { return begin_; }
  // Of everything a device dialled.
  const std::vector<std::unique_ptr<Connection>>& connections() const { return connections_; }

  // A connection over the link of a device, for those who talk to the host as somebody else.
  Connection& Dial(size_t device, Connection::Listener& listener, const std::string& key);
  size_t KeyNumberOf(size_t device) const;
  std::string KeyOf(size_t device) const { return Concat("key ", KeyNumberOf(device)); }

  // What device i has committed in the end when all goes well: prompt, replies, turns.
  struct Expectation {
    std::vector<TokenId> committed;
    std::vector<std::vector<TokenId>> replies;  // in full, even where the user cuts in
  };
  Expectation Expected(size_t i) const;

 private:
  // What a device needs for its own sampling.
  struct Seat {
    std::unique_ptr<Chooser> chooser;
    std::unique_ptr<Drafts> drafts;
    SkilledDrafts* skilled = nullptr;  // the same, if they are
    uint32_t dials = 0;
  };

  const LinkShape& link() const;
  Processor* shared_processor() { return scenario_.one_processor ? &processor_ : nullptr; }
  Processor* draft_processor() {
    return scenario_.one_draft_processor ? &draft_processor_ : shared_processor();
  }
  std::vector<TokenId> PromptOf(size_t i) const;
  uint32_t length_max() const;
  SamplingOptions SamplingOf(size_t i) const;
  void Apply(const Change& change);
  void AddHost();
  void AddDevice(size_t i);

  const World& world_;
  const Scenario& scenario_;
  Journal* const journal_;
  EventQueue events_;
  Processor processor_{events_};  // where there is one for all
  Processor draft_processor_;     // where there is one for all drafts
  const MonotonicTime begin_;
  CutPlan cut_plan_;
  ShapePlan shape_plan_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::vector<Seat> seats_;
  std::unique_ptr<Host> host_;
  std::vector<std::unique_ptr<SimulatedDevice>> devices_;
};

}  // namespace outrider
