#include "bench/expert_flash/passes.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "bench/expert_flash/expert_routes.h"
#include "bench/median.h"
#include "common/base/ieee_mode.h"
#include "common/base/status.h"
#include "common/base/thread_pool.h"
#include "common/engine/cpu_engine.h"
#include "common/formats/models/content_hash.h"
#include "common/formats/models/model_file.h"
#include "common/kernels/isa.h"
#include "common/kernels/kernels.h"
#include "common/model/model_spec.h"
#include "common/model/weights/streaming/streaming_weights.h"
#include "tests/model/clairvoyant_cache.h"
#include "tests/model/wrapped_store.h"

namespace outrider {
namespace {

constexpr uint32_t kThreads = 2;
constexpr uint32_t kPassesPerTurn = 20;
constexpr uint32_t kWarmTurns = 4;

// Remembers what passes want.
class Recording final : public WrappedStore {
 public:
  Recording(WeightStore& store, std::vector<Route>& routes)
      : WrappedStore(store), routes_(routes) {}

  absl::StatusOr<Lease<LayerWeights>> Acquire(LayerKey key) override {
    if (key.layer == 0) routes_.emplace_back();
    routes_.back().emplace_back();
    return store_.Acquire(key);
  }
  absl::StatusOr<Lease<HeadWeights>> Acquire(HeadKey key) override { return store_.Acquire(key); }
  absl::StatusOr<Lease<FeedForwardWeights>> Acquire(ExpertKey key) override {
    return store_.Acquire(key);
  }
  void Prefetch(std::span<const WeightKey> keys) override {
    for (const WeightKey& key : keys) {
      routes_.back().back().push_back(std::get<ExpertKey>(key).expert);
    }
    store_.Prefetch(keys);
  }
  bool IsAtHand(ExpertKey key) override { return store_.IsAtHand(key); }
  const Linear* RouterAhead(uint32_t layer) override { return store_.RouterAhead(layer); }
  void Guess(std::span<const WeightKey> keys) override { store_.Guess(keys); }

 private:
  std::vector<Route>& routes_;
};

// Looks ahead at nothing.
class Unguessing final : public WrappedStore {
 public:
  using WrappedStore::WrappedStore;
  bool IsAtHand(ExpertKey key) override { return store_.IsAtHand(key); }
};

// Has every expert of a layer in memory before it goes on, whoever is wanted.
class LoadingAll final : public WrappedStore {
 public:
  LoadingAll(WeightStore& store, uint32_t expert_count)
      : WrappedStore(store), expert_count_(expert_count) {}

  void Prefetch(std::span<const WeightKey> keys) override {
    if (!is_on) return store_.Prefetch(keys);
    all_.clear();
    for (uint32_t e = 0; e < expert_count_; ++e) {
      all_.push_back(ExpertKey{std::get<ExpertKey>(keys.front()).layer, e});
    }
    store_.Prefetch(all_);
    for (const WeightKey& key : all_) {
      const absl::Status read = store_.Acquire(std::get<ExpertKey>(key)).status();
      if (!read.ok())
        std::fprintf(stderr, "expert_flash: %s\n", std::string(read.message()).c_str());
    }
  }
  bool IsAtHand(ExpertKey key) override { return store_.IsAtHand(key); }

  bool is_on = false;

