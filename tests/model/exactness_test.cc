// The first promise, bit for bit: what a row comes to depends on its token, its position and the
// keys it sees, whoever computes it beside whom. Every test compares logits with memcmp's
// strictness against the plainest way of computing them: one token after another, alone.
#include <bit>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "common/formats/models/content_hash.h"
#include "gtest/gtest.h"
#include "tests/base/scratch_dir.h"
#include "tests/model/engine.h"
#include "tests/model/random_model.h"

namespace outrider {
namespace {

using Logits = std::vector<std::vector<float>>;

struct Model {
  std::string family;
  TensorType type;
};

std::string NameOf(const Model& model) {
  return model.family + "_" + std::string(Name(model.type));
}

void PrintTo(const Model& model, std::ostream* out) {
  *out << NameOf(model);
}

// Every type with the first family, those that differ most with the others.
std::vector<Model> Models() {
  std::vector<Model> models;
  for (const TensorType type :
       {TensorType::kF32, TensorType::kF16, TensorType::kBF16, TensorType::kQ8_0, TensorType::kQ4_0,
        TensorType::kQ4_K, TensorType::kQ6_K, TensorType::kQ4_1, TensorType::kQ5_K,
        TensorType::kQ5_0, TensorType::kQ5_1, TensorType::kIQ4_NL, TensorType::kIQ4_XS,
        TensorType::kQ3_K, TensorType::kQ2_K, TensorType::kMXFP4}) {
    models.push_back({"llama", type});
  }
  for (const char* family : {"mistral", "qwen2", "qwen3", "gpt2", "mixtral", "qwen3moe", "olmoe"}) {
    for (const TensorType type : {TensorType::kF32, TensorType::kQ8_0, TensorType::kQ4_K}) {
      models.push_back({family, type});
    }
  }
  for (const char* family :
       {"gemma", "gemma2", "gemma3", "phi3", "smollm3", "granite", "granitemoe", "olmo2",
        "stablelm", "stablelm2", "qwen2moe", "cohere2", "exaone4", "gptoss", "ministral3"}) {
    models.push_back({family, TensorType::kF32});
    models.push_back({family, TensorType::kQ4_K});
  }
  return models;
}

std::vector<TokenId> RandomTokens(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<TokenId> tokens(count);
  for (TokenId& token : tokens) token = static_cast<TokenId>(random() % 200);
  return tokens;
}

// As bits: a NaN equals itself, and -0 differs from 0.
std::vector<uint32_t> Bits(const std::vector<float>& row) {
  std::vector<uint32_t> bits;
  for (const float value : row) bits.push_back(std::bit_cast<uint32_t>(value));
  return bits;
}

void ExpectSameBits(const std::vector<float>& actual, const std::vector<float>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  EXPECT_TRUE(Bits(actual) == Bits(expected));
}

class Exactness : public testing::TestWithParam<Model> {
 protected:
  Exactness() {
    path_ = dir_.File("model.gguf");
    WriteRandomModel(SmallModel(GetParam().family), GetParam().type, path_);
  }

  // One token after another.
  static Logits Plainly(LoadedModel& engine, std::span<const TokenId> tokens) {
    const auto sequence = engine.NewSequence();
    Logits logits;
    for (const TokenId& token : tokens) {
      logits.push_back(std::move(engine.Read(*sequence, {&token, 1})[0]));
    }
    return logits;
  }

