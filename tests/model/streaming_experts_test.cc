// Experts that come from flash are those that stay in memory, to the bit: whatever there is room for,
// whoever is evicted, whoever shares a run. What cannot be read is a sentence, and the next run works.
#include <fcntl.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/base/chrome_trace.h"
#include "common/base/direct_file.h"
#include "common/base/process_memory.h"
#include "common/base/read_engine.h"
#include "common/base/status.h"
#include "common/engine/cpu_engine.h"
#include "common/model/weights/streaming/stream_shape.h"
#include "common/model/weights/streaming/streaming_weights.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/base/scratch_dir.h"
#include "tests/model/engine.h"
#include "tests/model/random_model.h"

namespace outrider {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kLayers = 4;
constexpr uint32_t kSequences = 3;

class StreamingExpertsTest : public ::testing::Test {
 protected:
  void Write(const std::string& family, TensorType type = TensorType::kQ8_0) {
    const Hyperparameters shape = SmallModel(family, kLayers);
    path_ = dir_.File("model.gguf");
    WriteRandomModel(shape, type, path_);
    model_ = OrDie(ModelFile::Open(path_));
    spec_ = OrDie(ModelSpec::From(*model_, path_));
    expert_count_ = shape.experts.count * kLayers;
  }

  // The same model, as it is laid out for streaming.
  void LayOutForFlash() {
    path_ = dir_.File("flash.gguf");
    ConvertForFlash(*model_, path_);
    model_ = OrDie(ModelFile::Open(path_));
  }

  std::shared_ptr<StreamingWeights> Open(const StreamOptions& options) {
    return OrDie(StreamingWeights::Open(*model_, spec_, path_, options, nullptr));
  }
  std::shared_ptr<ResidentWeights> Resident() {
    return OrDie(ResidentWeights::Load(*model_, spec_, path_, *pool_, nullptr));
  }
  std::unique_ptr<CpuEngine> EngineOver(std::shared_ptr<WeightStore> weights) {
    return OrDie(CpuEngine::Create(
        spec_, std::move(weights), 0,
        {.sequence_count_max = kSequences, .node_count_max = 16, .row_count_max = 64},
        KernelsFor(BestIsa()), *pool_));
  }

  // Prompts of three sequences in one run, then passes over trees of some of them, then single rows.
  std::vector<float> LogitsOver(std::shared_ptr<WeightStore> weights) {
    const auto engine = EngineOver(std::move(weights));
    std::vector<SequenceId> sequences;
    for (uint32_t i = 0; i < kSequences; ++i) sequences.push_back(OrDie(engine->Open()));
    std::vector<float> all;
    for (uint32_t round = 0; round < 6; ++round) {
      OUTRIDER_CHECK_OK(RunRound(*engine, sequences, round, all));
    }
    return all;
  }

  absl::Status RunRound(CpuEngine& engine, const std::vector<SequenceId>& sequences, uint32_t round,
                        std::vector<float>& all) {
    std::vector<std::vector<TokenId>> chains;
    std::vector<EngineNode> nodes;  // under the first sequence's chain: two branches
    std::vector<RunPart> parts;
    if (round == 1 || round == 2) {
      nodes = {{11, EngineNode::kChain, 0},
               {12, 0, 1},
               {13, 1, 2},
               {90, EngineNode::kChain, 3},
               {91, 3, 4}};
    }
    for (uint32_t i = 0; i < sequences.size(); ++i) {
      const uint32_t count = round == 0 ? 17 - 8 * i : round < 3 ? 1 + i : 1;
      std::vector<TokenId>& chain = chains.emplace_back();
      for (uint32_t t = 0; t < count; ++t) {
        chain.push_back(static_cast<TokenId>((31 * round + 57 * i + 7 * t + 3) % 200));
      }
    }
    for (uint32_t i = 0; i < sequences.size(); ++i) {
      if (round > 3 && i > 0) break;  // alone
      parts.push_back({.sequence = sequences[i], .chain = chains[i]});
      if (i == 0) parts.back().nodes = nodes;
      OUTRIDER_RETURN_IF_ERROR(engine.Reserve(
          sequences[i], static_cast<uint32_t>(chains[i].size()) + 8, i == 0 ? 16 : 0));
    }
    EngineRun run = {.parts = parts};
    const size_t first = all.size();
    all.resize(first + size_t{run.row_count()} * spec_.vocabulary_size);
    std::vector<LogitsOfRow> asked;
    for (uint32_t row = 0; row < run.row_count(); ++row) {
      asked.push_back({row, std::span(all).subspan(first + size_t{row} * spec_.vocabulary_size,
                                                   spec_.vocabulary_size)});
    }
    run.logits = asked;
    OUTRIDER_RETURN_IF_ERROR(engine.Run(run));
    const std::vector<uint32_t> path = {0, 1};
    for (const RunPart& part : parts) {
      engine.Commit(part.sequence, static_cast<uint32_t>(part.chain.size()),
                    part.nodes.empty() ? std::span<const uint32_t>() : path);
    }
    return absl::OkStatus();
  }

