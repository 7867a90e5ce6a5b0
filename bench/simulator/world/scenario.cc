#include "bench/simulator/world/scenario.h"

#include <utility>

#include "bench/simulator/sources/text.h"
#include "bench/simulator/sources/vocabulary.h"
#include "common/base/status.h"

namespace outrider {

absl::StatusOr<std::unique_ptr<World>> World::Create(const Options& options) {
  std::unique_ptr<World> world(new World);
  int32_t vocabulary_size = options.vocabulary_size;
  if (!options.trace_path.empty()) {
    OUTRIDER_ASSIGN_OR_RETURN(world->trace_, Trace::Read(options.trace_path));
    vocabulary_size = world->trace_->vocabulary_size();
    world->text_ = std::make_unique<TracedText>(*world->trace_);
    world->exits_ = std::make_unique<TracedExits>(*world->trace_);
  } else if (options.sampled) {
    const SampledText::Options sampled{.seed = options.seed};
    vocabulary_size = sampled.vocabulary_size;
    world->text_ = std::make_unique<SampledText>(sampled);
  } else {
    world->text_ =
        std::make_unique<HashedText>(HashedText::Options{.seed = options.seed,
                                                         .vocabulary_size = vocabulary_size,
                                                         .end_rate = options.end_rate,
                                                         .end_token = kVocabularyEnd});
  }
  if (world->exits_ == nullptr) {
    OUTRIDER_ASSIGN_OR_RETURN(SyntheticExits exits,
                              SyntheticExits::Parse(options.exits, options.seed, vocabulary_size));
    world->exits_ = std::make_unique<SyntheticExits>(std::move(exits));
  }
  if (vocabulary_size <= kVocabularyEnd + 1) {
    return InvalidArgument("a vocabulary of ", vocabulary_size,
                           " tokens is too small: ", "three of them are special");
  }
  world->tokenizer_ = MakeVocabulary(vocabulary_size);
  return world;
}

}  // namespace outrider
