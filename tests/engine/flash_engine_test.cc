// An engine whose layers come from flash says what one that holds them all says, to the bit: prompts
// in pieces, trees, several sequences, exits; whatever is pinned. A read that fails fails a run.
#include "common/engine/flash_engine.h"

#include <fcntl.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/direct_file.h"
#include "common/base/file_descriptor.h"
#include "common/base/read_engine.h"
#include "common/base/status.h"
#include "common/kernels/isa.h"
#include "common/model/weights/streaming/stream_shape.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/base/scratch_dir.h"
#include "tests/engine/guesses.h"
#include "tests/engine/target_session.h"
#include "tests/model/exits.h"
#include "tests/model/random_model.h"
#include "tests/model/wrapped_store.h"

namespace outrider {
namespace {

using ::testing::HasSubstr;
using Bits = std::vector<float>;

constexpr uint32_t kLayers = 6;
constexpr EngineOptions kOptions = {
    .sequence_count_max = 3, .node_count_max = 8, .row_count_max = 24};

class FlashEngineTest : public testing::Test {
 protected:
  void Write(const std::string& family) {
    WriteRandomModel(SmallModel(family, kLayers), TensorType::kQ8_0, path_);
  }
  // Some layers are larger than the others, as in a file of mixed types.
  void WriteMixed(const std::vector<uint32_t>& larger) {
    const auto type_of = [&](std::string_view tensor) {
      const bool is_larger = std::ranges::any_of(larger, [&](uint32_t layer) {
        return tensor.starts_with(Concat("blk.", layer, ".ffn"));
      });
      return is_larger ? TensorType::kQ6_K : TensorType::kQ4_K;
    };
    WriteRandomModel(SmallModel("llama", kLayers), type_of, path_);
  }

  std::unique_ptr<Engine> Resident(const EngineOptions& options = kOptions) {
    return OrDie(LoadCpuEngine(*OrDie(ModelFile::Open(path_)), path_, options,
                               KernelsFor(BestIsa()), *pool_, nullptr));
  }
  FlashEngine Load(const StreamOptions& stream, const EngineOptions& options = kOptions) {
    return OrDie(LoadFlashEngine(OrDie(ModelFile::Open(path_)), path_, options, stream,
                                 KernelsFor(BestIsa()), *pool_, nullptr));
  }

  // One run, and the logits of all its rows, joined to `all`.
  static absl::Status Run(Engine& engine, const std::vector<RunPart>& parts, Bits& all) {
    EngineRun run = {.parts = parts};
    std::vector<Bits> logits(run.row_count(), Bits(engine.info().vocabulary_size));
    std::vector<LogitsOfRow> asked;
    for (uint32_t row = 0; row < logits.size(); ++row) asked.push_back({row, logits[row]});
    run.logits = asked;
    OUTRIDER_RETURN_IF_ERROR(engine.Run(run));
    for (const Bits& row : logits) all.insert(all.end(), row.begin(), row.end());
    return absl::OkStatus();
  }

  static void Read(Engine& engine, SequenceId sequence, const std::vector<TokenId>& tokens) {
    constexpr size_t kPiece = 24;
    for (size_t at = 0; at < tokens.size(); at += kPiece) {
      const auto piece = std::span(tokens).subspan(at, std::min(kPiece, tokens.size() - at));
      OUTRIDER_CHECK_OK(engine.Reserve(sequence, static_cast<uint32_t>(piece.size()), 0));
      const RunPart part = {.sequence = sequence, .chain = piece};
      EngineRun run = {.parts = {&part, 1}};  // no logits are wanted
      OUTRIDER_CHECK_OK(engine.Run(run));
      engine.Commit(sequence, static_cast<uint32_t>(piece.size()), {});
    }
  }

