#include "common/engine/traced_target.h"

#include <cstdint>

#include "common/base/clock.h"

namespace outrider {
namespace {

constexpr ChromeTrace::Label kRun = {"run", {"passes", "nodes", "tokens read"}};

}  // namespace

void TracedTarget::Run(std::span<Reading> readings, std::span<const Pass> passes,
                       std::span<PassResult> results) {
  const MonotonicTime begin = RealClock().Now();
  OtherTarget::Run(readings, passes, results);
  size_t node_count = 0;
  for (const Pass& pass : passes) node_count += pass.nodes.size();
  size_t token_count = 0;
  for (const Reading& reading : readings) token_count += reading.tokens.size();
  trace_.Span(track_, kRun, begin, RealClock().Now(),
              {static_cast<uint32_t>(passes.size()), static_cast<uint32_t>(node_count),
               static_cast<uint32_t>(token_count)});
}

}  // namespace outrider
