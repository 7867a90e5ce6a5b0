#include "client/device/place_controller.h"

#include <algorithm>
#include <utility>

namespace outrider {

PlaceController::PlaceController(Controller& server, const Side& device, CostModel& costs,
                                 std::function<void(Place)> prefer)
    : controllers_({&server, &device.controller}),
      costs_(costs),
      elsewhere_(device.assumed),
      prefer_(std::move(prefer)) {}

void PlaceController::Decided(const DraftView& draft) {
  here().Decided(draft);
  const Place before = wanted_;
  if (Choose() != before) prefer_(wanted_);
}

void PlaceController::Moved(Place place) {
  if (place == place_) return;
  place_ = place;
  stayed_ = 0;
  ++moves_;
  std::swap(costs_, elsewhere_);
}

PlaceController::Place PlaceController::Choose() {
  ++counts_[Index(place_)];
  ++stayed_;
  wanted_ = place_ == Place::kServer ? StayedAtServer() : StayedAtDevice();
  return wanted_;
}

// Tokens per millisecond, as far as is known: draft and target take turns there, and a token
// further down is a batch of the draft more.
double PlaceController::DeviceRate() const {
  if (counts_[Index(Place::kDevice)] >= kTrial) return elsewhere_.tokens_per_ms();
  const double tokens = costs_.tokens_per_pass();
  return tokens / (elsewhere_.recent_pass_ms() + tokens * costs_.DraftMs(1));
}

PlaceController::Place PlaceController::StayedAtServer() {
  if (wanted_ == Place::kDevice || stayed_ < kTrial) return wanted_;
  if (DeviceRate() < (1 + kGain) * costs_.tokens_per_ms()) return Place::kServer;
  server_rate_ = costs_.tokens_per_ms();
  return Place::kDevice;
}

// Where it has come to by itself, it goes back by itself.
PlaceController::Place PlaceController::StayedAtDevice() {
  if (wanted_ == Place::kServer || stayed_ < kTrial) return wanted_;
  const bool is_sooner = costs_.tokens_per_ms() > server_rate_;
  if (is_sooner && stayed_ < rest_) return Place::kDevice;
  if (is_sooner) rest_ = std::min(2 * rest_, kRestMax);
  return Place::kServer;
}

}  // namespace outrider