  // Two prompts in pieces; then runs of a tree below one and a token after the other, whose path is
  // committed; then both alone.
  static Bits Everything(Engine& engine) {
    Bits all;
    const SequenceId a = OrDie(engine.Open()), b = OrDie(engine.Open());
    Read(engine, a, RandomTokens(60, 1));
    Read(engine, b, RandomTokens(31, 2));
    for (TokenId token = 1; token < 4; ++token) {
      const std::vector<TokenId> next = {token};
      const EngineNode nodes[] = {{5, EngineNode::kChain, 2},
                                  {6, EngineNode::kChain, 0},
                                  {7, 2, 1},
                                  {8, 1, 3},
                                  {token, 0, 4}};
      OUTRIDER_CHECK_OK(engine.Reserve(a, 4, 5));
      OUTRIDER_CHECK_OK(engine.Reserve(b, 1, 0));
      OUTRIDER_CHECK_OK(Run(
          engine, {{.sequence = a, .chain = next, .nodes = nodes}, {.sequence = b, .chain = next}},
          all));
      engine.Commit(a, 1, {{2, 1}});
      engine.DropNodes(a);
      engine.Commit(b, 1, {});
    }
    for (const SequenceId sequence : {b, a}) {
      const std::vector<TokenId> last = {9, 4};
      OUTRIDER_CHECK_OK(engine.Reserve(sequence, 2, 0));
      OUTRIDER_CHECK_OK(Run(engine, {{.sequence = sequence, .chain = last}}, all));
      engine.Close(sequence);
    }
    return all;
  }

  const ScratchDir dir_;
  const std::string path_ = dir_.File("model.gguf");
  const std::unique_ptr<ThreadPool> pool_ = OrDie(ThreadPool::Create(2));
};

TEST_F(FlashEngineTest, SaysWhatResidentWeightsSayWhateverIsPinned) {
  for (const char* const family : {"llama", "mistral", "qwen3", "gpt2"}) {
    Write(family);
    const auto resident = Resident();
    const Bits expected = Everything(*resident);
    for (const uint32_t pinned : {0u, 2u, kLayers}) {
      for (const bool pins_head : {true, false}) {
        SCOPED_TRACE(Concat(family, ", ", pinned, " pinned, head ", pins_head));
        const FlashEngine flash = Load({.pinned_layer_count = pinned, .pins_head = pins_head});
        EXPECT_EQ(flash.engine->info().numerics_id.ToString(),
                  resident->info().numerics_id.ToString());
        EXPECT_TRUE(Everything(*flash.engine) == expected);
      }
    }
  }
}

// Of a prompt, in runs as long as an engine has them.
TEST_F(FlashEngineTest, SaysTheSameHoweverLongItsRunsAre) {
  const std::vector<TokenId> prompt = RandomTokens(150, 5);
  const auto last_of = [&](Engine& engine) {
    const SequenceId sequence = OrDie(engine.Open());
    const size_t rows = engine.info().row_count_max;
    Bits bits;
    for (size_t at = 0; at < prompt.size(); at += rows) {
      const auto piece = std::span(prompt).subspan(at, std::min(rows, prompt.size() - at));
      OUTRIDER_CHECK_OK(engine.Reserve(sequence, static_cast<uint32_t>(piece.size()), 0));
      bits.clear();
      OUTRIDER_CHECK_OK(Run(engine, {{.sequence = sequence, .chain = piece}}, bits));
      engine.Commit(sequence, static_cast<uint32_t>(piece.size()), {});
    }
    return Bits(bits.end() - engine.info().vocabulary_size, bits.end());
  };
  for (const char* const family : {"llama", "mistral", "olmoe", "gptoss"}) {
    Write(family);
    EngineOptions options = kOptions;
    options.row_count_max = 150;
    const Bits expected = last_of(*Resident(options));
    for (const uint32_t rows : {11u, 33u, 64u, 129u, 149u, 150u, 337u}) {
      SCOPED_TRACE(Concat(family, ", runs of ", rows));
      options.row_count_max = rows;
      EXPECT_TRUE(last_of(*Load({.pinned_layer_count = 2}, options).engine) == expected);
    }
  }
}

// Exits hold the head while layers come and go: where that is streamed it keeps a slot for itself.
TEST_F(FlashEngineTest, ExitsGuessTheSame) {
  Write("llama");
  const auto guesses_of = [](Engine& engine) {
    const TrainedExits exits =
        RandomExits(engine.spec(), engine.info().content_hash, {1, 3}, 16, 0.2f);
    GuessKeeper keeper;
    OUTRIDER_CHECK_OK(engine.AttachExits(exits, "exits", {}, keeper));
    const SequenceId sequence = OrDie(engine.Open());
    Read(engine, sequence, RandomTokens(40, 3));
    const Chooser chooser = OrDie(Chooser::Create({}, kVocabulary));
    TokenHistory history({.vocabulary_size = kVocabulary, .capacity = 64});
    OUTRIDER_CHECK_OK(history.Append(RandomTokens(41, 3)));
    std::vector<float> said;
    for (int pass = 0; pass < 3; ++pass) {
      const std::vector<DraftedNode> draft = {{4, DraftedNode::kRoot}, {5, 0}};
      const std::vector<EngineNode> nodes = {{4, EngineNode::kChain, 0}, {5, 0, 1}};
      const std::vector<TokenId> root = {history.tokens().back()};
      OUTRIDER_CHECK_OK(engine.Reserve(sequence, 3, 2));
      const RunPart part = {.sequence = sequence, .chain = root, .nodes = nodes};
      TreeWalk walk = {.root_row = 0, .nodes = draft, .chooser = &chooser, .history = &history};
      EngineRun run = {.parts = {&part, 1}, .walks = {&walk, 1}};
      OUTRIDER_CHECK_OK(engine.Run(run));
      said.push_back(static_cast<float>(walk.outcome.next));
    }
    for (const ExitGuess& guess : keeper.guesses()) {
      said.push_back(static_cast<float>(guess.outcome.next));
      said.push_back(guess.probability);
    }
    engine.DetachExits();
    return said;
  };
  const std::vector<float> expected = guesses_of(*Resident());
  EXPECT_GT(expected.size(), 3u);
  for (const bool pins_head : {true, false}) {
    EXPECT_EQ(guesses_of(*Load({.pins_head = pins_head}).engine), expected) << pins_head;
  }
}

// Of the reads of all its files, which are counted, one fails as a disk's do; or all are slow.
class FaultyReads {
 public:
  StreamOptions In(StreamOptions options) {
    options.open = [this](const std::string& path, const DirectFile::Options& asked) {
      return Open(path, asked);
    };
    return options;
  }