 private:
  const uint32_t expert_count_;
  std::vector<WeightKey> all_;
};

struct Way {
  std::string name;
  Eviction eviction;
  bool guesses;
  bool loads_all = false;
};

const Way kWays[] = {{"edgemoe, guesses", Eviction::kEdgeMoe, true},
                     {"edgemoe", Eviction::kEdgeMoe, false},
                     {"lru", Eviction::kLru, false},
                     {"lfu", Eviction::kLfu, false},
                     {"all of a layer", Eviction::kEdgeMoe, false, true}};

// That of the name, or all of them for none.
absl::StatusOr<std::vector<Way>> WaysCalled(std::string_view name) {
  if (name.empty()) return std::vector<Way>(std::begin(kWays), std::end(kWays));
  std::string names;
  for (const Way& way : kWays) {
    if (way.name == name) return std::vector<Way>{way};
    names += Concat(names.empty() ? "" : "; ", way.name);
  }
  return InvalidArgument("no way is called ", name, "; there are ", names);
}

struct Word {
  TokenId token;
  const std::vector<float>* embedding;
};

// Of TEXT, and what enters the first layer for each.
class Words {
 public:
  Words(const std::string& path, const ModelSpec& spec, float agreement) {
    const std::vector<float> shared = Random(spec.embedding_length, 1);
    std::ifstream file(path);
    for (std::string word; file >> word;) {
      uint32_t hash = 2166136261u;
      for (const char c : word) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
      const auto [known, is_new] = embeddings_.try_emplace(word);
      if (is_new) {
        known->second = Random(spec.embedding_length, hash);
        for (size_t i = 0; i < shared.size(); ++i) {
          known->second[i] =
              std::sqrt(agreement) * shared[i] + std::sqrt(1 - agreement) * known->second[i];
        }
      }
      words_.push_back(
          {static_cast<TokenId>(300 + hash % (spec.vocabulary_size - 300)), &known->second});
    }
  }

  std::span<const Word> words() const { return words_; }

 private:
  // Of variance 1, as large as what a layer adds to it or larger.
  static std::vector<float> Random(size_t count, uint32_t seed) {
    std::mt19937 random(seed);
    std::vector<float> values(count);
    for (float& value : values) {
      value = std::sqrt(3.0f) * (static_cast<float>(random() >> 8) * 0x1p-23f - 1.0f);
    }
    return values;
  }

  std::map<std::string, std::vector<float>> embeddings_;  // by word: addresses stay
  std::vector<Word> words_;
};

// One way, with memory and a text of its own.
class Runner {
 public:
  static absl::StatusOr<std::unique_ptr<Runner>> Create(const ModelFile& file,
                                                        const ModelSpec& spec, const Way& way,
                                                        const Settings& settings,
                                                        uint32_t place_count, ThreadPool& pool) {
    std::unique_ptr<Runner> runner(new Runner);
    OUTRIDER_ASSIGN_OR_RETURN(runner->weights_,
                              StreamingWeights::Open(file, spec, settings.model,
                                                     {.pinned_layer_count = spec.layer_count(),
                                                      .expert_place_count = place_count,
                                                      .expert_eviction = way.eviction},
                                                     nullptr));
    WeightStore* store = runner->weights_.get();
    if (way.loads_all) {
      auto loading = std::make_unique<LoadingAll>(
          *store, spec.layers.back().feed_forward.router->expert_count);
      runner->loading_ = loading.get();
      runner->between_ = std::move(loading);
    } else if (!way.guesses) {
      runner->between_ = std::make_unique<Unguessing>(*store);
    }
    if (runner->between_) store = runner->between_.get();
    auto recording = std::make_shared<Recording>(*store, runner->routes_);
    OUTRIDER_ASSIGN_OR_RETURN(
        runner->engine_,
        CpuEngine::Create(spec, recording, 0, {.node_count_max = 0, .row_count_max = kPromptLength},
                          KernelsFor(BestIsa()), pool));
    OUTRIDER_ASSIGN_OR_RETURN(runner->sequence_, runner->engine_->Open());
    runner->logits_.resize(spec.vocabulary_size);
    return runner;
  }

  absl::Status Pass(std::span<const Word> words) {
    const auto count = static_cast<uint32_t>(words.size());
    std::vector<TokenId> tokens;
    std::vector<const float*> embeddings;
    for (const Word& word : words) {
      tokens.push_back(word.token);
      embeddings.push_back(word.embedding->data());
    }
    OUTRIDER_RETURN_IF_ERROR(engine_->Reserve(sequence_, count, 0));
    const RunPart part = {.sequence = sequence_, .chain = tokens, .embeddings = embeddings};
    const LogitsOfRow asked = {count - 1, logits_};
    EngineRun run = {.parts = {&part, 1}, .logits = {&asked, 1}};
    OUTRIDER_RETURN_IF_ERROR(engine_->Run(run));
    engine_->Commit(sequence_, count, {});
    return absl::OkStatus();
  }

