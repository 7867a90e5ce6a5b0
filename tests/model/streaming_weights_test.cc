// Weights that come from flash are those that stay in memory, to the bit, whatever is pinned, however
// many slots there are and by whichever way they are read; what cannot be read is a sentence.
#include "common/model/weights/streaming/streaming_weights.h"

#include <atomic>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "common/base/status.h"
#include "common/engine/cpu_engine.h"
#include "common/formats/models/hyperparameters_rules.h"
#include "common/model/weights/streaming/stream_shape.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/base/page_cache.h"
#include "tests/base/scratch_dir.h"
#include "tests/model/engine.h"
#include "tests/model/random_model.h"

namespace outrider {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kRows = 24;

class StreamingWeightsTest : public ::testing::Test {
 protected:
  void Write(const std::string& family, TensorType type = TensorType::kQ8_0, uint32_t layers = 6) {
    path_ = dir_.File("model.gguf");
    WriteRandomModel(SmallModel(family, layers), type, path_);
    model_ = OrDie(ModelFile::Open(path_));
    spec_ = OrDie(ModelSpec::From(*model_, path_));
  }

  // The same model, as it is laid out for streaming.
  void LayOutForFlash() {
    path_ = dir_.File("flash.gguf");
    ConvertForFlash(*model_, path_);
    model_ = OrDie(ModelFile::Open(path_));
  }

  absl::StatusOr<std::unique_ptr<StreamingWeights>> TryOpen(const StreamOptions& options) {
    return StreamingWeights::Open(*model_, spec_, path_, options, nullptr);
  }
  std::shared_ptr<StreamingWeights> Open(const StreamOptions& options) {
    return OrDie(TryOpen(options));
  }
  std::shared_ptr<ResidentWeights> Resident() {
    return OrDie(ResidentWeights::Load(*model_, spec_, path_, *pool_, nullptr));
  }

  // After a prompt in two chunks and a row by itself.
  std::vector<float> LogitsOver(std::shared_ptr<WeightStore> weights) {
    const auto engine = OrDie(CpuEngine::Create(
        spec_, std::move(weights), 0, {.row_count_max = kRows}, KernelsFor(BestIsa()), *pool_));
    const SequenceId sequence = OrDie(engine->Open());
    std::vector<float> all;
    for (const uint32_t count : {kRows, 7u, 1u}) {
      std::vector<TokenId> tokens(count);
      std::iota(tokens.begin(), tokens.end(), static_cast<TokenId>(engine->Length(sequence) + 1));
      OUTRIDER_CHECK_OK(engine->Reserve(sequence, count, 0));
      std::vector<float> logits(spec_.vocabulary_size);
      const RunPart part = {.sequence = sequence, .chain = tokens};
      const LogitsOfRow asked = {count - 1, logits};
      EngineRun run = {.parts = {&part, 1}, .logits = {&asked, 1}};
      OUTRIDER_CHECK_OK(engine->Run(run));
      engine->Commit(sequence, count, {});
      all.insert(all.end(), logits.begin(), logits.end());
    }
    return all;
  }

