// Pages that bind: what a budget of bytes has room for, and that bits do not depend on it.
#include <bit>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/engine/cpu_engine.h"
#include "common/formats/models/model_file.h"
#include "common/kernels/isa.h"
#include "common/model/memory/memory_layout.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/base/scratch_dir.h"
#include "tests/model/random_model.h"

namespace outrider {
namespace {

using ::testing::HasSubstr;
using Tokens = std::vector<TokenId>;
using Bits = std::vector<uint32_t>;

template <typename T>
T OrDie(absl::StatusOr<T> value) {
  OUTRIDER_CHECK_OK(value.status());
  return *std::move(value);
}

class MemoryBudget : public testing::Test {
 protected:
  void Make(const Hyperparameters& model) {
    path_ = dir_.File("model.gguf");
    WriteRandomModel(model, TensorType::kQ8_0, path_);
    file_ = OrDie(ModelFile::Open(path_));
    page_bytes_ = MemoryLayout(OrDie(ModelSpec::From(*file_, path_))).page_bytes(0);
  }

  absl::StatusOr<std::unique_ptr<CpuEngine>> Load(const EngineOptions& options) {
    return LoadCpuEngine(*file_, path_, options, KernelsFor(BestIsa()), *pool_, nullptr);
  }

  static Tokens RandomTokens(size_t count) {
    std::mt19937 random(3);
    Tokens tokens(count);
    for (TokenId& token : tokens) token = static_cast<TokenId>(random() % 200);
    return tokens;
  }

  // The logits of every row of a part.
  static std::vector<Bits> Run(Engine& engine, const RunPart& part) {
    EngineRun run{.parts = {&part, 1}};
    std::vector<std::vector<float>> rows(part.row_count(),
                                         std::vector<float>(engine.info().vocabulary_size));
    std::vector<LogitsOfRow> wanted;
    for (uint32_t row = 0; row < rows.size(); ++row) wanted.push_back({row, rows[row]});
    run.logits = wanted;
    OUTRIDER_CHECK_OK(engine.Run(run));
    std::vector<Bits> bits(rows.size());
    for (size_t row = 0; row < rows.size(); ++row) {
      for (const float logit : rows[row]) bits[row].push_back(std::bit_cast<uint32_t>(logit));
    }
    return bits;
  }

  const ScratchDir dir_;
  std::string path_;
  std::unique_ptr<ModelFile> file_;
  size_t page_bytes_ = 0;
  const std::unique_ptr<ThreadPool> pool_ = OrDie(ThreadPool::Create(2));
};

// Ten windows of 24, in passes with drafts beside the accepted ones. Whoever reads the text at once
// has all its pages.
TEST_F(MemoryBudget, AWindowedModelRunsALongTextInFourPages) {
  Hyperparameters model = SmallModel("mistral");
  model.context_length = 400;
  Make(model);
  const Tokens tokens = RandomTokens(250);
  const auto roomy = OrDie(Load({.row_count_max = 250}));
  const SequenceId whole = OrDie(roomy->Open());
  OUTRIDER_CHECK_OK(roomy->Reserve(whole, 250, 0));
  const std::vector<Bits> expected = Run(*roomy, {.sequence = whole, .chain = tokens});
  EXPECT_EQ(roomy->ledger().held_count(0), 8u);

  // 23 cells before a run of at most 4 rows: two pages, a third while a commit moves on; and nodes.
  const auto tight =
      OrDie(Load({.node_count_max = 3, .row_count_max = 4, .kv_bytes = 4 * page_bytes_}));
  const SequenceId sequence = OrDie(tight->Open());
  for (uint32_t at = 0; at + 3 < tokens.size(); at = tight->Length(sequence)) {
    SCOPED_TRACE(at);
    OUTRIDER_CHECK_OK(tight->Reserve(sequence, 3, 3));
    const EngineNode nodes[] = {{tokens[at + 1], EngineNode::kChain, 2},
                                {7, EngineNode::kChain, 0},
                                {tokens[at + 2], 2, 1}};
    const std::vector<Bits> rows =
        Run(*tight, {.sequence = sequence, .chain = {&tokens[at], 1}, .nodes = nodes});
    ASSERT_TRUE(rows[0] == expected[at]);
    ASSERT_TRUE(rows[1] == expected[at + 1]);
    ASSERT_TRUE(rows[3] == expected[at + 2]);
    tight->Commit(sequence, 1, {{2, 1}});
    tight->DropNodes(sequence);
    ASSERT_LE(tight->ledger().held_count(0), 2u);
  }
  EXPECT_EQ(tight->Truncate(sequence, 100), 0u) << "those cells are gone: it is to be read again";
}

// Room for one text of 96 tokens and what two of them add to it; not for two such texts.
TEST_F(MemoryBudget, TwoSequencesTakeTheirPrefixOnce) {
  Make(SmallModel("llama"));
  const Tokens tokens = RandomTokens(100);
  const auto engine = OrDie(Load({.sequence_count_max = 3,
                                  .node_count_max = 0,
                                  .row_count_max = 128,
                                  .kv_bytes = 5 * page_bytes_}));
  const SequenceId first = OrDie(engine->Open());
  OUTRIDER_CHECK_OK(engine->Reserve(first, 96, 0));
  Run(*engine, {.sequence = first, .chain = std::span(tokens).first(96)});
  engine->Commit(first, 96, {});
  const SequenceId second = OrDie(engine->Fork(first, 96));
  EXPECT_EQ(engine->ledger().held_count(0), 3u);
  OUTRIDER_CHECK_OK(engine->Reserve(first, 4, 0));
  OUTRIDER_CHECK_OK(engine->Reserve(second, 4, 0));
  const std::span<const TokenId> rest = std::span(tokens).subspan(96);
  const std::vector<Bits> rows = Run(*engine, {.sequence = first, .chain = rest});
  EXPECT_TRUE(Run(*engine, {.sequence = second, .chain = rest}) == rows);
  EXPECT_EQ(engine->ledger().held_count(0), 5u);

  const SequenceId third = OrDie(engine->Open());
  EXPECT_EQ(engine->Reserve(third, 1, 0).code(), absl::StatusCode::kResourceExhausted);
  engine->Close(first);
  EXPECT_EQ(engine->ledger().held_count(0), 4u) << "the prefix is the other one's still";
  OUTRIDER_CHECK_OK(engine->Reserve(third, 1, 0));
}

TEST_F(MemoryBudget, TooLittleNamesTheLeastThatWorks) {
  Make(SmallModel("llama"));
  const absl::Status status =
      Load({.node_count_max = 40, .kv_bytes = 3 * page_bytes_ - 1}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(Message(status)),
              HasSubstr("the least is " + std::to_string(3 * page_bytes_)));
  EXPECT_TRUE(Load({.node_count_max = 40, .kv_bytes = 3 * page_bytes_}).ok());
}

}  // namespace
}  // namespace outrider