  void BeginCounting() {
    before = stats();
    if (loading_ != nullptr) loading_->is_on = true;
  }

  StreamStats stats() const { return weights_->stats(); }
  const StreamingWeights& weights() const { return *weights_; }
  const std::vector<Route>& routes() const { return routes_; }
  const std::vector<float>& logits() const { return logits_; }

  std::vector<double> seconds;  // of each counted turn
  StreamStats before;           // the counted turns

 private:
  Runner() = default;

  std::unique_ptr<StreamingWeights> weights_;
  std::unique_ptr<WeightStore> between_;
  LoadingAll* loading_ = nullptr;  // that, if it is one
  std::vector<Route> routes_;      // the prompt's, then of every pass
  std::unique_ptr<CpuEngine> engine_;
  SequenceId sequence_ = {};
  std::vector<float> logits_;
};

double ShareRepeated(std::span<const Route> routes) {
  uint64_t repeated = 0, all = 0;
  for (size_t i = 1; i < routes.size(); ++i) {
    for (size_t layer = 0; layer < routes[i].size(); ++layer) {
      for (const uint32_t expert : routes[i][layer]) {
        if (std::ranges::count(routes[i - 1][layer], expert) > 0) ++repeated;
        ++all;
      }
    }
  }
  return static_cast<double>(repeated) / static_cast<double>(all);
}

void Print(const std::vector<Way>& ways, const std::vector<std::unique_ptr<Runner>>& runners,
           const Settings& settings, uint32_t place_count, uint32_t expert_count,
           uint64_t expert_bytes) {
  const double passes = kPassesPerTurn * settings.rounds;
  const Runner& first = *runners.front();
  std::printf(
      "| way | passes/s | of the first | MB a pass | of clairvoyant | ms waited a pass |\n"
      "|---|---|---|---|---|---|\n");
  const size_t uncounted =
      UsesOf(std::span(first.routes()).first(1 + kWarmTurns * kPassesPerTurn)).size();
  const std::vector<ExpertKey> uses = UsesOf(first.routes());
  const double clairvoyant =
      static_cast<double>(ClairvoyantMisses(uses, place_count, uncounted) * expert_bytes) / passes;
  for (size_t w = 0; w < runners.size(); ++w) {
    const Runner& runner = *runners[w];
    const StreamStats after = runner.stats();
    const double bytes = static_cast<double>(after.experts.cache.taken_bytes -
                                             runner.before.experts.cache.taken_bytes) /
                         passes;
    std::vector<double> ratios;
    for (size_t round = 0; round < runner.seconds.size(); ++round) {
      ratios.push_back(first.seconds[round] / runner.seconds[round]);
    }
    const double stalled =
        std::chrono::duration<double>(after.stalled - runner.before.stalled).count();
    std::printf("| %s | %.2f | %.2f | %.1f | %.2f | %.1f |\n", ways[w].name.c_str(),
                kPassesPerTurn / Median(runner.seconds), Median(ratios), bytes / 1e6,
                bytes / clairvoyant, 1e3 * stalled / passes);
  }
  std::printf("| clairvoyant | | | %.1f | 1.00 | |\n\n", clairvoyant / 1e6);
  std::printf("the last pass said %s\n",
              HashDigits(HashBytes(std::as_bytes(std::span(first.logits())), 0)).c_str());
  std::printf("%.1f experts a pass are wanted\n",
              static_cast<double>(uses.size() - uncounted) / passes);
  std::printf("an expert was also the last pass's in %.1f %%\n",
              100 * ShareRepeated(std::span(first.routes()).subspan(1)));
  const ExpertStats guessed = first.stats().experts;
  std::printf(
      "guesses by the router, of experts not in memory: %llu right, %llu wrong; read ahead %llu, "
      "of which %llu right\n",
      static_cast<unsigned long long>(guessed.guesses.right),
      static_cast<unsigned long long>(guessed.guesses.wrong),
      static_cast<unsigned long long>(guessed.read_ahead),
      static_cast<unsigned long long>(guessed.read_ahead_right));
  std::printf("the profile names %.1f %% of a layer's experts (chance %.1f %%)\n",
              100 * ProfileShareRight(std::span(first.routes()).subspan(1), expert_count),
              100.0 * static_cast<double>(uses.size() - uncounted) / passes /
                  static_cast<double>(first.routes().back().size()) / expert_count);
}

}  // namespace

absl::Status RunPasses(const Settings& settings) {
  const ScopedIeeeMode ieee;
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<ModelFile> file, ModelFile::Open(settings.model));
  OUTRIDER_ASSIGN_OR_RETURN(const ModelSpec spec, ModelSpec::From(*file, settings.model));
  const std::optional<RouterSpec>& router = spec.layers.back().feed_forward.router;
  if (!router) return InvalidArgument(settings.model, ": has no experts");
  const Words text(settings.text, spec, settings.agreement);
  const size_t needed =
      kPromptLength + size_t{kWarmTurns + settings.rounds} * kPassesPerTurn * settings.rows;
  if (text.words().size() < needed || needed > spec.context_length) {
    return InvalidArgument(settings.text, ": has ", text.words().size(), " words, and ", needed,
                           " are wanted, of a context of ", spec.context_length);
  }
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<Way> ways, WaysCalled(settings.way));
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<ThreadPool> pool, ThreadPool::Create(kThreads));
  const uint32_t all = router->expert_count * spec.layer_count();
  const auto place_count = static_cast<uint32_t>(settings.share * all);
  std::vector<std::unique_ptr<Runner>> runners;
  for (const Way& way : ways) {
    OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<Runner> runner,
                              Runner::Create(*file, spec, way, settings, place_count, *pool));
    runners.push_back(std::move(runner));
  }
  const uint64_t place_bytes = StreamingWeights::PlaceBytesOfExpert(*file, spec);
  std::printf(
      "%s: %u of %u experts have a place of %.2f MB; %s, %s, %u threads, passes of %u rows\n\n",
      spec.name.c_str(), place_count, all, static_cast<double>(place_bytes) / 1e6,
      runners[0]->weights().backend().c_str(), std::string(Name(BestIsa())).c_str(), kThreads,
      settings.rows);
  std::span<const Word> rest = text.words();
  const auto next = [&](uint32_t count) {
    const std::span<const Word> taken = rest.first(count);
    rest = rest.subspan(count);
    return taken;
  };
  const std::span<const Word> prompt = next(kPromptLength);
  for (const auto& runner : runners) OUTRIDER_RETURN_IF_ERROR(runner->Pass(prompt));
  for (uint32_t turn = 0; turn < kWarmTurns + settings.rounds; ++turn) {
    std::vector<std::span<const Word>> passes;
    for (uint32_t i = 0; i < kPassesPerTurn; ++i) passes.push_back(next(settings.rows));
    for (const auto& runner : runners) {
      if (turn == kWarmTurns) runner->BeginCounting();
      const auto began = std::chrono::steady_clock::now();
      for (const std::span<const Word> pass : passes) {
        OUTRIDER_RETURN_IF_ERROR(runner->Pass(pass));
      }
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
      if (turn >= kWarmTurns) runner->seconds.push_back(took.count());
      if (runner->logits() != runners.front()->logits()) {
        return absl::InternalError("two ways differ in their logits");
      }
    }
  }
  const ExpertCacheStats cache = runners.front()->stats().experts.cache;
  Print(ways, runners, settings, place_count, router->expert_count,
        cache.taken_bytes / cache.taken);
  return absl::OkStatus();
}

}  // namespace outrider
