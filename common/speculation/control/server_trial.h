// Whether drafting is better left to a server that has a draft of its own: tried, and looked at again.
//
//   ServerTrial trial(ServerFindings());
//   after a verdict:  at_server = trial.Decide(costs, may_gain);
//   at the end:       trial.findings()      where another text of its kind begins
//
// There are two sides, the draft here and the one at the server, and what is known of each is how fast
// text has been coming with it: tokens over time, of verdicts of late. Text goes in stretches of
// verdicts. In one it is drafted on the side that is better as far as is known; after it the other
// side is tried, for kTrial verdicts or until it is clearly behind; then the better one has the next
// stretch. How many tokens a verdict has is chance, so a lead that may be chance is looked at again
// soon, which costs little where there is little between the two; of a lead that cannot be the
// stretch is long, and twice as long each time. How long a verdict takes is hardly chance, so the lead
// is that of the times, and of the tokens as far as they show that the drafts differ. Where passes have
// come to take longer or less, nothing is known any more.
//
// Text begins at the server: whoever put a draft beside a target has a reason to, and no link is between
// the two. The first stretch is so long that the trial after it mostly ends with a lead that is no
// chance; but it ends soon where the target alone would bring more.
//
// What was found goes on from one text to the next, in the middle of a stretch: most texts are shorter than
// what it takes to know.
//
// A function of what it was told: no clock, no randomness, no allocation.
#pragma once

#include <cstdint>
#include <optional>

#include "common/speculation/costs/cost_model.h"

namespace outrider {

// How fast text came on one side.
struct Pace {
  double verdicts = 0;
  double tokens = 0;
  double ms = 0;

  double rate() const { return ms > 0 ? tokens / ms : 0; }

  bool operator==(const Pace&) const = default;
};

struct ServerFindings {
  static constexpr uint32_t kFirst = 48;     // verdicts of the first stretch
  static constexpr uint32_t kLongMin = 512;  // of a stretch after a lead that is no chance
  static constexpr uint32_t kLongMax = 2048;

  bool at_server = true;     // where drafting is
  bool tries = false;        // or it is only tried
  uint32_t verdicts = 0;     // of this stretch, so far
  uint32_t length = kFirst;  // of this stretch
  uint32_t next_long = kLongMin;
  Pace here = {};
  Pace there = {};

  // Whatever was read from a file.
  bool MakesSense() const;

  bool operator==(const ServerFindings&) const = default;
};

class ServerTrial {
 public:
  static constexpr uint32_t kTrial = 24;   // verdicts
  static constexpr uint32_t kSoon = 128;   // of a stretch after a lead that may be chance
  static constexpr double kMemory = 256;   // verdicts of a side that count
  static constexpr uint32_t kArrival = 3;  // verdicts of a stretch that are still of the one before
  static constexpr double kGainMin = 0.01;  // what text has to come sooner there
  static constexpr double kChange = 0.25;   // of a pass, to forget what is known
  static constexpr uint32_t kSettling = 9;  // verdicts of a text until it is known what passes take

  explicit ServerTrial(const ServerFindings& before) : found_(before) {}

  // After a verdict that `costs` has been told of: whether drafting is left to the server from here on.
  // It is not tried where it cannot gain.
  bool Decide(const CostModel& costs, bool may_gain);

  const ServerFindings& findings() const { return found_; }

 private:
  void Count(const CostModel& costs);
  bool HasChanged(const CostModel& costs);
  // Of the server.
  struct Lead {
    double log;  // of how much sooner text comes
    double deviation;
    bool IsClear() const;
  };
  std::optional<Lead> LeadOfServer() const;
  bool IsBehind() const;
  bool IsInVain(const CostModel& costs) const;
  void Choose();
  void Begin(bool at_server, bool tries, uint32_t length);

  ServerFindings found_;
  CostModel::Text counted_;  // of what the costs have been told
  uint32_t settling_ = 0;    // verdicts at the server, up to kSettling, since it was chosen
  double pass_ms_ = 0;       // there, then
};

}  // namespace outrider
