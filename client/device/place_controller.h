// Beside a session that has a server and, behind it, a target of this device: a controller for
// each, what passes cost at each, and which of the two it is to be at.
//
//   PlaceController controller(at_server, {at_device, assumed}, costs, prefer);
//   verifier.TellMoves([&](Place place) { controller.Moved(place); });
//
// Passes at one place tell nothing of those at the other, so the session's costs are exchanged when
// it moves. What is compared is the same at both: the time of a token, in which everything has
// gone, link, queue, flash and draft. Of a place that the session has not been at it is a pass
// there, with the tokens passes have here. Where the device's is surely less (kGain) it is tried,
// and kept if it was, with a look at the server now and then; if it was not, that is believed until
// the session has been there again, for want of a link.
//
// What cannot be reached is no matter of this one: the verifier (fallback_verifier.h) moves by
// itself.
//
// Threads: as a vector.
#pragma once

#include <array>
#include <cstdint>
#include <functional>

#include "client/verifier/fallback_verifier.h"
#include "common/speculation/control/controller.h"
#include "common/speculation/costs/cost_model.h"

namespace outrider {

class PlaceController final : public Controller {
 public:
  using Place = FallbackVerifier::Place;

  static constexpr double kGain = 0.25;
  static constexpr uint32_t kTrial = 16;  // verdicts
  static constexpr uint32_t kRestFirst = 64;
  static constexpr uint32_t kRestMax = 2048;

  struct Side {
    Controller& controller;
    CostModel::Assumed assumed;
  };

  // `costs` are the session's, and are the server's now. Controllers and costs outlive it.
  PlaceController(Controller& server, const Side& device, CostModel& costs,
                  std::function<void(Place)> prefer);

  const Course& course() const override { return here().course(); }
  Findings findings() const override { return here().findings(); }
  void Hinted(HintWorth worth) override { here().Hinted(worth); }
  void Decided(const DraftView& draft) override;

  // The session has.
  void Moved(Place place);
  // After a verdict that the costs have been told of: where the session is to be.
  Place Choose();

  Place place() const { return place_; }
  uint64_t verdicts_at(Place place) const { return counts_[Index(place)]; }
  uint64_t moves() const { return moves_; }
  const CostModel& costs_at(Place place) const { return place == place_ ? costs_ : elsewhere_; }

 private:
  static size_t Index(Place place) { return static_cast<size_t>(place); }
  Controller& here() const { return *controllers_[Index(place_)]; }
  double DeviceRate() const;
  Place StayedAtServer();
  Place StayedAtDevice();

  const std::array<Controller*, 2> controllers_;
  CostModel& costs_;     // of where the session is
  CostModel elsewhere_;  // of the other place
  const std::function<void(Place)> prefer_;

  Place place_ = Place::kServer;
  Place wanted_ = Place::kServer;
  uint64_t moves_ = 0;
  std::array<uint64_t, 2> counts_ = {};  // verdicts
  uint32_t stayed_ = 0;                  // of them, since it came here
  uint32_t rest_ = kRestFirst;           // at the device, until the server is looked at again
  double server_rate_ = 0;               // tokens per millisecond when it was left by choice
};

}  // namespace outrider