  void FailAfter(int reads) { left_ = reads; }
  bool has_failed() const { return left_ < 0; }
  int count() const { return count_; }
  void Slow(std::chrono::microseconds by) { slow_us_ = by.count(); }

 private:
  class Faulty final : public ReadEngine {
   public:
    Faulty(FaultyReads& faults, std::unique_ptr<ReadEngine> reads)
        : faults_(faults), reads_(std::move(reads)) {}

    absl::Status Submit(uint32_t slot, uint64_t offset, std::span<std::byte> out) override {
      return reads_->Submit(slot, offset, out);
    }
    RawRead Wait() override {
      RawRead read = reads_->Wait();
      std::this_thread::sleep_for(std::chrono::microseconds(faults_.slow_us_));
      ++faults_.count_;
      if (faults_.left_-- == 0) read.result = -EIO;
      return read;
    }

   private:
    FaultyReads& faults_;
    const std::unique_ptr<ReadEngine> reads_;
  };

  absl::StatusOr<std::unique_ptr<DirectFile>> Open(const std::string& path,
                                                   const DirectFile::Options& options) {
    FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    const DirectFile::Source source = {path, std::filesystem::file_size(path), 4096, "faulty"};
    return std::make_unique<DirectFile>(
        source, options.queue_depth,
        std::make_unique<Faulty>(*this, MakePreadEngine(std::move(file), options.queue_depth)));
  }

  static constexpr int kNever = 1 << 30;
  std::atomic<int> left_ = kNever;
  std::atomic<int> count_ = 0;
  std::atomic<int64_t> slow_us_ = 0;
};

// A token after a text, as resident weights say it.
class OneToken {
 public:
  explicit OneToken(Engine& engine, void (*read)(Engine&, SequenceId, const std::vector<TokenId>&))
      : engine_(engine), sequence_(OrDie(engine.Open())) {
    read(engine, sequence_, RandomTokens(30, 4));
  }

