// What any target says, and how it takes bad input: one sentence, and nobody else suffers. Each
// program that has this file says which target it is about (contract_target.h).
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "tests/base/scratch_dir.h"
#include "tests/engine/contract_target.h"
#include "tests/engine/target_session.h"
#include "tests/model/random_model.h"
#include "tests/test_files.h"

namespace outrider {
namespace {

class TargetContract : public testing::Test {
 protected:
  explicit TargetContract(TensorType type = TensorType::kQ8_0) {
    path_ = dir_.File("model.gguf");
    WriteRandomModel(SmallModel("llama"), type, path_);
  }

  std::unique_ptr<Target> Load(const EngineOptions& options = {.sequence_count_max = 4}) {
    return OrDie(MakeContractTarget(path_, options, *pool_));
  }

  ScratchDir dir_;
  std::string path_;
  std::unique_ptr<ThreadPool> pool_ = OrDie(ThreadPool::Create(2));
};

// --- what it says ---

TEST_F(TargetContract, DraftsChangeWhenATokenComesAndNeverWhich) {
  const auto target = Load();
  for (const SamplingOptions& sampling : {SamplingOptions(), Sampled(1), Sampled(2)}) {
    TargetSession plain(*target, sampling);
    plain.Read(RandomTokens(27, 1));
    const std::vector<TokenId> text = plain.Write(70);
    TargetSession drafted(*target, sampling);
    drafted.Read(RandomTokens(27, 1));
    uint32_t passes = 0;
    for (size_t at = 0; at < 60; ++passes) {
      const uint32_t depth = passes % 6;
      const auto future = std::span(text).subspan(at);
      const std::vector<DraftedNode> nodes = DraftOf(future, depth);
      const PassResult result = drafted.Run(nodes);
      ASSERT_TRUE(result.status.ok()) << result.status;
      EXPECT_EQ(result.outcome.node, depth == 0 ? DraftedNode::kRoot : 2 * depth - 1);
      EXPECT_EQ(result.outcome.next, future[depth]);
      drafted.Commit(result.outcome, nodes);
      at += depth + 1;
    }
    EXPECT_LT(passes, 25u);
    const auto written = drafted.history().tokens().subspan(27);
    EXPECT_TRUE(std::ranges::equal(written, std::span(text).first(written.size())));
    OUTRIDER_CHECK_OK(target->Close(plain.id()));
    OUTRIDER_CHECK_OK(target->Close(drafted.id()));
  }
}

TEST_F(TargetContract, ATextIsTheSameHoweverItGotThere) {
  const auto target = Load({.sequence_count_max = 6});
  TargetSession fresh(*target, Sampled(5));
  const std::vector<TokenId> prompt = RandomTokens(45, 2);
  fresh.Read(prompt);
  const std::vector<TokenId> text = fresh.Write(20);

  TargetSession pieces(*target, Sampled(5));  // a prompt in pieces, one of them a single token
  pieces.Read({prompt.begin(), prompt.begin() + 1});
  pieces.Read({prompt.begin() + 1, prompt.begin() + 33});
  pieces.Read({prompt.begin() + 33, prompt.end()});
  EXPECT_EQ(pieces.Write(20), text);

  pieces.Truncate(20);  // cut back and read again
  pieces.Read({prompt.begin() + 20, prompt.end()});
  EXPECT_EQ(pieces.Write(20), text);

  TargetSession wanders(*target,
                        Sampled(5));  // passes that are dropped, and commits of less than was found
  wanders.Read(prompt);
  const std::vector<DraftedNode> nodes = DraftOf(text, 3);
  PassResult result = wanders.Run(nodes);
  ASSERT_EQ(result.outcome.node, 5u);
  result = wanders.Run(DraftOf(text, 1));
  result = wanders.Run(nodes);
  wanders.Commit({1, text[1]}, nodes);  // one node of three
  std::vector<TokenId> rest = {text[0], text[1]};
  for (const TokenId token : wanders.Write(18)) rest.push_back(token);
  EXPECT_EQ(rest, text);

  // A fork goes on as its origin does, and neither disturbs the other.
  const SequenceId fork = OrDie(target->Fork(wanders.id(), 65));
  EXPECT_EQ(OrDie(target->Length(fork)), 65u);
  const std::vector<TokenId> more = wanders.Write(10);
  TokenHistory history({.vocabulary_size = kVocabulary, .capacity = 512, .counts_tokens = true});
  OUTRIDER_CHECK_OK(history.Append(wanders.history().tokens().first(65)));
  const Chooser chooser = OrDie(Chooser::Create(Sampled(5), kVocabulary));
  for (const TokenId token : more) {
    const Pass pass = {fork, {}, &chooser, &history};
    target->Run({}, {&pass, 1}, {&result, 1});
    ASSERT_TRUE(result.status.ok()) << result.status;
    EXPECT_EQ(result.outcome.next, token);
    OUTRIDER_CHECK_OK(target->Commit(fork, result.outcome));
    OUTRIDER_CHECK_OK(history.Append({&token, 1}));
  }
}

TEST_F(TargetContract, AForkAndItsOriginDoNotDisturbEachOther) {
  const auto target = Load();
  const std::vector<TokenId> prompt = RandomTokens(40, 1), more = RandomTokens(15, 2);
  TargetSession alone(*target, {});
  alone.Read(prompt);
  alone.Read(more);
  const std::vector<TokenId> text = alone.Write(12);
  TargetSession session(*target, {});
  session.Read(prompt);
  const SequenceId fork = OrDie(target->Fork(session.id(), 40));
  session.Read(more);
  // The fork reads something else at the positions its origin goes on with.
  OUTRIDER_CHECK_OK(target->Prefill(fork, RandomTokens(15, 3), nullptr));
  EXPECT_EQ(session.Write(12), text);
  session.Truncate(55);
  EXPECT_EQ(session.Write(12), text);
}

TEST_F(TargetContract, SixteenSequencesSayWhatEachSaysAlone) {
  // 40 rows at a time: a call takes several runs.
  const auto target = Load({.sequence_count_max = 17, .node_count_max = 15, .row_count_max = 40});
  std::vector<std::unique_ptr<TargetSession>> together;
  std::vector<std::vector<TokenId>> texts;
  for (uint32_t i = 0; i < 16; ++i) {
    const SamplingOptions sampling = i % 2 == 0 ? Sampled(i) : SamplingOptions();
    TargetSession alone(*target, sampling);
    alone.Read(RandomTokens(1 + 5 * i, i));
    texts.push_back(alone.Write(6));
    OUTRIDER_CHECK_OK(target->Close(alone.id()));
    together.push_back(std::make_unique<TargetSession>(*target, sampling));
    together.back()->Read(RandomTokens(1 + 5 * i, i));
  }
  std::vector<std::vector<DraftedNode>> drafts;
  std::vector<Pass> passes;
  for (uint32_t i = 0; i < 16; ++i) drafts.push_back(DraftOf(texts[i], i % 5));
  for (uint32_t i = 0; i < 16; ++i) passes.push_back(together[i]->PassOver(drafts[i]));
  std::vector<PassResult> results(16);
  target->Run({}, passes, results);
  for (uint32_t i = 0; i < 16; ++i) {
    ASSERT_TRUE(results[i].status.ok()) << results[i].status;
    EXPECT_EQ(results[i].outcome.next, texts[i][i % 5]);
    EXPECT_EQ(results[i].outcome.node, i % 5 == 0 ? DraftedNode::kRoot : 2 * (i % 5) - 1);
  }
}

// A prompt, its pass, other passes and another prompt: whether or not a run has rows for them all.
TEST_F(TargetContract, ReadingsAndPassesInOneCallAreWhatTheyAreAlone) {
  for (const uint32_t rows : {200u, 24u}) {
    const auto target =
        Load({.sequence_count_max = 6, .node_count_max = 15, .row_count_max = rows});
    const std::vector<TokenId> prompt = RandomTokens(70, 1), other = RandomTokens(33, 2);
    TargetSession alone(*target, Sampled(4)), beside(*target, Sampled(5)),
        third(*target, Sampled(6));
    alone.Read(prompt);
    beside.Read(other);
    third.Read(prompt);
    const std::vector<TokenId> text = alone.Write(8), next = beside.Write(8);
    const std::vector<TokenId> last = third.Write(3);
    for (TargetSession* const session : {&alone, &third})
      OUTRIDER_CHECK_OK(target->Close(session->id()));

    TargetSession whole(*target, Sampled(4)), only_read(*target, Sampled(6));
    beside.Truncate(33);
    TokenHistory history({.vocabulary_size = kVocabulary, .capacity = 512, .counts_tokens = true});
    OUTRIDER_CHECK_OK(history.Append(prompt));
    const std::vector<DraftedNode> draft = DraftOf(text, 4), shorter = DraftOf(next, 2);
    Pass read_and_passed = whole.PassOver(draft);
    read_and_passed.history = &history;
    Reading readings[] = {{only_read.id(), prompt}, {whole.id(), prompt}};
    const Pass passes[] = {beside.PassOver(shorter), read_and_passed};
    PassResult results[2];
    target->Run(readings, passes, results);
    for (const Reading& reading : readings) ASSERT_TRUE(reading.status.ok()) << reading.status;
    for (const PassResult& result : results) ASSERT_TRUE(result.status.ok()) << result.status;
    EXPECT_EQ(results[0].outcome.node, 3u);
    EXPECT_EQ(results[0].outcome.next, next[2]);
    EXPECT_EQ(results[1].outcome.node, 7u);
    EXPECT_EQ(results[1].outcome.next, text[4]);
    OUTRIDER_CHECK_OK(target->Commit(whole.id(), results[1].outcome));
    EXPECT_EQ(OrDie(target->Length(whole.id())), 75u);
    EXPECT_EQ(OrDie(target->Length(only_read.id())), 70u);

    // Of two readings of one sequence the second is refused, and a bad one leaves its pass alone.
    Reading twice[] = {{only_read.id(), {&last[0], 1}}, {only_read.id(), {&last[0], 1}}};
    target->Run(twice, {}, {});
    EXPECT_TRUE(twice[0].status.ok());
    ExpectRefusal(twice[1].status, absl::StatusCode::kInvalidArgument, "this one has two");
    EXPECT_EQ(OrDie(target->Length(only_read.id())), 71u);
  }
}

TEST_F(TargetContract, ProgressIsToldAndCanStop) {
  const auto target = Load({.node_count_max = 7, .row_count_max = 16});
  const SequenceId id = OrDie(target->CreateSequence());
  std::vector<uint32_t> told;
  OUTRIDER_CHECK_OK(target->Prefill(id, RandomTokens(41, 1), [&](uint32_t done, uint32_t total) {
    EXPECT_EQ(total, 40u);
    told.push_back(done);
    return true;
  }));
  EXPECT_EQ(told, (std::vector<uint32_t>{16, 32, 40}));
  const absl::Status status =
      target->Prefill(id, RandomTokens(100, 2), [](uint32_t done, uint32_t) { return done < 32; });
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled) << status;
  EXPECT_EQ(OrDie(target->Length(id)), 41u + 32u);
}

// --- bad input ---

TEST_F(TargetContract, BadPromptsAreRefusedAndChangeNothing) {
  const auto target = Load();
  TargetSession session(*target, {});
  session.Read(RandomTokens(30, 1));
  using enum absl::StatusCode;
  ExpectRefusal(
      target->Prefill(session.id(), RandomTokens(131, 1), nullptr), kInvalidArgument,
      "a sequence of 30 tokens and a prompt of 131 do not fit into a context of 160; shorten "
      "the prompt");
  ExpectRefusal(target->Prefill(session.id(), std::vector<TokenId>{1, 200}, nullptr),
                kInvalidArgument, "token 1 is 200, and the vocabulary of llama has 200 tokens");
  ExpectRefusal(target->Prefill(session.id(), std::vector<TokenId>{-1}, nullptr), kInvalidArgument,
                "token 0 is -1");
  ExpectRefusal(target->Truncate(session.id(), 31).status(), kInvalidArgument,
                "a sequence of 30 tokens cannot be truncated to 31");
  EXPECT_EQ(OrDie(target->Length(session.id())), 30u);
  EXPECT_TRUE(session.Run().status.ok());
}

TEST_F(TargetContract, BadPassesAreRefusedAloneAndTheOthersGoOn) {
  const auto target = Load({.sequence_count_max = 8, .node_count_max = 7});
  TargetSession good(*target, {});
  good.Read(RandomTokens(30, 1));
  const TokenId expected = good.Run().outcome.next;
  TargetSession session(*target, {});
  session.Read(RandomTokens(150, 1));

  using Nodes = std::vector<DraftedNode>;
  constexpr uint32_t kRoot = DraftedNode::kRoot;
  Nodes deep = {{1, kRoot}};
  for (uint32_t i = 1; i < 7; ++i) deep.push_back({1, i - 1});
  const auto expect_bad = [&](const Nodes& nodes, const std::string& part) {
    const Pass passes[] = {session.PassOver(nodes), good.PassOver({})};
    PassResult results[2];
    target->Run({}, passes, results);
    ExpectRefusal(results[0].status, absl::StatusCode::kInvalidArgument, part);
    ASSERT_TRUE(results[1].status.ok()) << results[1].status;
    EXPECT_EQ(results[1].outcome.next, expected);
  };
  expect_bad({{1, kRoot}, {1, 1}}, "node 1 has node 1 as its parent, which does not come before");
  expect_bad({{1, 0}}, "node 0 has node 0 as its parent");
  expect_bad({{1, kRoot}, {1, 2}, {1, 0}}, "node 1 has node 2 as its parent");
  expect_bad({{1, kRoot - 1}}, "as its parent");
  expect_bad({{1, kRoot}, {200, 0}}, "node 1 is token 200, and the vocabulary of llama has 200");
  expect_bad({{-7, kRoot}}, "node 0 is token -7");
  expect_bad(Nodes(8, {1, kRoot}), "a pass of 8 nodes is larger than the 7 this target takes");
  session.Read(RandomTokens(6, 1));
  expect_bad(deep, "node 4 is at position 160, and the context ends at 160; draft no deeper");

  TargetSession empty(*target, {});
  ExpectRefusal(empty.Run().status, absl::StatusCode::kInvalidArgument, "has no root");
  const Pass twice[] = {good.PassOver({}), good.PassOver({})};
  PassResult results[2];
  target->Run({}, twice, results);
  EXPECT_TRUE(results[0].status.ok());
  ExpectRefusal(results[1].status, absl::StatusCode::kInvalidArgument, "this one has two");

  Pass pass = good.PassOver({});
  pass.history = &empty.history();
  target->Run({}, {&pass, 1}, {results, 1});
  ExpectRefusal(results[0].status, absl::StatusCode::kInvalidArgument, "the history has 0 tokens");
  pass = good.PassOver({});
  pass.chooser = nullptr;
  target->Run({}, {&pass, 1}, {results, 1});
  ExpectRefusal(results[0].status, absl::StatusCode::kInvalidArgument, "needs a chooser");
  const Chooser other = OrDie(Chooser::Create({}, 199));
  pass.chooser = &other;
  target->Run({}, {&pass, 1}, {results, 1});
  ExpectRefusal(results[0].status, absl::StatusCode::kInvalidArgument, "a vocabulary of 199");
}

TEST_F(TargetContract, AFullContextIsASentence) {
  const auto target = Load();
  TargetSession session(*target, {});
  session.Read(RandomTokens(160, 1));
  EXPECT_EQ(session.Write(1).size(), 1u) << "the token after the last position";
  ExpectRefusal(session.Run().status, absl::StatusCode::kInvalidArgument,
                "the context of 160 tokens is full; truncate the sequence");
}

TEST_F(TargetContract, ClosedSequencesStayClosed) {
  const auto target = Load({.sequence_count_max = 2});
  TargetSession first(*target, {});
  first.Read({1, 2, 3});
  const SequenceId gone = first.id();
  OUTRIDER_CHECK_OK(target->Close(gone));
  TargetSession second(*target, {});
  EXPECT_NE(second.id(), gone);
  using enum absl::StatusCode;
  ExpectRefusal(target->Close(gone), kNotFound, "was never created, or is closed");
  ExpectRefusal(target->Prefill(gone, std::vector<TokenId>{1}, nullptr), kNotFound, "is closed");
  ExpectRefusal(first.Run().status, kNotFound, "is closed");
  ExpectRefusal(target->Fork(SequenceId{0}, 0).status(), kNotFound, "never created");
  ExpectRefusal(target->Commit(second.id(), {DraftedNode::kRoot, 1}), kFailedPrecondition,
                "no pass to commit");
  EXPECT_TRUE(target->CreateSequence().ok());
  ExpectRefusal(target->CreateSequence().status(), kResourceExhausted,
                "all 2 sequences are in use");
}

TEST_F(TargetContract, CommitsOfWhatWasNotThereAreRefused) {
  const auto target = Load();
  TargetSession session(*target, {});
  session.Read({1, 2, 3});
  const std::vector<DraftedNode> nodes = {{4, DraftedNode::kRoot}, {5, 0}};
  ASSERT_TRUE(session.Run(nodes).status.ok());
  using enum absl::StatusCode;
  ExpectRefusal(target->Commit(session.id(), {2, 1}), kInvalidArgument,
                "node 2 is none of the 2 of the last pass");
  ExpectRefusal(target->Commit(session.id(), {1, 200}), kInvalidArgument, "is 200");
  EXPECT_TRUE(target->Commit(session.id(), {1, 199}).ok()) << "any token of the vocabulary may be";
  EXPECT_EQ(OrDie(target->Length(session.id())), 6u);
  ExpectRefusal(target->Commit(session.id(), {1, 1}), kFailedPrecondition, "no pass to commit");
}

TEST_F(TargetContract, LimitsThatCannotWorkAreRefused) {
  const auto refuse = [&](const EngineOptions& options, const std::string& part) {
    ExpectRefusal(MakeContractTarget(path_, options, *pool_).status(),
                  absl::StatusCode::kInvalidArgument, part);
  };
  refuse({.context_length = 161},
         "a context of 161 tokens is more than the 160 llama was made for; ask for 160 at most");
  refuse({.sequence_count_max = 0}, "1 to 65536 sequences, not 0");
  refuse({.node_count_max = 16, .row_count_max = 16},
         "does not fit into 16 rows; allow fewer nodes");
}

// --- weights that are no numbers ---

class NanTargetContract : public TargetContract {
 protected:
  NanTargetContract() : TargetContract(TensorType::kF32) {}

