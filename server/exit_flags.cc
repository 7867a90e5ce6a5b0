#include "server/exit_flags.h"

#include <map>

#include "CLI/CLI.hpp"
#include "server/config/choice_flag.h"

namespace outrider {
namespace {

const std::map<std::string, ExitScope> kScopes = {{"candidates", ExitScope::kCandidates},
                                                  {"full", ExitScope::kFull}};
const std::map<std::string, HintOrder> kOrders = {{"probability", HintOrder::kProbability},
                                                  {"softmax", HintOrder::kSoftmax},
                                                  {"arrival", HintOrder::kArrival},
                                                  {"random", HintOrder::kRandom}};

}  // namespace

void AddExitFlags(CLI::App& app, ExitFlags& flags) {
  app.add_option("--exits", flags.file,
                 "Exit heads of the model, which tell devices half-way through a pass what it is "
                 "coming to; none: without (default: model.exits.gguf beside model.gguf, or "
                 "exits.gguf in a directory, if it is there)")
      ->envname("OUTRIDER_EXITS");
  AddChoice(app, "--exit-scope", flags.scope, kScopes,
            "What exits score: candidates, which is the draft's tokens and frequent ones, or "
            "full, every token, at many times the price")
      ->envname("OUTRIDER_EXIT_SCOPE");
  AddChoice(app, "--exit-order", flags.order, kOrders,
            "Which hint goes first where several wait for a slow link: probability, the most "
            "probable one as calibrated; softmax, that of the largest softmax; arrival; random")
      ->envname("OUTRIDER_EXIT_ORDER");
}

}  // namespace outrider
