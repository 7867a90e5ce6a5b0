// A model that has grown says what it said: logits, to the bit where the scale of its norms is a
// power of two, and text.
#include "bench/inflater/inflate.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/engine/cpu_target.h"
#include "common/formats/models/convert.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/base/scratch_dir.h"
#include "tests/engine/guesses.h"
#include "tests/model/engine.h"
#include "tests/model/exits.h"
#include "tests/model/random_model.h"
#include "tests/model/stories.h"

namespace outrider {
namespace {

using Logits = std::vector<std::vector<float>>;

std::vector<TokenId> RandomTokens(size_t count) {
  std::mt19937 random(7);
  std::vector<TokenId> tokens(count);
  for (TokenId& token : tokens) token = static_cast<TokenId>(random() % 200);
  return tokens;
}

class InflateTest : public testing::Test {
 protected:
  std::string Grow(const std::string& path, const InflateOptions& options) {
    const std::string out = dir_.File("large.gguf");
    const auto model = OrDie(ModelFile::Open(path));
    uint64_t written = 0;
    OUTRIDER_CHECK_OK(Inflate(*model, path, out, options,
                              [&](uint64_t bytes, std::string_view) { written += bytes; }));
    EXPECT_EQ(written, OrDie(InflatedBytes(*model, path, options)));
    return out;
  }
  std::string Small(const std::string& family, TensorType type) {
    const std::string path = dir_.File("small.gguf");
    WriteRandomModel(SmallModel(family), type, path);
    return path;
  }
  static Logits LogitsOf(const std::string& path) {
    LoadedModel engine(path);
    const auto sequence = engine.NewSequence();
    return engine.Read(*sequence, RandomTokens(40));
  }
  absl::Status Refused(const std::string& path, const InflateOptions& options) {
    return Inflate(*OrDie(ModelFile::Open(path)), "m.gguf", dir_.File("no.gguf"), options, nullptr);
  }