  absl::Status Run(Bits& logits) {
    logits.assign(engine_.info().vocabulary_size, 0);
    const std::vector<TokenId> next = {7};
    OUTRIDER_CHECK_OK(engine_.Reserve(sequence_, 1, 0));
    const RunPart part = {.sequence = sequence_, .chain = next};
    const LogitsOfRow asked = {0, logits};
    EngineRun run = {.parts = {&part, 1}};
    run.logits = {&asked, 1};
    return engine_.Run(run);
  }
  uint32_t length() const { return engine_.Length(sequence_); }

 private:
  Engine& engine_;
  const SequenceId sequence_;
};

TEST_F(FlashEngineTest, AReadThatFailsFailsItsRunWhereverItIsAndTheNextOneIsRight) {
  Write("llama");
  const auto resident = Resident();
  Bits expected;
  ASSERT_TRUE(OneToken(*resident, Read).Run(expected).ok());
  FaultyReads faults;
  const FlashEngine flash =
      Load(faults.In({.slot_count = 2, .pinned_layer_count = 1, .pins_head = false}));
  OneToken token(*flash.engine, Read);
  Bits logits;
  const int before = faults.count();
  ASSERT_TRUE(token.Run(logits).ok());
  // Of this run, and of what it has read ahead for the next one.
  const int reads = faults.count() - before + 4;
  ASSERT_GT(reads, 10);
  int failed_runs = 0;
  for (int read = 0; read < reads; ++read) {
    SCOPED_TRACE(read);
    faults.FailAfter(read);
    absl::Status status;
    // What fails may be read for the run after this one.
    for (int run = 0; run < 3; ++run) {
      status = token.Run(logits);
      if (!status.ok()) break;
      EXPECT_TRUE(logits == expected);
    }
    EXPECT_TRUE(faults.has_failed());
    if (status.ok()) continue;  // what had been read for nothing
    ++failed_runs;
    EXPECT_THAT(Message(status), HasSubstr(path_));
    EXPECT_THAT(Message(status), HasSubstr("tensor "));
    EXPECT_THAT(Message(status), HasSubstr("at offset "));
    EXPECT_EQ(token.length(), 30u);
    ASSERT_TRUE(token.Run(logits).ok());
    EXPECT_TRUE(logits == expected);
  }
  EXPECT_GT(failed_runs, reads / 2);
}

TEST_F(FlashEngineTest, ADiskThatBecomesSlowSaysTheSameLater) {
  Write("llama");
  const auto resident = Resident();
  Bits expected, logits;
  ASSERT_TRUE(OneToken(*resident, Read).Run(expected).ok());
  FaultyReads faults;
  const FlashEngine flash = Load(faults.In({.slot_count = 2}));
  OneToken token(*flash.engine, Read);
  ASSERT_TRUE(token.Run(logits).ok());
  const Duration before = flash.weights->stats().stalled;
  faults.Slow(std::chrono::milliseconds(3));
  ASSERT_TRUE(token.Run(logits).ok());
  EXPECT_TRUE(logits == expected);
  EXPECT_GT(flash.weights->stats().stalled - before, std::chrono::milliseconds(10));
}

TEST_F(FlashEngineTest, AFileThatIsCutOrWrittenToFailsTheRunAndOneThatIsReplacedDoesNot) {
  Write("llama");
  const StreamOptions options = {.slot_count = 1, .direct = false};
  const auto resident = Resident();
  Bits expected, logits;
  ASSERT_TRUE(OneToken(*resident, Read).Run(expected).ok());

  const FlashEngine replaced = Load(options);
  OneToken goes_on(*replaced.engine, Read);
  const std::string copy = dir_.File("copy.gguf");
  std::filesystem::copy_file(path_, copy);
  std::filesystem::rename(copy, path_);
  ASSERT_TRUE(goes_on.Run(logits).ok());
  EXPECT_TRUE(logits == expected);

  const FlashEngine written = Load(options);
  OneToken other(*written.engine, Read);
  std::fstream(path_, std::ios::in | std::ios::out | std::ios::binary) << "GGUF";
  const absl::Status was_written = other.Run(logits);
  EXPECT_EQ(was_written.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(Message(was_written), HasSubstr(Concat(path_, ": was written to")));

  const FlashEngine cut = Load(options);
  OneToken short_of(*cut.engine, Read);
  std::filesystem::resize_file(path_, std::filesystem::file_size(path_) / 2);
  const absl::Status was_cut = short_of.Run(logits);
  EXPECT_EQ(was_cut.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(Message(was_cut), HasSubstr(path_));
  EXPECT_EQ(short_of.length(), 30u);
}

// Somebody needs the memory: what was pinned is read from then on, down to nothing.
TEST_F(FlashEngineTest, LayersThatAreGivenUpAreReadAndSayTheSame) {
  Write("llama");
  const auto resident = Resident();
  const Bits expected = Everything(*resident);
  for (const uint32_t pinned : {2u, kLayers}) {
    SCOPED_TRACE(pinned);
    const FlashEngine flash = Load({.slot_count = 2, .pinned_layer_count = pinned});
    uint64_t before = flash.weights->bytes_per_pass();
    for (const uint64_t bytes : {uint64_t{1}, flash.weights->memory_bytes() / 2}) {
      flash.weights->GiveUp(bytes, absl::OkStatus());
      EXPECT_TRUE(Everything(*flash.engine) == expected);
      EXPECT_GT(flash.weights->bytes_per_pass(), before);
      before = flash.weights->bytes_per_pass();
    }
    flash.weights->GiveUp(uint64_t{1} << 40, absl::OkStatus());
    EXPECT_TRUE(Everything(*flash.engine) == expected);
    EXPECT_TRUE(Everything(*flash.engine) == expected);
    const FlashEngine nothing = Load({.slot_count = 2});
    EXPECT_EQ(flash.weights->bytes_per_pass(), nothing.weights->bytes_per_pass());
  }
}

// Somebody asks for all memory that there is when a run has come to a layer.
class AskedAtLayer final : public WrappedStore {
 public:
  AskedAtLayer(StreamingWeights& weights, uint32_t layer)
      : WrappedStore(weights), weights_(weights), layer_(layer) {}

  absl::StatusOr<Lease<LayerWeights>> Acquire(LayerKey key) override {
    if (key.layer == layer_) weights_.GiveUp(uint64_t{1} << 40, otherwise);
    absl::StatusOr<Lease<LayerWeights>> lease = WrappedStore::Acquire(key);
    if (key.layer == layer_) bytes_per_pass = weights_.bytes_per_pass();
    return lease;
  }
  bool IsAtHand(ExpertKey key) override { return weights_.IsAtHand(key); }
  const Linear* RouterAhead(uint32_t layer) override { return weights_.RouterAhead(layer); }
  void Guess(std::span<const WeightKey> keys) override { weights_.Guess(keys); }

  absl::Status otherwise = {};
  uint64_t bytes_per_pass = 0;  // when the layer was there

 private:
  StreamingWeights& weights_;
  const uint32_t layer_;
};

// Of one over a prompt, which takes seconds: the layers before were there, those after are read, and what
// is said is the same. Where it is too much the run fails there, and nothing else.
TEST_F(FlashEngineTest, LayersAreGivenUpInTheMiddleOfARun) {
  for (const char* const family : {"llama", "qwen3moe"}) {
    Write(family);
    const auto resident = Resident();
    const Bits expected = Everything(*resident);
    for (uint32_t layer = 0; layer < kLayers; ++layer) {
      SCOPED_TRACE(Concat(family, ", at layer ", layer));
      const FlashEngine flash = Load({.slot_count = 2, .pinned_layer_count = kLayers - 1});
      const uint64_t before = flash.weights->bytes_per_pass();
      const auto asked = std::make_shared<AskedAtLayer>(*flash.weights, layer);
      const auto engine = OrDie(
          CpuEngine::Create(resident->spec(), asked, 0, kOptions, KernelsFor(BestIsa()), *pool_));
      EXPECT_TRUE(Everything(*engine) == expected);
      EXPECT_GT(asked->bytes_per_pass, before);
      OneToken token(*engine, Read);
      Bits logits;
      asked->otherwise = ResourceExhausted("too little is left");
      EXPECT_THAT(Message(token.Run(logits)), HasSubstr("too little is left"));
      EXPECT_EQ(token.length(), 30u);
      asked->otherwise = absl::OkStatus();
      flash.weights->GiveUp(0, absl::OkStatus());
      EXPECT_TRUE(token.Run(logits).ok());
    }
  }
}

// Whichever of them are the larger ones: what comes into a slot fits there.
TEST_F(FlashEngineTest, LayersOfAnySizeAreGivenUp) {
  for (const std::vector<uint32_t>& larger :
       std::vector<std::vector<uint32_t>>{{2, 5}, {0}, {1, 3, 4}}) {
    WriteMixed(larger);
    const auto resident = Resident();
    const Bits expected = Everything(*resident);
    const StreamShape shape = ShapeOf(*OrDie(ModelFile::Open(path_)), resident->spec());
    for (const uint32_t pinned : {2u, kLayers - 1, kLayers}) {
      for (const bool pins_head : {true, false}) {
        SCOPED_TRACE(Concat(larger.front(), ", ", pinned, " pinned, head ", pins_head));
        const StreamOptions options = {
            .slot_count = 2, .pinned_layer_count = pinned, .pins_head = pins_head};
        const FlashEngine flash = Load(options);
        EXPECT_LE(flash.weights->memory_bytes(), MemoryBytes(shape, options));
        flash.weights->GiveUp(uint64_t{1} << 40, absl::OkStatus());
        EXPECT_TRUE(Everything(*flash.engine) == expected);
      }
    }
  }
}

TEST_F(FlashEngineTest, WhereSoMuchCannotBeGivenUpRunsFailWithTheSentenceUntilLessIsAsked) {
  Write("llama");
  const FlashEngine flash = Load({.pinned_layer_count = kLayers});
  OneToken token(*flash.engine, Read);
  Bits logits;
  ASSERT_TRUE(token.Run(logits).ok());
  const Bits expected = logits;
  flash.weights->GiveUp(flash.weights->memory_bytes(), ResourceExhausted("too little is left"));
  for (int run = 0; run < 2; ++run) {
    EXPECT_THAT(Message(token.Run(logits)), HasSubstr("too little is left"));
  }
  flash.weights->GiveUp(1, ResourceExhausted("not so little"));
  ASSERT_TRUE(token.Run(logits).ok());
  EXPECT_TRUE(logits == expected);
}

// A run reads what is not pinned once, however many rows it has, and of the head nothing where
// nobody asks for logits.
TEST_F(FlashEngineTest, AChunkOfAPromptIsOnePassOverTheFlash) {
  Write("llama");
  for (const bool pins_head : {true, false}) {
    const FlashEngine flash =
        Load({.slot_count = 2, .pinned_layer_count = 2, .pins_head = pins_head});
    const SequenceId sequence = OrDie(flash.engine->Open());
    Read(*flash.engine, sequence, RandomTokens(72, 5));
    EXPECT_EQ(flash.weights->stats().acquired, 3u * (kLayers - 2));
    EXPECT_EQ(flash.weights->stats().thrown_away, 0u);
    // Whoever asks for some after that has them, and the next piece goes on without.
    OUTRIDER_CHECK_OK(flash.engine->Reserve(sequence, 1, 0));
    const std::vector<TokenId> next = {7};
    Bits logits;
    OUTRIDER_CHECK_OK(Run(*flash.engine, {{.sequence = sequence, .chain = next}}, logits));
    flash.engine->Commit(sequence, 1, {});
    Read(*flash.engine, sequence, RandomTokens(24, 6));
    EXPECT_EQ(flash.weights->stats().acquired, 5u * (kLayers - 2) + (pins_head ? 0 : 1));
    EXPECT_EQ(flash.weights->stats().thrown_away, 0u);
  }
}

}  // namespace
}  // namespace outrider