  const ScratchDir dir_;
  std::string path_;
  const std::unique_ptr<ThreadPool> pool_ = OrDie(ThreadPool::Create(2));
  std::unique_ptr<ModelFile> model_;
  ModelSpec spec_;
  uint32_t expert_count_ = 0;  // of all layers
};

TEST_F(StreamingExpertsTest, AreResidentOnesToTheBit) {
  for (const char* const family : {"mixtral", "qwen2moe", "qwen3moe", "olmoe", "gptoss"}) {
    for (const TensorType type : {TensorType::kF32, TensorType::kQ8_0, TensorType::kQ4_K}) {
      SCOPED_TRACE(Concat(family, " ", Name(type)));
      Write(family, type);
      const std::vector<float> expected = LogitsOver(Resident());
      EXPECT_EQ(LogitsOver(Open({})), expected);
      EXPECT_EQ(LogitsOver(Open({.pinned_layer_count = 2, .expert_place_count = 7})), expected);
      LayOutForFlash();
      EXPECT_EQ(LogitsOver(Open({.pinned_layer_count = 2, .expert_place_count = 7})), expected);
    }
  }
}

TEST_F(StreamingExpertsTest, AreThoseWhateverThereIsRoomForAndWhoeverIsEvicted) {
  Write("qwen3moe");
  const std::vector<float> expected = LogitsOver(Resident());
  for (const Eviction eviction : {Eviction::kEdgeMoe, Eviction::kLru, Eviction::kLfu}) {
    for (const uint32_t places : {1u, 2u, 3u, 8u, 24u, 47u, 48u, 999u}) {
      for (const uint32_t pinned : {0u, kLayers}) {
        SCOPED_TRACE(Concat(Name(eviction), ", ", places, " places, ", pinned, " pinned"));
        const auto weights = Open({.pinned_layer_count = pinned,
                                   .expert_place_count = places,
                                   .expert_eviction = eviction});
        EXPECT_EQ(LogitsOver(weights), expected);
        const ExpertCacheStats cache = weights->stats().experts.cache;
        EXPECT_GT(cache.misses, 0u);
        if (places >= expert_count_) {
          EXPECT_LE(cache.misses, expert_count_);
        }
      }
    }
  }
  for (const bool direct : {true, false}) {
    for (const bool io_uring : {true, false}) {
      const auto weights = Open(
          {.reads_in_flight = 3, .direct = direct, .io_uring = io_uring, .expert_place_count = 12});
      EXPECT_EQ(LogitsOver(weights), expected) << weights->backend();
    }
  }
}

// What one row alone goes to is read, and nothing else; with room for all of them, once.
TEST_F(StreamingExpertsTest, OnlyThoseThatRowsChoseAreRead) {
  Write("olmoe");
  const auto weights = Open({.pinned_layer_count = kLayers, .expert_place_count = 999});
  const auto engine = EngineOver(weights);
  const SequenceId sequence = OrDie(engine->Open());
  const TokenId token = 7;
  const RunPart part = {.sequence = sequence, .chain = {&token, 1}};
  const uint32_t used = spec_.layers[0].feed_forward.router->used_count;
  for (int pass = 0; pass < 2; ++pass) {
    OUTRIDER_CHECK_OK(engine->Reserve(sequence, 1, 0));
    EngineRun run = {.parts = {&part, 1}};
    OUTRIDER_CHECK_OK(engine->Run(run));
    const ExpertStats stats = weights->stats().experts;
    EXPECT_EQ(stats.cache.misses, used * kLayers);
    EXPECT_EQ(stats.cache.taken, used * kLayers);
    EXPECT_EQ(stats.cache.hits, pass * used * kLayers);
  }
}

// A trace has every expert that was read, as one that was wanted or guessed, and what came of every
// choice, as the store counts them. Spans of a track do not overlap.
TEST_F(StreamingExpertsTest, AreDrawnAsTheyAreCounted) {
  Write("qwen3moe");
  const auto trace = OrDie(ChromeTrace::Create(dir_.File("trace.json")));
  ExpertStats stats;
  {
    const auto weights = Open({.expert_place_count = 20, .trace = trace.get()});
    LogitsOver(weights);
    stats = weights->stats().experts;
  }
  OUTRIDER_CHECK_OK(trace->Write());
  std::map<std::string, uint64_t> counted;
  std::map<int, double> ends;  // by track
  for (const auto& event : nlohmann::json::parse(Contents(dir_.File("trace.json")))) {
    const std::string name = event["name"];
    ++counted[name];
    for (const char* const value : {"hits", "misses", "right", "wrong"}) {
      counted[value] += event["args"].value(value, 0);
    }
    if (event["ph"] != "X") continue;
    double& end = ends[event["tid"]];
    EXPECT_GE(event["ts"].get<double>(), end - 0.01) << name;  // microseconds, of whole nanoseconds
    end = event["ts"].get<double>() + event["dur"].get<double>();
  }
  EXPECT_EQ(counted["read expert"] + counted["read guessed expert"], stats.cache.taken);
  EXPECT_GT(stats.cache.taken, stats.cache.evicted);
  EXPECT_EQ(stats.cache.taken - stats.cache.evicted, 20u);
  EXPECT_GT(counted["wait for expert"], 0u);
  EXPECT_EQ(counted["hits"], stats.cache.hits);
  EXPECT_EQ(counted["misses"], stats.cache.misses);
  EXPECT_EQ(counted["right"], stats.guesses.right);
  EXPECT_EQ(counted["wrong"], stats.guesses.wrong);
  EXPECT_GT(stats.guesses.right + stats.guesses.wrong, 0u);
}

// Places first, then layers but for their routers: down to what a run cannot do without.
TEST_F(StreamingExpertsTest, AreThoseWhateverIsGivenUp) {
  for (const char* const family : {"qwen3moe", "qwen2moe", "mixtral", "gptoss"}) {
    Write(family);
    const std::vector<float> expected = LogitsOver(Resident());
    for (const uint32_t pinned : {2u, kLayers}) {
      SCOPED_TRACE(Concat(family, ", ", pinned, " pinned"));
      const auto weights =
          Open({.slot_count = 2, .pinned_layer_count = pinned, .expert_place_count = 40});
      const uint32_t place_least = ShapeOf(*model_, spec_).experts.place_least;
      const auto least = Open({.slot_count = 2, .expert_place_count = place_least});
      EXPECT_EQ(LogitsOver(weights), expected);
      const uint64_t resident = ResidentBytes();
      // Parts of pages at either end of what goes stay.
      const uint64_t possible = weights->memory_bytes() - least->memory_bytes() - (512 << 10);
      ASSERT_GT(possible, 1u << 20);
      for (const uint64_t bytes : {possible / 2, possible}) {
        weights->GiveUp(bytes, ResourceExhausted("no more"));
        EXPECT_EQ(LogitsOver(weights), expected);
        EXPECT_LT(ResidentBytes() + bytes, resident + (1 << 20));
      }
      weights->GiveUp(uint64_t{1} << 40, absl::OkStatus());
      EXPECT_EQ(LogitsOver(weights), expected);
      EXPECT_EQ(weights->bytes_per_pass(), least->bytes_per_pass());
    }
  }
}

TEST_F(StreamingExpertsTest, AKeyMayBeLeasedTwiceAndInAnyOrder) {
  Write("mixtral");
  const auto resident = Resident();
  const auto weights = Open({.expert_place_count = 4});
  const std::vector<WeightKey> keys = {ExpertKey{1, 0}, ExpertKey{1, 1}, ExpertKey{1, 2},
                                       ExpertKey{1, 3}, ExpertKey{1, 4}};
  weights->Prefetch(keys);
  for (const uint32_t expert : {4u, 0u, 4u, 3u, 2u, 1u}) {
    const auto first = OrDie(weights->Acquire(ExpertKey{1, expert}));
    const auto second = OrDie(weights->Acquire(ExpertKey{1, expert}));
    EXPECT_EQ(&*first, &*second);
    const auto expected = OrDie(resident->Acquire(ExpertKey{1, expert}));
    const WeightMatrix& down = first->down.matrix;
    EXPECT_EQ(std::memcmp(down.data, expected->down.matrix.data,
                          PackedBytes(down.type, down.outputs, down.inputs)),
              0);
  }
}

// Told the truth every time, it reads ahead; told lies, it learns not to listen.
TEST_F(StreamingExpertsTest, GuessesAreReadAheadOnceTheyHaveComeTrue) {
  for (const bool honest : {true, false}) {
    SCOPED_TRACE(honest);
    Write("qwen3moe");
    const auto weights = Open({.pinned_layer_count = kLayers, .expert_place_count = 16});
    for (uint32_t pass = 0; pass < 200; ++pass) {
      for (uint32_t layer = 0; layer < kLayers; ++layer) {
        const auto chosen = [&](uint32_t of) { return WeightKey(ExpertKey{of, pass * 5 % 12}); };
        const WeightKey key = chosen(layer);
        weights->Prefetch({&key, 1});
        if (layer + 1 < kLayers) {
          const WeightKey guess =
              honest ? chosen(layer + 1) : ExpertKey{layer + 1, (pass * 5 + 1) % 12};
          weights->Guess({&guess, 1});
        }
        OrDie(weights->Acquire(std::get<ExpertKey>(key)));
      }
    }
    const ExpertStats stats = weights->stats().experts;
    if (honest) {
      EXPECT_EQ(stats.guesses.wrong, 0u);
      EXPECT_GT(stats.read_ahead, 50u);
      EXPECT_EQ(stats.read_ahead_right, stats.read_ahead);
    } else {
      EXPECT_EQ(stats.guesses.right, 0u);
      EXPECT_EQ(stats.read_ahead, 0u);
    }
  }
}

TEST_F(StreamingExpertsTest, LendTheirWaits) {
  Write("olmoe", TensorType::kF32);
  const auto weights = Open({.pinned_layer_count = kLayers, .expert_place_count = 16});
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

// A disk from which nothing comes past an offset, until it has come back.
class EndingDisk {
 public:
  void EndAt(uint64_t offset) { end_ = offset; }
  void ComeBack() { end_ = UINT64_MAX; }

  absl::StatusOr<std::unique_ptr<DirectFile>> Open(const std::string& path,
                                                   const DirectFile::Options& options) {
    FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    const DirectFile::Source source = {path, std::filesystem::file_size(path), 4096, "ending"};
    return std::make_unique<DirectFile>(
        source, options.queue_depth,
        std::make_unique<Reads>(*this, MakePreadEngine(std::move(file), options.queue_depth)));
  }

 private:
  class Reads final : public ReadEngine {
   public:
    Reads(EndingDisk& disk, std::unique_ptr<ReadEngine> reads)
        : disk_(disk), reads_(std::move(reads)) {}

    absl::Status Submit(uint32_t slot, uint64_t offset, std::span<std::byte> out) override {
      const uint64_t end = disk_.end_;
      left_[slot] = end > offset ? end - offset : 0;
      return reads_->Submit(slot, offset, out);
    }
    RawRead Wait() override {
      RawRead read = reads_->Wait();
      const uint64_t left = left_.at(read.slot);
      if (read.result > 0 && static_cast<uint64_t>(read.result) > left) {
        read.result = static_cast<int64_t>(left);
      }
      return read;
    }

   private:
    EndingDisk& disk_;
    std::map<uint32_t, uint64_t> left_;  // of the read in a slot
    const std::unique_ptr<ReadEngine> reads_;
  };

  std::atomic<uint64_t> end_ = UINT64_MAX;
};

TEST_F(StreamingExpertsTest, WhatCannotBeReadIsASentenceAndTheNextRunWorks) {
  Write("qwen3moe");
  const std::vector<float> expected = LogitsOver(Resident());
  EndingDisk disk;
  const ModelTensor* const ups = model_->Find("blk.2.ffn_up_exps.weight");
  for (const uint32_t places : {2u, 20u, 999u}) {
    SCOPED_TRACE(places);
    const auto weights = Open({.pinned_layer_count = kLayers,
                               .reads_in_flight = 2,
                               .expert_place_count = places,
                               .open = [&](const std::string& path, const auto& options) {
                                 return disk.Open(path, options);
                               }});
    const auto engine = EngineOver(weights);
    std::vector<SequenceId> sequences;
    for (uint32_t i = 0; i < kSequences; ++i) sequences.push_back(OrDie(engine->Open()));
    std::vector<float> logits;
    disk.EndAt(ups->place->offset);
    for (int attempt = 0; attempt < 2; ++attempt) {
      std::vector<float> spoilt;
      const absl::Status status = RunRound(*engine, sequences, 0, spoilt);
      EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
      EXPECT_THAT(Message(status), HasSubstr(path_));
      EXPECT_THAT(Message(status), HasSubstr("of layer 2: tensor blk.2.ffn_"));
      EXPECT_THAT(Message(status), HasSubstr("ends at offset "));
    }
    disk.ComeBack();
    for (uint32_t round = 0; round < 6; ++round) {
      OUTRIDER_CHECK_OK(RunRound(*engine, sequences, round, logits));
    }
    EXPECT_EQ(logits, expected);
  }
}

}  // namespace
}  // namespace outrider