  const ScratchDir dir_;
  std::string path_;
  const std::unique_ptr<ThreadPool> pool_ = OrDie(ThreadPool::Create(2));
  std::unique_ptr<ModelFile> model_;
  ModelSpec spec_;
};

TEST_F(StreamingWeightsTest, AreResidentOnesToTheBit) {
  for (const char* const family :
       {"llama", "mistral", "ministral3", "qwen2", "qwen3", "gpt2", "gemma", "gemma2", "gemma3",
        "phi3", "smollm3", "granite", "olmo2", "stablelm", "stablelm2", "cohere2", "exaone4"}) {
    for (const TensorType type : {TensorType::kF32, TensorType::kQ8_0, TensorType::kQ4_K}) {
      SCOPED_TRACE(Concat(family, " ", Name(type)));
      Write(family, type);
      const std::vector<float> expected = LogitsOver(Resident());
      EXPECT_EQ(LogitsOver(Open({})), expected);
      EXPECT_EQ(LogitsOver(Open({.slot_count = 2, .pins_head = false})), expected);
      LayOutForFlash();
      EXPECT_EQ(LogitsOver(Resident()), expected);
      EXPECT_EQ(LogitsOver(Open({})), expected);
      EXPECT_EQ(LogitsOver(Open({.slot_count = 2, .pins_head = false})), expected);
    }
  }
}

// Nothing is between the device and what is computed with.
TEST_F(StreamingWeightsTest, OfAFileForFlashLandInPlace) {
  Write("llama");
  const uint64_t staged = Open({.slot_count = 1, .pins_head = false})->memory_bytes();
  LayOutForFlash();
  const auto weights = Open({.slot_count = 1, .pins_head = false});
  EXPECT_LT(weights->memory_bytes(), staged);
  EXPECT_LE(weights->memory_bytes(),
            MemoryBytes(ShapeOf(*model_, spec_), {.slot_count = 1, .pins_head = false}));
  for (const bool direct : {true, false}) {
    for (const bool io_uring : {true, false}) {
      const auto read = Open({.reads_in_flight = 3, .direct = direct, .io_uring = io_uring});
      EXPECT_EQ(LogitsOver(read), LogitsOver(Resident())) << read->backend();
    }
  }
}

TEST_F(StreamingWeightsTest, AreThoseWhateverIsPinnedAndHoweverTheyAreRead) {
  Write("llama");
  const std::vector<float> expected = LogitsOver(Resident());
  for (const uint32_t pinned : {0u, 1u, 3u, 5u, 6u, 99u}) {
    for (const uint32_t slots : {1u, 2u, 4u, 16u}) {
      for (const bool pins_head : {true, false}) {
        SCOPED_TRACE(Concat(pinned, " pinned, ", slots, " slots, head ", pins_head));
        EXPECT_EQ(LogitsOver(Open(
                      {.slot_count = slots, .pinned_layer_count = pinned, .pins_head = pins_head})),
                  expected);
      }
    }
  }
  for (const bool direct : {true, false}) {
    for (const bool io_uring : {true, false}) {
      const auto weights = Open({.reads_in_flight = 3, .direct = direct, .io_uring = io_uring});
      EXPECT_EQ(LogitsOver(weights), expected) << weights->backend();
    }
  }
}

// Three runs acquire every streamed layer three times; two may have been read ahead at either end.
TEST_F(StreamingWeightsTest, ReadWhatAPassNeedsAndNoMore) {
  Write("llama");
  const auto weights = Open({.slot_count = 2, .pinned_layer_count = 2});
  const uint64_t opened = weights->stats().bytes_read;
  LogitsOver(weights);
  const StreamStats stats = weights->stats();
  EXPECT_EQ(stats.acquired, 3u * 4);
  EXPECT_EQ(stats.thrown_away, 0u);
  const uint64_t pass = weights->bytes_per_pass();
  const uint64_t read_ahead = pass / 2;
  const uint64_t rows_looked_up =
      (kRows + 7 + 1) * uint64_t{spec_.embedding_length} * sizeof(float);
  EXPECT_GE(stats.bytes_read - opened, 3 * pass - read_ahead);
  EXPECT_LE(stats.bytes_read - opened, 3 * pass + read_ahead + rows_looked_up);
}

TEST_F(StreamingWeightsTest, APassThatEndsEarlyCostsOnlyWhatWasReadAhead) {
  Write("llama");
  const auto resident = Resident();
  const auto weights = Open({.slot_count = 2});
  for (int round = 0; round < 5; ++round) {
    for (uint32_t layer = 0; layer < 3; ++layer) {
      const Lease<LayerWeights> lease = OrDie(weights->Acquire(LayerKey{layer}));
      const Lease<LayerWeights> expected = OrDie(resident->Acquire(LayerKey{layer}));
      const WeightMatrix& down = lease->feed_forward.down.matrix;
      const uint64_t bytes = PackedBytes(down.type, down.outputs, down.inputs);
      EXPECT_EQ(std::memcmp(down.data, expected->feed_forward.down.matrix.data, bytes), 0);
    }
  }
  EXPECT_EQ(weights->stats().thrown_away, 4u * 2);
}

TEST_F(StreamingWeightsTest, AKeyMayBeLeasedTwice) {
  Write("llama");
  const auto weights = Open({.slot_count = 1});
  const Lease<LayerWeights> first = OrDie(weights->Acquire(LayerKey{0}));
  const Lease<LayerWeights> second = OrDie(weights->Acquire(LayerKey{0}));
  EXPECT_EQ(&*first, &*second);
}

TEST_F(StreamingWeightsTest, LendTheirWaits) {
  Write("llama", TensorType::kF32);
  const auto weights = Open({.slot_count = 1});
  std::atomic<int> lent = 0;
  weights->LendWaits([&](const std::atomic<bool>& landed) {
    ++lent;
    while (!landed) std::this_thread::yield();
  });
  const std::vector<float> logits = LogitsOver(weights);
  weights->LendWaits(nullptr);
  EXPECT_GT(lent, 0);
  EXPECT_EQ(logits, LogitsOver(Resident()));
}

// A file without a record of its hash is read once for that, whichever way it is streamed then.
TEST_F(StreamingWeightsTest, LittleOfTheFileStaysInThePageCache) {
  Write("llama", TensorType::kF32);
  for (const bool direct : {true, false}) {
    if (!Cool(path_)) GTEST_SKIP() << "this file system keeps all of its files in memory";
    model_ = OrDie(ModelFile::Open(path_));
    const auto weights = Open({.slot_count = 2, .direct = direct});
    LogitsOver(weights);
    EXPECT_LE(CachedBytes(path_), std::filesystem::file_size(path_) / 4) << weights->backend();
  }
}

size_t ThreadCount() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return static_cast<size_t>(std::distance(begin(tasks), end(tasks)));
}

// However many files are open: those of the tables, and those of the lane.
TEST_F(StreamingWeightsTest, WithoutIoUringAFewThreadsReadAllFiles) {
  Write("llama");
  const std::vector<float> expected = LogitsOver(Resident());
  const size_t before = ThreadCount();
  const auto weights = Open({.reads_in_flight = 8, .io_uring = false});
  EXPECT_EQ(ThreadCount(), before + 1 + ReadThreads::kCountMax);
  EXPECT_EQ(LogitsOver(weights), expected);
}

TEST_F(StreamingWeightsTest, AFileThatWasCutIsASentenceAndNoCrash) {
  Write("llama");
  const auto weights = Open({.slot_count = 1, .direct = false});
  std::filesystem::resize_file(path_, std::filesystem::file_size(path_) / 2);
  absl::Status status;
  uint32_t layer = 0;
  for (; layer < spec_.layer_count() && status.ok(); ++layer) {
    status = weights->Acquire(LayerKey{layer}).status();
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(Message(status), HasSubstr(path_));
  EXPECT_THAT(Message(status), HasSubstr("tensor "));
  EXPECT_THAT(Message(status), HasSubstr("ends at offset "));
  // It says so again, and what is still there can still be had.
  EXPECT_EQ(weights->Acquire(LayerKey{layer - 1}).status(), status);
  EXPECT_TRUE(weights->Acquire(LayerKey{0}).ok());
}

}  // namespace
}  // namespace outrider