  ScratchDir dir_;
};

void ExpectSameBits(const Logits& actual, const Logits& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    ASSERT_EQ(actual[i].size(), expected[i].size());
    EXPECT_EQ(std::memcmp(actual[i].data(), expected[i].data(), 4 * actual[i].size()), 0) << i;
  }
}

// The norms' mean squares are divided by other numbers: a relative error of a few 2^-24. That is
// enough to round a key or value to the next half, 2^-11 of one element of 64, here and there.
TEST_F(InflateTest, LogitsAreTheSameButForRounding) {
  for (const std::string family : {"llama", "mistral", "qwen2"}) {
    SCOPED_TRACE(family);
    const std::string small = Small(family, TensorType::kF32);
    const std::string large = Grow(small, {.embedding_length = 328,
                                           .block_count = 5,
                                           .head_count = 12,
                                           .kv_head_count = 4,
                                           .feed_forward_length = 700});
    const Logits expected = LogitsOf(small);
    const Logits actual = LogitsOf(large);
    for (size_t i = 0; i < expected.size(); ++i) {
      const float largest = std::ranges::max(expected[i]);
      for (size_t n = 0; n < expected[i].size(); ++n) {
        ASSERT_NEAR(actual[i][n], expected[i][n], 1e-4 * largest) << "token " << n << " at " << i;
      }
    }
    const auto grown = OrDie(ModelFile::Open(large));
    EXPECT_EQ(grown->hyperparameters().embedding_length, 328u);
    EXPECT_EQ(grown->hyperparameters().block_count, 5u);
    EXPECT_EQ(grown->hyperparameters().head_count, std::vector<uint32_t>(5, 12));
    EXPECT_EQ(grown->hyperparameters().head_count_kv, std::vector<uint32_t>(5, 4));
    EXPECT_EQ(grown->hyperparameters().feed_forward_length, 700u);
  }
}

// Twice the size of everything in a norm is a shift of exponents.
TEST_F(InflateTest, FourTimesTheWidthIsTheSameToTheBit) {
  for (const TensorType type : {TensorType::kF32, TensorType::kF16, TensorType::kQ8_0,
                                TensorType::kQ4_0, TensorType::kQ4_K, TensorType::kQ6_K}) {
    SCOPED_TRACE(Name(type));
    const std::string small = Small("llama", type);
    ExpectSameBits(LogitsOf(Grow(small, {.embedding_length = 1024,
                                         .block_count = 3,
                                         .head_count = 8,
                                         .kv_head_count = 4,
                                         .feed_forward_length = 768})),
                   LogitsOf(small));
  }
}

// Four queries on two key heads, dealt out every way.
TEST_F(InflateTest, GroupsOfHeadsMayChange) {
  const std::string small = Small("qwen2", TensorType::kF32);
  const Logits expected = LogitsOf(small);
  for (const auto& [heads, kv_heads] :
       {std::pair{4, 4}, {8, 2}, {8, 8}, {6, 3}, {6, 2}, {5, 5}, {12, 3}, {30, 10}}) {
    SCOPED_TRACE(Concat(heads, " heads, ", kv_heads, " key heads"));
    ExpectSameBits(LogitsOf(Grow(small, {.head_count = static_cast<uint32_t>(heads),
                                         .kv_head_count = static_cast<uint32_t>(kv_heads)})),
                   expected);
  }
}

TEST_F(InflateTest, HeadsWithNormsGrowInAllButWidth) {
  const std::string small = Small("qwen3", TensorType::kQ8_0);
  ExpectSameBits(
      LogitsOf(Grow(
          small,
          {.block_count = 7, .head_count = 8, .kv_head_count = 2, .feed_forward_length = 1024})),
      LogitsOf(small));
}

// Layer l of 2 ends where its share of the depth ends.
TEST_F(InflateTest, OldLayersAreSpreadOverTheDepth) {
  const std::string small = Small("llama", TensorType::kF32);
  const auto old_model = OrDie(ModelFile::Open(small));
  const auto grown = OrDie(ModelFile::Open(Grow(small, {.block_count = 5})));
  const auto bytes_of = [](const ModelFile& model, uint32_t layer) {
    const ModelTensor* const tensor = model.Find(Concat("blk.", layer, ".ffn_down.weight"));
    std::vector<std::byte> bytes(tensor->bytes);
    OUTRIDER_CHECK_OK(model.ReadRows(*tensor, 0, tensor->row_count(), bytes));
    return bytes;
  };
  EXPECT_EQ(bytes_of(*grown, 2), bytes_of(*old_model, 0));
  EXPECT_EQ(bytes_of(*grown, 4), bytes_of(*old_model, 1));
  for (const uint32_t layer : {0, 1, 3}) {
    EXPECT_TRUE(std::ranges::all_of(bytes_of(*grown, layer),
                                    [](std::byte byte) { return byte == std::byte{0}; }));
  }
}

std::vector<TokenId> GreedyText(const std::string& path, size_t count) {
  const auto pool = OrDie(ThreadPool::Create(2));
  const auto target = OrDie(LoadCpuTarget(*OrDie(ModelFile::Open(path)), path, {},
                                          KernelsFor(BestIsa()), *pool, nullptr));
  const auto vocabulary_size = static_cast<int32_t>(target->info().vocabulary_size);
  const Chooser chooser = OrDie(Chooser::Create({}, vocabulary_size));
  TokenHistory history({.vocabulary_size = vocabulary_size, .capacity = count + 1});
  const SequenceId id = OrDie(target->CreateSequence());
  const std::vector<TokenId> prompt = {1};
  OUTRIDER_CHECK_OK(target->Prefill(id, prompt, nullptr));
  OUTRIDER_CHECK_OK(history.Append(prompt));
  while (history.size() <= count) {
    const Pass pass = {id, {}, &chooser, &history};
    PassResult result;
    target->Run({}, {&pass, 1}, {&result, 1});
    OUTRIDER_CHECK_OK(result.status);
    OUTRIDER_CHECK_OK(target->Commit(id, result.outcome));
    OUTRIDER_CHECK_OK(history.Append({&result.outcome.next, 1}));
  }
  return {history.tokens().begin(), history.tokens().end()};
}

TEST_F(InflateTest, ARealModelTellsTheSameStory) {
  const std::vector<TokenId> story = GreedyText(Stories(), 100);
  EXPECT_GT(std::set<TokenId>(story.begin(), story.end()).size(), 20u);  // and no loop
  EXPECT_EQ(GreedyText(Grow(Stories(), {.embedding_length = 160,
                                        .block_count = 12,
                                        .head_count = 20,
                                        .kv_head_count = 10,
                                        .feed_forward_length = 512}),
                       100),
            story);
  EXPECT_EQ(OrDie(OrDie(ModelFile::Open(dir_.File("large.gguf")))->ReadTokenizer()).tokens.size(),
            OrDie(OrDie(ModelFile::Open(Stories()))->ReadTokenizer()).tokens.size());
}

// Quantised while it grows, it is the small one quantised, blocks being whole.
TEST_F(InflateTest, QuantisingComesToTheSameBeforeAndAfter) {
  const std::string small = dir_.File("q8_0.gguf");
  OUTRIDER_CHECK_OK(Convert(*OrDie(ModelFile::Open(Stories())), small, {.type = TensorType::kQ8_0},
                            [](uint64_t, std::string_view) {}));
  const std::string large = Grow(Stories(), {.embedding_length = 256,
                                             .block_count = 6,
                                             .feed_forward_length = 256,
                                             .type = TensorType::kQ8_0});
  EXPECT_EQ(OrDie(ModelFile::Open(large))->Find("blk.3.ffn_up.weight")->type, TensorType::kQ8_0);
  EXPECT_EQ(GreedyText(large, 60), GreedyText(small, 60));
}

// The guesses of three passes, at every exit.
std::vector<ExitGuess> GuessesOf(const std::string& path, const TrainedExits* exits,
                                 const InflateOptions& options, const ModelFile* small) {
  const auto pool = OrDie(ThreadPool::Create(2));
  const auto target = OrDie(LoadCpuTarget(*OrDie(ModelFile::Open(path)), path, {},
                                          KernelsFor(BestIsa()), *pool, nullptr));
  const TrainedExits own = exits == nullptr
                               ? RandomExits(target->engine().spec(),
                                             target->engine().info().content_hash, {0}, 16, 0.2f)
                               : OrDie(InflateExits(*exits, "e", *small, "m", options,
                                                    target->engine().info().content_hash));
  GuessKeeper keeper;
  OUTRIDER_CHECK_OK(target->AttachExits(own, "e", {}));
  target->HearExits(&keeper);
  const SequenceId id = OrDie(target->CreateSequence());
  const std::vector<TokenId> prompt = RandomTokens(9);
  OUTRIDER_CHECK_OK(target->Prefill(id, prompt, nullptr));
  TokenHistory history({.vocabulary_size = 200, .capacity = 9});
  OUTRIDER_CHECK_OK(history.Append(prompt));
  const std::vector<DraftedNode> nodes = {{3, DraftedNode::kRoot}, {10, 0}, {17, 1}};
  for (const double temperature : {0.0, 0.8, 1.5}) {
    SamplingOptions sampling;
    sampling.temperature = temperature;
    const Chooser chooser = OrDie(Chooser::Create(sampling, 200));
    const Pass pass = {id, nodes, &chooser, &history};
    PassResult result;
    target->Run({}, {&pass, 1}, {&result, 1});
    OUTRIDER_CHECK_OK(result.status);
  }
  return keeper.guesses();
}

TEST_F(InflateTest, ExitsGrowWithTheirTarget) {
  const std::string path = Small("llama", TensorType::kQ8_0);
  const auto small = OrDie(ModelFile::Open(path));
  LoadedModel engine(path);
  const TrainedExits exits =
      RandomExits(engine.spec, engine.weights->content_hash(), {0}, 16, 0.2f);
  const InflateOptions options = {.embedding_length = 1024, .block_count = 6};
  const std::vector<ExitGuess> expected = GuessesOf(path, nullptr, {}, nullptr);
  const std::vector<ExitGuess> actual =
      GuessesOf(Grow(path, options), &exits, options, small.get());
  ASSERT_EQ(actual.size(), 3u);
  ASSERT_EQ(expected.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(expected[i].layer, 0u);
    EXPECT_EQ(actual[i].layer, 2u);
    EXPECT_EQ(actual[i].outcome.node, expected[i].outcome.node);
    EXPECT_EQ(actual[i].outcome.next, expected[i].outcome.next);
    EXPECT_EQ(actual[i].probability, expected[i].probability);
    EXPECT_EQ(actual[i].evidence.entropy, expected[i].evidence.entropy);
  }
  TrainedExits others = exits;
  others.target.embedding_length = 8;
  EXPECT_THAT(std::string(Message(InflateExits(others, "e", *small, "m", options, 1).status())),
              testing::HasSubstr("e: is for a target of 2 layers of 8, and m has 2 of 256"));
}

TEST_F(InflateTest, WhatCannotGrowIsRefused) {
  const auto refuse = [&](const std::string& path, const InflateOptions& options,
                          const std::string& part) {
    const absl::Status status = Refused(path, options);
    EXPECT_FALSE(status.ok());
    EXPECT_THAT(std::string(Message(status)), testing::HasSubstr(part));
    EXPECT_FALSE(dir_.Names().contains("no.gguf"));
  };
  const std::string llama = Small("llama", TensorType::kQ8_0);
  refuse(llama, {.embedding_length = 255},
         "m.gguf: has 256 where --width asks for 255; a model only grows");
  refuse(llama, {.block_count = 1}, "has 2 where --layers asks for 1");
  refuse(llama, {.feed_forward_length = 300}, "has 512 where --feed-forward asks for 300");
  refuse(llama, {.head_count = 3}, "has 4 where --heads asks for 3");
  refuse(llama, {.kv_head_count = 1}, "has 2 where --kv-heads asks for 1");
  refuse(llama, {.head_count = 9, .kv_head_count = 6}, "9 heads cannot share 6 key heads evenly");
  refuse(llama, {.embedding_length = 320, .type = TensorType::kQ4_K},
         "rows of token_embd.weight would have 320 elements, which is no whole number of Q4_K "
         "blocks; ask for a multiple of 256");
  refuse(llama, {.embedding_length = 300}, "no whole number of Q8_0 blocks");
  refuse(Small("gpt2", TensorType::kF32), {.embedding_length = 512}, "has layer norms");
  refuse(Small("qwen3", TensorType::kF32), {.embedding_length = 512}, "has norms in its heads");
  Hyperparameters wide = SmallModel("llama");
  wide.head_count = {8, 8};
  WriteRandomModel(wide, TensorType::kF32, llama);
  refuse(llama, {.head_count = 9, .kv_head_count = 3},
         "has 2 key heads of 4 queries each, which need 4 of 3 queries; ask for --kv-heads 4");
}

TEST_F(InflateTest, KnownShapesTakeHeadsOfTheModelsLength) {
  const std::string small = Small("llama", TensorType::kF32);
  const auto model = OrDie(ModelFile::Open(small));
  const InflateOptions shape = OrDie(ShapeLike("1b", *model, small));
  EXPECT_EQ(shape.embedding_length, 2048u);
  EXPECT_EQ(shape.block_count, 16u);
  EXPECT_EQ(shape.head_count, 32u);
  EXPECT_EQ(shape.kv_head_count, 8u);
  EXPECT_EQ(shape.feed_forward_length, 8192u);
  // Five key heads that serve a query each have no room among the four of TinyLlama.
  Hyperparameters five = SmallModel("llama");
  five.head_count = five.head_count_kv = {5, 5};
  const std::string many = dir_.File("five.gguf");
  WriteRandomModel(five, TensorType::kF32, many);
  const InflateOptions room = OrDie(ShapeLike("1.1b", *OrDie(ModelFile::Open(many)), many));
  EXPECT_EQ(room.head_count, 32u);
  EXPECT_EQ(room.kv_head_count, 8u);
  EXPECT_THAT(std::string(Message(ShapeLike("9z", *model, small).status())),
              testing::HasSubstr("'9z' is no shape known here; 1b, 1.1b, 3b and 8b are"));
  Hyperparameters odd = SmallModel("llama");
  odd.key_length = odd.value_length = 48;
  odd.rope.dimension_count = 48;
  WriteRandomModel(odd, TensorType::kF32, small);
  EXPECT_THAT(std::string(Message(ShapeLike("1b", *OrDie(ModelFile::Open(small)), small).status())),
              testing::HasSubstr("has heads of 48, which must stay as long"));
}

}  // namespace
}  // namespace outrider
