// What Prometheus is told of a server: counts, gauges and histograms in its text format.
//
// Names are those that dashboards know from other servers of models, behind "outrider:". README.md has
// a table of them.
#pragma once

#include <optional>
#include <string>

#include "common/verification/verifier_driver.h"
#include "server/operations/entrance_log.h"

namespace outrider {

struct ServedModel {
  std::string name;
  std::string numerics_id;
};

// Without a model and its stats, which are none while it is being loaded, what is known of the
// process.
std::string MetricsText(const std::optional<ServedModel>& model,
                        const std::optional<VerifierDriver::Stats>& stats,
                        const EntranceStats& entrance);

}  // namespace outrider
