// Exits for a model that nobody has trained: the adapters are identities, so each says what the
// target's head makes of a state half way. They are often wrong, and sure of it.
//
//   identity_exits model.gguf out.exits.gguf 200      after every layer but the last; the first 200
//                                                     tokens of words are the frequent ones
#include <charconv>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

#include "common/base/status.h"
#include "common/base/thread_pool.h"
#include "common/formats/models/exits_file.h"
#include "common/formats/models/model_file.h"
#include "common/model/exits/exit_scorer.h"
#include "common/model/model_spec.h"
#include "common/model/weights/resident_weights.h"

namespace outrider {
namespace {

constexpr TokenId kFirstWord = 259;  // after the bytes of a SentencePiece vocabulary

absl::Status Run(const char* model_path, const char* out, uint32_t frequent_count) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<ModelFile> model, ModelFile::Open(model_path));
  OUTRIDER_ASSIGN_OR_RETURN(const ModelSpec spec, ModelSpec::From(*model, model_path));
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<ThreadPool> pool, ThreadPool::Create(1));
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<ResidentWeights> weights,
                            ResidentWeights::Load(*model, spec, model_path, *pool, nullptr));
  TrainedExits exits;
  exits.target = DescribeForExits(spec, weights->content_hash());
  for (uint32_t layer = 0; layer + 1 < exits.target.layer_count; ++layer) {
    TrainedExit exit{.layer = layer, .rank = 1};
    exit.down.assign(spec.embedding_length, 0);
    exit.up.assign(spec.embedding_length, 0);
    exits.exits.push_back(exit);
  }
  for (uint32_t i = 0; i < frequent_count; ++i) {
    exits.frequent_tokens.push_back(kFirstWord + static_cast<TokenId>(i));
  }
  return WriteExits(exits, out);
}

}  // namespace
}  // namespace outrider

int main(int argc, char** argv) {
  uint32_t frequent_count = 0;
  const std::string_view text = argc == 4 ? argv[3] : "";
  if (std::from_chars(text.data(), text.data() + text.size(), frequent_count).ec != std::errc()) {
    std::fputs("usage: identity_exits MODEL OUT FREQUENT_TOKENS\n", stderr);
    return 2;
  }
  const absl::Status status = outrider::Run(argv[1], argv[2], frequent_count);
  if (status.ok()) return 0;
  std::fprintf(stderr, "identity_exits: %s\n", std::string(outrider::Message(status)).c_str());
  return 1;
}
