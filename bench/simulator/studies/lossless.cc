#include "bench/simulator/studies/lossless.h"

#include <algorithm>
#include <span>

#include "common/base/status.h"

namespace outrider {
namespace {

absl::Status Differs(size_t session, std::string_view what, std::span<const TokenId> is,
                     std::span<const TokenId> should_be) {
  const auto at = std::ranges::mismatch(is, should_be).in1 - is.begin();
  return absl::InternalError(Concat("session ", session, " ", what, " ", is.size(), " tokens, the ",
                                    "target alone ", should_be.size(), "; they part at ", at));
}

// The user of a reply that was cut into has seen some of it, of all others the whole.
absl::Status CheckShown(size_t session, const SimulatedDevice& device,
                        const std::vector<std::vector<TokenId>>& replies) {
  const std::span<const size_t> begins = device.reply_begins();
  if (begins.size() != replies.size()) {
    return absl::InternalError(
        Concat("session ", session, " has had ", begins.size(), " replies, not ", replies.size()));
  }
  for (size_t i = 0; i < begins.size(); ++i) {
    const size_t end = i + 1 < begins.size() ? begins[i + 1] : device.shown().size();
    const auto shown = device.shown().subspan(begins[i], end - begins[i]);
    const bool is_cut = shown.size() < replies[i].size() && device.cut_into(i);
    const auto should_be =
        is_cut ? std::span(replies[i]).first(shown.size()) : std::span(replies[i]);
    if (!std::ranges::equal(shown, should_be)) {
      return Differs(session, Concat("has shown, as reply ", i, ","), shown, should_be);
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckTexts(const Simulation& simulation) {
  for (size_t i = 0; i < simulation.device_count(); ++i) {
    const SimulatedDevice& device = simulation.device(i);
    if (device.end() && !device.end()->ok()) {
      return Annotate(*device.end(), Concat("session ", i, " has failed"));
    }
    const Simulation::Expectation expected = simulation.Expected(i);
    const std::span<const TokenId> committed = device.session().committed();
    if (!std::ranges::equal(committed, expected.committed)) {
      return Differs(i, "has committed", committed, expected.committed);
    }
    OUTRIDER_RETURN_IF_ERROR(CheckShown(i, device, expected.replies));
  }
  return absl::OkStatus();
}

}  // namespace outrider