  // Row `token` of the embeddings becomes NaN.
  void Spoil(TokenId token) {
    const auto model = OrDie(ModelFile::Open(path_));
    const ModelTensor* const tensor = model->Find("token_embd.weight");
    std::string bytes = Contents(path_);
    const float nan = std::numeric_limits<float>::quiet_NaN();
    std::memcpy(bytes.data() + tensor->place->offset + static_cast<size_t>(token) * 256 * 4 + 40,
                &nan, sizeof(nan));
    path_ = dir_.Write("nan.gguf", bytes);
  }
};

TEST_F(NanTargetContract, WhoMeetsThemIsToldAndTheOthersGoOn) {
  const auto whole = Load();
  TargetSession reference(*whole, {});
  reference.Read({1, 2, 3});
  const TokenId expected = reference.Run().outcome.next;
  const TokenId bad = expected == 77 ? 78 : 77;
  Spoil(bad);
  const auto target = Load();
  TargetSession good(*target, {});
  good.Read({1, 2, 3});
  TargetSession spoiled(*target, {});
  spoiled.Read({1, bad, 3});
  // A drafted node that nobody takes cannot spoil the pass: alone, the target would not meet it.
  const std::vector<DraftedNode> nodes = {{bad, DraftedNode::kRoot}};
  const Pass passes[] = {spoiled.PassOver({}), good.PassOver(nodes)};
  PassResult results[2];
  target->Run({}, passes, results);
  EXPECT_EQ(results[0].status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(Message(results[0].status)),
              ::testing::StartsWith("nan.gguf (llama): no token can be chosen for position 3"));
  ASSERT_TRUE(results[1].status.ok()) << results[1].status;
  EXPECT_EQ(results[1].outcome.next, expected);
  // Forget the bad token, and all is well again.
  spoiled.Truncate(1);
  spoiled.Read({2, 3});
  EXPECT_EQ(spoiled.Run().outcome.next, expected);
}

}  // namespace
}  // namespace outrider