  ScratchDir dir_;
  std::string path_;
};

TEST_P(Exactness, ChunksOfAPromptChangeNothing) {
  LoadedModel engine(path_);
  const std::vector<TokenId> tokens = RandomTokens(66, 1);
  const Logits expected = Plainly(engine, tokens);
  for (const size_t chunk : {2, 5, 16, 31, 32, 33, 64}) {
    SCOPED_TRACE(chunk);
    const auto sequence = engine.NewSequence();
    for (size_t at = 0; at < tokens.size(); at += chunk) {
      const size_t count = std::min(chunk, tokens.size() - at);
      const Logits logits = engine.Read(*sequence, std::span(tokens).subspan(at, count));
      for (size_t i = 0; i < count; ++i) ExpectSameBits(logits[i], expected[at + i]);
    }
  }
}

// A tree of 31 nodes below the root: chains, bushes, a child of the first after the last.
std::vector<DraftedNode> RandomTree(uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<DraftedNode> nodes;
  for (uint32_t i = 0; i < 31; ++i) {
    const uint32_t above = random() % (i + 1);
    const bool deep = i > 0 && random() % 3 > 0;
    nodes.push_back({static_cast<TokenId>(random() % 200), deep         ? i - 1
                                                           : above == i ? DraftedNode::kRoot
                                                                        : above});
  }
  return nodes;
}

// The committed length lies below, at and above the end of a chunk of positions; trees of this
// depth cross it.
TEST_P(Exactness, ATreeIsTheChainsItContains) {
  LoadedModel engine(path_);
  for (const uint32_t length : {1u, 20u, 31u, 32u, 33u, 64u}) {
    SCOPED_TRACE(length);
    const std::vector<TokenId> tokens = RandomTokens(length, 2);
    const std::vector<DraftedNode> nodes = RandomTree(length);
    const auto sequence = engine.NewSequence();
    if (length > 1) engine.Read(*sequence, std::span(tokens).first(length - 1));
    OUTRIDER_CHECK_OK(sequence->Reserve(1, static_cast<uint32_t>(nodes.size())));
    engine.batch.Clear();
    engine.batch.AddChain(*sequence, {&tokens.back(), 1});
    engine.AddNodes(*sequence, nodes);
    OUTRIDER_CHECK_OK(engine.transformer->Forward(engine.batch, nullptr));
    const Logits actual = engine.Logits();

    for (const uint32_t leaf : {30u, 13u, 7u}) {
      std::vector<uint32_t> path;
      for (uint32_t n = leaf; n != DraftedNode::kRoot; n = nodes[n].parent) {
        path.insert(path.begin(), n);
      }
      std::vector<TokenId> chain = {tokens.back()};
      for (const uint32_t n : path) chain.push_back(nodes[n].token);
      const auto alone = engine.NewSequence();
      OUTRIDER_CHECK_OK(alone->ForkFrom(*sequence, sequence->length()));
      const Logits expected = engine.Read(*alone, chain);
      ExpectSameBits(actual[0], expected[0]);
      for (size_t i = 0; i < path.size(); ++i) ExpectSameBits(actual[1 + path[i]], expected[1 + i]);
    }
  }
}

// Slots in no order, some runs of one row, some whose rows stand below one another.
TEST_P(Exactness, ATreeGrownFromRunToRunIsTheSameTree) {
  LoadedModel engine(path_);
  for (const uint32_t length : {1u, 20u, 31u, 32u, 33u}) {
    SCOPED_TRACE(length);
    const std::vector<TokenId> tokens = RandomTokens(length, 2);
    const std::vector<DraftedNode> nodes = RandomTree(length);
    const auto in_one = engine.NewSequence();
    if (length > 1) engine.Read(*in_one, std::span(tokens).first(length - 1));
    OUTRIDER_CHECK_OK(in_one->Reserve(1, static_cast<uint32_t>(nodes.size())));
    engine.batch.Clear();
    engine.batch.AddChain(*in_one, {&tokens.back(), 1});
    engine.AddNodes(*in_one, nodes);
    OUTRIDER_CHECK_OK(engine.transformer->Forward(engine.batch, nullptr));
    const Logits expected = engine.Logits();

    const auto sequence = engine.NewSequence();
    engine.Read(*sequence, tokens);
    OUTRIDER_CHECK_OK(sequence->Reserve(0, 64));
    const auto slot_of = [](uint32_t node) { return node * 29 % 64; };
    for (uint32_t at = 0; at < nodes.size();) {
      engine.batch.Clear();
      const uint32_t begin = at;
      for (uint32_t i = 0; i < 1 + begin % 5 && at < nodes.size(); ++i, ++at) {
        const bool below_root = nodes[at].parent == DraftedNode::kRoot;
        engine.batch.AddNode(*sequence, nodes[at].token,
                             below_root ? NodeTree::kChain : slot_of(nodes[at].parent),
                             slot_of(at));
      }
      OUTRIDER_CHECK_OK(engine.transformer->Forward(engine.batch, nullptr));
      const Logits actual = engine.Logits();
      for (size_t i = 0; i < actual.size(); ++i) ExpectSameBits(actual[i], expected[1 + begin + i]);
    }
  }
}

// Sixteen passes and prompt chunks of different lengths and trees in one batch.
TEST_P(Exactness, NeighboursChangeNothing) {
  LoadedModel engine(path_, {.row_count_max = 160, .page_count = 128});
  struct Member {
    std::unique_ptr<SequenceMemory> sequence;
    std::vector<TokenId> tokens;
    std::vector<DraftedNode> nodes;
    size_t read;  // before the batch
    uint32_t first_row = 0;
  };
  std::vector<Member> members;
  for (uint32_t i = 0; i < 16; ++i) {
    Member member{engine.NewSequence(), RandomTokens(5 + 4 * i, 10 + i), RandomTree(i), 0};
    member.nodes.resize(i % 4 * 2);
    member.read = member.tokens.size() - (i % 3 == 2 ? 5 : 1);
    engine.Read(*member.sequence, std::span(member.tokens).first(member.read));
    members.push_back(std::move(member));
  }
  const auto add = [&](Member& member) {
    const std::span<const TokenId> rest = std::span(member.tokens).subspan(member.read);
    OUTRIDER_CHECK_OK(member.sequence->Reserve(static_cast<uint32_t>(rest.size()),
                                               static_cast<uint32_t>(member.nodes.size())));
    member.first_row = engine.batch.AddChain(*member.sequence, rest);
    engine.AddNodes(*member.sequence, member.nodes);
  };
  engine.batch.Clear();
  for (Member& member : members) add(member);
  OUTRIDER_CHECK_OK(engine.transformer->Forward(engine.batch, nullptr));
  const Logits together = engine.Logits();
  for (Member& member : members) {
    const uint32_t first_row = member.first_row;
    engine.batch.Clear();
    add(member);
    OUTRIDER_CHECK_OK(engine.transformer->Forward(engine.batch, nullptr));
    const Logits alone = engine.Logits();
    for (size_t i = 0; i < alone.size(); ++i) ExpectSameBits(together[first_row + i], alone[i]);
  }
}

TEST_P(Exactness, ThreadsAndInstructionSetsChangeNothing) {
  const std::vector<TokenId> tokens = RandomTokens(40, 3);
  Logits expected;
  for (const Isa isa : SupportedIsas()) {
    for (const uint32_t threads : {1, 3}) {
      SCOPED_TRACE(std::string(Name(isa)) + ", threads: " + std::to_string(threads));
      LoadedModel engine(path_, {.isa = isa, .thread_count = threads});
      const auto sequence = engine.NewSequence();
      Logits logits = engine.Read(*sequence, std::span(tokens).first(33));
      for (const TokenId& token : std::span(tokens).subspan(33)) {
        logits.push_back(std::move(engine.Read(*sequence, {&token, 1})[0]));
      }
      if (expected.empty()) expected = logits;
      ASSERT_EQ(logits.size(), expected.size());
      for (size_t i = 0; i < logits.size(); ++i) ExpectSameBits(logits[i], expected[i]);
    }
  }
}

// Accepted nodes are copied into place, what follows is dropped, and a text goes on from there, or
// from a fork, or from a point further back, as if it had been read from the start.
TEST_P(Exactness, HowTheTextGotThereChangesNothing) {
  LoadedModel engine(path_);
  std::vector<TokenId> tokens = RandomTokens(62, 4);
  const auto sequence = engine.NewSequence();
  engine.Read(*sequence, std::span(tokens).first(29));
  // Root 29, a path of nodes with tokens 30 to 33 among others: it crosses the chunk's end.
  std::vector<DraftedNode> nodes = {{tokens[30], DraftedNode::kRoot},
                                    {7, DraftedNode::kRoot},
                                    {tokens[31], 0},
                                    {8, 1},
                                    {tokens[32], 2},
                                    {9, 2},
                                    {tokens[33], 4}};
  OUTRIDER_CHECK_OK(sequence->Reserve(5, static_cast<uint32_t>(nodes.size())));
  engine.batch.Clear();
  engine.batch.AddChain(*sequence, {&tokens[29], 1});
  engine.AddNodes(*sequence, nodes);
  OUTRIDER_CHECK_OK(engine.transformer->Forward(engine.batch, nullptr));
  sequence->Commit(1, {{0, 2, 4, 6}});
  ASSERT_EQ(sequence->length(), 34u);

  const auto fork = engine.NewSequence();
  OUTRIDER_CHECK_OK(fork->ForkFrom(*sequence, sequence->length()));
  const Logits rest = engine.Read(*sequence, std::span(tokens).subspan(34));
  const Logits forked = engine.Read(*fork, std::span(tokens).subspan(34));
  // With a window short enough, its cells are gone and the text is read from the start.
  const uint32_t left = sequence->Truncate(31);
  const Logits again = engine.Read(*sequence, std::span(tokens).subspan(left));

  const Logits expected = Plainly(engine, tokens);
  for (size_t i = 34; i < tokens.size(); ++i) {
    ExpectSameBits(rest[i - 34], expected[i]);
    ExpectSameBits(forked[i - 34], expected[i]);
    ExpectSameBits(again[i - left], expected[i]);
  }
}

// Rows an observer drops, and those below them, are gone; the others do not notice.
TEST_P(Exactness, DroppedRowsChangeNothing) {
  class Pruner : public LayerObserver {
   public:
    void AfterLayer(uint32_t, LayerView& view) override {
      for (size_t i = 0; i < view.rows().size(); ++i) {
        if (view.rows()[i] == first) view.Drop(i);
      }
    }
    uint32_t first = 3;
  };
  LoadedModel engine(path_);
  const std::vector<TokenId> tokens = RandomTokens(20, 5);
  const auto sequence = engine.NewSequence();
  engine.Read(*sequence, tokens);
  //  root - 0 - 1 - 3 - 5
  //       \ 2 - 4
  const std::vector<DraftedNode> nodes = {
      {1, DraftedNode::kRoot}, {2, 0}, {3, DraftedNode::kRoot}, {4, 1}, {5, 2}, {6, 3}};
  OUTRIDER_CHECK_OK(sequence->Reserve(1, 6));
  engine.batch.Clear();
  const TokenId root = 9;
  engine.batch.AddChain(*sequence, {&root, 1});
  engine.AddNodes(*sequence, nodes);
  OUTRIDER_CHECK_OK(engine.transformer->Forward(engine.batch, nullptr));
  const Logits all = engine.Logits();
  Pruner pruner;
  OUTRIDER_CHECK_OK(engine.transformer->Forward(engine.batch, &pruner));
  const Logits some = engine.Logits();
  const std::vector<uint32_t> rows(engine.transformer->rows().begin(),
                                   engine.transformer->rows().end());
  ASSERT_EQ(rows, (std::vector<uint32_t>{0, 1, 2, 4, 6})) << "row 3 is node 2, and 5 below it";
  for (size_t i = 0; i < rows.size(); ++i) ExpectSameBits(some[i], all[rows[i]]);
  pruner.first = 0;
  OUTRIDER_CHECK_OK(engine.transformer->Forward(engine.batch, &pruner));
  EXPECT_TRUE(engine.transformer->rows().empty()) << "all stand below the root";
}

// The contract itself: these bits change only together with NumericsVersionOf().
TEST_P(Exactness, LogitsHaveTheContractsBits) {
  static const std::map<std::string, uint64_t> kExpected = {
      {"llama_F32", 0x59a0ac95f66ddddd},       {"llama_F16", 0xd49a24b1a6a5a9b0},
      {"llama_BF16", 0x2531544618c9a239},      {"llama_Q8_0", 0xd98aceb21b6e5bb4},
      {"llama_Q4_0", 0x9449356ddebbc05a},      {"llama_Q4_K", 0xb374f8536c3ab860},
      {"llama_Q6_K", 0x6808ee30d41a363a},      {"llama_Q4_1", 0x7002935008db1b5b},
      {"llama_Q5_K", 0x629fd9e68577647f},      {"mistral_F32", 0x52edfb08cd8a2c98},
      {"mistral_Q8_0", 0x566db340bf428041},    {"mistral_Q4_K", 0xf68e9bae8d39cba},
      {"qwen2_F32", 0x27f0125f20af80ab},       {"qwen2_Q8_0", 0xc3bbd1d7d078247f},
      {"qwen2_Q4_K", 0x98fef62bacce1a06},      {"qwen3_F32", 0x54636cacce750313},
      {"qwen3_Q8_0", 0xdc17825ff36232d1},      {"qwen3_Q4_K", 0x4130482bfee656ea},
      {"gpt2_F32", 0x3fc721a74d8c5125},        {"gpt2_Q8_0", 0x7a340f3ce97945ef},
      {"gpt2_Q4_K", 0x7636cf6cb2b17f19},       {"mixtral_F32", 0xfe1ea7f3b114ed15},
      {"mixtral_Q8_0", 0x846cf04148534729},    {"mixtral_Q4_K", 0x1a388db5978ada92},
      {"qwen3moe_F32", 0xec2b0ce3bc8c5fcd},    {"qwen3moe_Q8_0", 0x84bc059e295067d},
      {"qwen3moe_Q4_K", 0xfd03c3087aa0dcc9},   {"olmoe_F32", 0x14bdfbec83fa7eb5},
      {"olmoe_Q8_0", 0x287dced3f05933b1},      {"olmoe_Q4_K", 0x6c2652a6ccb50bfd},
      {"llama_Q5_0", 0x2b65644df79140fc},      {"llama_Q5_1", 0x79722a074196d941},
      {"llama_IQ4_NL", 0x4a90b4ea5951c50e},    {"llama_IQ4_XS", 0xfd6c7dc51ec6987a},
      {"llama_Q3_K", 0x8bdce061669a0ad2},      {"llama_Q2_K", 0x84777667c804195},
      {"llama_MXFP4", 0x764ca7fa93f05cd4},     {"gemma_F32", 0xb42ea8172f39b534},
      {"gemma_Q4_K", 0x844c803c51675417},      {"gemma2_F32", 0x5ad3c2a82f5182c4},
      {"gemma2_Q4_K", 0x1679ae20046ae47b},     {"gemma3_F32", 0x24792f66925b5da3},
      {"gemma3_Q4_K", 0x754d08ead3fddd3d},     {"phi3_F32", 0xc9d32e9aaa835a71},
      {"phi3_Q4_K", 0x44280d18160b8ad},        {"smollm3_F32", 0xca973eab5b125087},
      {"smollm3_Q4_K", 0xbad31ac160dccd83},    {"granite_F32", 0xb700cc6744e8fa39},
      {"granite_Q4_K", 0x20330512e478040d},    {"olmo2_F32", 0x4f4eb0ca46240f83},
      {"olmo2_Q4_K", 0x4f0f298d55c29c73},      {"stablelm_F32", 0xa2896d3344e1be20},
      {"stablelm_Q4_K", 0x8957beb21ab553eb},   {"qwen2moe_F32", 0x4c4b4d252e341048},
      {"qwen2moe_Q4_K", 0x8f67cdc259c83c92},   {"cohere2_F32", 0x2298f1ae00c09b30},
      {"cohere2_Q4_K", 0x2fe432c18a5b871f},    {"exaone4_F32", 0xaf8d1d69892a07a9},
      {"exaone4_Q4_K", 0x9a357f4341b89305},    {"gptoss_F32", 0x7cfd866b3dd4a34d},
      {"gptoss_Q4_K", 0x9937f5994ff7cf1a},     {"ministral3_F32", 0x1f110e2ae00163cf},
      {"ministral3_Q4_K", 0x7ecb587aaf8f7b0c}, {"granitemoe_F32", 0x5aff62aa14150bec},
      {"granitemoe_Q4_K", 0x7c9b54e5dd634b3d}, {"stablelm2_F32", 0xea7a83e79132e7f3},
      {"stablelm2_Q4_K", 0x9dd1243e7dc69ac7},
  };
  LoadedModel engine(path_);
  const auto sequence = engine.NewSequence();
  ContentHash hash;
  for (const std::vector<float>& row : engine.Read(*sequence, RandomTokens(40, 6))) {
    for (const float logit : row) {
      ASSERT_EQ(logit, logit);
      hash.Add(logit);
    }
  }
  const auto found = kExpected.find(NameOf(GetParam()));
  const uint64_t expected = found == kExpected.end() ? 0 : found->second;
  EXPECT_EQ(hash.value(), expected)
      << "{\"" << NameOf(GetParam()) << "\", 0x" << std::hex << hash.value() << "},";
}

INSTANTIATE_TEST_SUITE_P(Models, Exactness, testing::ValuesIn(Models()),
                         [](const auto& test) { return NameOf(test.param); });

}  // namespace
}  // namespace outrider
