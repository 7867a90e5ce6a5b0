// Experts from flash: what passes cost with room for some of them, by who is evicted and whether the
// next layer's are guessed, beside loading all of each layer and beside a cache that knows the future.
//
//   expert_flash passes MODEL.gguf TEXT [SHARE] [ROWS] [ROUNDS] [AGREEMENT] [WAY]
//   expert_flash routes FILE...
//
// passes   Turn by turn, 20 passes of ROWS (1) tokens a turn, ROUNDS (5) turns each, after 64 tokens of
//          a prompt and four turns that are not counted. SHARE (0.5) of all experts have a place; all
//          else is in memory. Whatever the logits of the first are, those of the others have to be.
//          Tokens are words of TEXT. What enters the first layer for one is a random vector of its
//          own and one that all of them share, AGREEMENT (0.3) of its variance: without it the tokens
//          of a random model agree about their experts by chance, or where attention drowns what they
//          are, about all of them; trained models are between (an expert was also the last token's in
//          36 to 45 %). So who is evicted is judged by `routes`, and what a read costs by `passes`.
//          WAY is one of those that are printed, alone: with memory for one of them. What the last pass
//          said is told as a hash, the same for all.
// routes   Routes that others have recorded of trained models ("route_trace v1" of
//          github.com/Helldez/BigMoeOnEdge: turn,phase,step,layer,slot,expert,...), replayed on the
//          same cache at several sizes, without reading anything.
//
// Both say how often the paper's profile (experts of the two layers before) names the experts of a
// layer: learnt on the first half, tried on the second.
#include <charconv>
#include <cstdio>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "bench/expert_flash/passes.h"
#include "bench/expert_flash/replay.h"
#include "common/base/status.h"

namespace outrider {
namespace {

template <typename Number>
bool Parse(std::string_view text, Number& number) {
  return std::from_chars(text.data(), text.data() + text.size(), number).ec == std::errc();
}

absl::Status Run(std::span<char*> arguments) {
  const std::string_view what = arguments.empty() ? "" : arguments[0];
  if (what == "routes" && arguments.size() > 1) {
    for (const char* const path : arguments.subspan(1))
      OUTRIDER_RETURN_IF_ERROR(ReplayRoutes(path));
    return absl::OkStatus();
  }
  if (what == "passes" && arguments.size() >= 3 && arguments.size() <= 8) {
    Settings settings = {.model = arguments[1], .text = arguments[2]};
    if (arguments.size() == 8) settings.way = arguments[7];
    if ((arguments.size() < 4 || Parse(arguments[3], settings.share)) &&
        (arguments.size() < 5 || Parse(arguments[4], settings.rows)) &&
        (arguments.size() < 6 || Parse(arguments[5], settings.rounds)) &&
        (arguments.size() < 7 || Parse(arguments[6], settings.agreement)) && settings.share > 0 &&
        settings.share <= 1 && settings.rows > 0 && settings.rows <= kPromptLength &&
        settings.rounds > 0) {
      return RunPasses(settings);
    }
  }
  return InvalidArgument(
      "usage: expert_flash passes MODEL.gguf TEXT [SHARE] [ROWS] [ROUNDS] [AGREEMENT] [WAY]\n"
      "       expert_flash routes FILE...");
}

}  // namespace
}  // namespace outrider

int main(int argc, char** argv) {
  const absl::Status status = outrider::Run(std::span(argv + 1, argv + argc));
  if (status.ok()) return 0;
  std::fprintf(stderr, "expert_flash: %s\n", std::string(outrider::Message(status)).c_str());
  return 1;
}
