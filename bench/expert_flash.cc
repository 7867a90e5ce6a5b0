// Experts from flash: what passes cost with room for some of them, by who is evicted and whether the
// next layer's are guessed, beside loading all of each layer and beside a cache that knows the future.
//
//   expert_flash passes MODEL.gguf TEXT [SHARE] [ROWS] [ROUNDS] [AGREEMENT]
//   expert_flash routes FILE...
//
// passes   Turn by turn, 20 passes of ROWS (1) tokens a turn, ROUNDS (5) turns each, after 64 tokens of
//          a prompt and four turns that are not counted. SHARE (0.5) of all experts have a place; all
//          else is in memory. Whatever the logits of the first are, those of the others have to be.
//          Tokens are words of TEXT. What enters the first layer for one is a random vector of its
//          own and one that all of them share, AGREEMENT (0.3) of its variance: without it the tokens
//          of a random model agree about their experts by chance, or where attention drowns what they
//          are, about all of them; trained models are between (an expert was also the last token's in
//          36 to 45 %). So who is evicted is judged by `routes`, and what a read costs by `passes`.
// routes   Routes that others have recorded of trained models ("route_trace v1" of
//          github.com/Helldez/BigMoeOnEdge: turn,phase,step,layer,slot,expert,...), replayed on the
//          same cache at several sizes, without reading anything.
//
// Both say how often the paper's profile (experts of the two layers before) names the experts of a
// layer: learnt on the first half, tried on the second.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/base/ieee_mode.h"
#include "common/base/status.h"
#include "common/base/thread_pool.h"
#include "common/engine/cpu_engine.h"
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
constexpr uint32_t kPromptLength = 64;
constexpr uint32_t kPassesPerTurn = 20;
constexpr uint32_t kWarmTurns = 4;

// The experts that a pass, or a token, wanted of each layer.
using Route = std::vector<std::vector<uint32_t>>;

// --- how well the profile guesses ---

// P(expert | an expert of the layer below or of the one below that), summed over those. A dictionary
// of whole sets, as the paper has for one expert a layer, would never meet a set of eight again.
class Profile {
 public:
  Profile(uint32_t layer_count, uint32_t expert_count)
      : expert_count_(expert_count),
        together_(size_t{layer_count} * 2 * expert_count * expert_count),
        uses_(size_t{layer_count} * expert_count) {}

  void Learn(const Route& route) {
    for (uint32_t layer = 0; layer < route.size(); ++layer) {
      for (const uint32_t expert : route[layer]) ++uses_[layer * expert_count_ + expert];
      ForEachBefore(route, layer, [&](uint32_t back, uint32_t before) {
        for (const uint32_t expert : route[layer]) ++Together(layer, back, before)[expert];
      });
    }
  }

  // How many of a layer's experts are among as many that it names.
  uint32_t CountRight(const Route& route, uint32_t layer) const {
    std::vector<float> likely(expert_count_);
    ForEachBefore(route, layer, [&](uint32_t back, uint32_t before) {
      const float uses = static_cast<float>(uses_[(layer - back) * expert_count_ + before]) + 1.0f;
      const std::span<const uint32_t> together = Together(layer, back, before);
      for (uint32_t e = 0; e < expert_count_; ++e) {
        likely[e] += static_cast<float>(together[e]) / uses;
      }
    });
    uint32_t right = 0;
    for (size_t n = 0; n < route[layer].size(); ++n) {
      const auto best = std::ranges::max_element(likely);
      const auto expert = static_cast<uint32_t>(best - likely.begin());
      if (std::ranges::count(route[layer], expert) > 0) ++right;
      *best = -1;
    }
    return right;
  }

 private:
  template <typename Body>
  void ForEachBefore(const Route& route, uint32_t layer, const Body& body) const {
    for (const uint32_t back : {1u, 2u}) {
      if (layer < back) continue;
      for (const uint32_t before : route[layer - back]) body(back, before);
    }
  }
  size_t At(uint32_t layer, uint32_t back, uint32_t before) const {
    return ((size_t{layer} * 2 + back - 1) * expert_count_ + before) * expert_count_;
  }
  std::span<uint32_t> Together(uint32_t layer, uint32_t back, uint32_t before) {
    return std::span(together_).subspan(At(layer, back, before), expert_count_);
  }
  std::span<const uint32_t> Together(uint32_t layer, uint32_t back, uint32_t before) const {
    return std::span(together_).subspan(At(layer, back, before), expert_count_);
  }

  const uint32_t expert_count_;
  std::vector<uint32_t> together_;  // by layer, how far back, expert there, expert
  std::vector<uint32_t> uses_;      // by layer, expert
};

double ProfileShareRight(std::span<const Route> routes, uint32_t expert_count) {
  Profile profile(static_cast<uint32_t>(routes.front().size()), expert_count);
  for (const Route& route : routes.first(routes.size() / 2)) profile.Learn(route);
  uint64_t right = 0, all = 0;
  for (const Route& route : routes.subspan(routes.size() / 2)) {
    for (uint32_t layer = 1; layer < route.size(); ++layer) {
      right += profile.CountRight(route, layer);
      all += route[layer].size();
    }
  }
  return static_cast<double>(right) / static_cast<double>(all);
}

// --- passes ---

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

struct Settings {
  std::string model;
  std::string text;
  double share = 0.5;
  uint32_t rows = 1;
  uint32_t rounds = 5;
  float agreement = 0.3f;
};

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

double Median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

std::vector<ExpertKey> UsesOf(std::span<const Route> routes) {
  std::vector<ExpertKey> uses;
  for (const Route& route : routes) {
    for (uint32_t layer = 0; layer < route.size(); ++layer) {
      for (const uint32_t expert : route[layer]) uses.push_back({layer, expert});
    }
  }
  return uses;
}

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

void Print(const std::vector<std::unique_ptr<Runner>>& runners, const Settings& settings,
           uint32_t place_count, uint32_t expert_count, uint64_t expert_bytes) {
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
    std::printf("| %s | %.2f | %.2f | %.1f | %.2f | %.1f |\n", kWays[w].name.c_str(),
                kPassesPerTurn / Median(runner.seconds), Median(ratios), bytes / 1e6,
                bytes / clairvoyant, 1e3 * stalled / passes);
  }
  std::printf("| clairvoyant | | | %.1f | 1.00 | |\n\n", clairvoyant / 1e6);
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
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<ThreadPool> pool, ThreadPool::Create(kThreads));
  const uint32_t all = router->expert_count * spec.layer_count();
  const auto place_count = static_cast<uint32_t>(settings.share * all);
  std::vector<std::unique_ptr<Runner>> runners;
  for (const Way& way : kWays) {
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
  Print(runners, settings, place_count, router->expert_count, cache.taken_bytes / cache.taken);
  return absl::OkStatus();
}

// --- routes of others ---

struct Trace {
  uint32_t layer_count = 0;
  uint32_t expert_count = 0;
  std::vector<Route> routes;  // of tokens
};

absl::StatusOr<uint32_t> NumberAfter(const std::string& line, std::string_view key,
                                     const std::string& path) {
  uint32_t number = 0;
  const size_t at = line.find(key);
  if (at == std::string::npos ||
      std::from_chars(line.data() + at + key.size(), line.data() + line.size(), number).ec !=
          std::errc()) {
    return InvalidArgument(path, ": is no route_trace: there is no ", key, " in its second line");
  }
  return number;
}

absl::StatusOr<Trace> ReadTrace(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  std::getline(file, line);
  Trace trace;
  OUTRIDER_ASSIGN_OR_RETURN(trace.layer_count, NumberAfter(line, "n_layer=", path));
  OUTRIDER_ASSIGN_OR_RETURN(trace.expert_count, NumberAfter(line, "n_expert=", path));
  std::map<std::tuple<int, int, int>, Route> by_token;  // a prompt's lie layer by layer
  while (std::getline(file, line)) {
    int turn = 0, phase = 0, step = 0, slot = 0;
    uint32_t layer = 0, expert = 0;
    if (std::sscanf(line.c_str(), "%d,%d,%d,%u,%d,%u", &turn, &phase, &step, &layer, &slot,
                    &expert) != 6) {
      continue;  // comments, and the names of the columns
    }
    if (layer >= trace.layer_count || expert >= trace.expert_count) {
      return InvalidArgument(path, ": there is no expert ", expert, " of layer ", layer);
    }
    Route& route = by_token[{turn, phase, step}];
    route.resize(trace.layer_count);
    route[layer].push_back(expert);
  }
  for (auto& [token, route] : by_token) trace.routes.push_back(std::move(route));
  if (trace.routes.size() < 2) return InvalidArgument(path, ": has no routes");
  return trace;
}

// The first half of the tokens fill the cache.
absl::Status ReplayRoutes(const std::string& path) {
  OUTRIDER_ASSIGN_OR_RETURN(const Trace trace, ReadTrace(path));
  const std::span<const Route> routes(trace.routes);
  const std::vector<ExpertKey> uses = UsesOf(routes);
  const size_t first = UsesOf(routes.first(routes.size() / 2)).size();
  const double counted = static_cast<double>(uses.size() - first);
  std::printf(
      "%s: %zu tokens, %u layers, %u experts, %.1f a layer\n\n", path.c_str(), routes.size(),
      trace.layer_count, trace.expert_count,
      static_cast<double>(uses.size()) / static_cast<double>(routes.size()) / trace.layer_count);
  std::printf(
      "| share in memory | edgemoe hits | lru | lfu | clairvoyant | misses of edgemoe / "
      "clairvoyant | lru / edgemoe |\n|---|---|---|---|---|---|---|\n");
  const uint32_t all = trace.layer_count * trace.expert_count;
  const std::vector<ExpertCache::Layer> layers(
      trace.layer_count, {.expert_count = trace.expert_count, .expert_bytes = 1});
  for (const uint32_t percent : {5u, 10u, 25u, 50u, 75u}) {
    const uint32_t places = all * percent / 100;
    std::vector<double> misses;
    for (const Eviction eviction : {Eviction::kEdgeMoe, Eviction::kLru, Eviction::kLfu}) {
      ExpertCache cache(layers, places, eviction);
      uint64_t missed = 0;
      for (size_t i = 0; i < uses.size(); ++i) {
        if (cache.Use(uses[i])) continue;
        cache.Take(uses[i]);
        if (i >= first) ++missed;
      }
      misses.push_back(static_cast<double>(missed));
    }
    misses.push_back(static_cast<double>(ClairvoyantMisses(uses, places, first)));
    std::printf("| %u %% |", percent);
    for (const double missed : misses) std::printf(" %.1f |", 100 * (1 - missed / counted));
    std::printf(" %.2f | %.2f |\n", misses[0] / misses[3], misses[1] / misses[0]);
  }
  std::printf("\nthe profile names %.1f %% of a layer's experts\n\n",
              100 * ProfileShareRight(routes, trace.expert_count));
  return absl::OkStatus();
}

template <typename Number>
bool Parse(std::string_view text, Number& number) {
  return std::from_chars(text.data(), text.data() + text.size(), number).ec == std::errc();
}

absl::Status Run(std::span<char*> arguments) {
  const std::string_view what = arguments.empty() ? "" : arguments[0];
  if (what == "routes" && arguments.size() > 1) {
    for (const char* const path : arguments.subspan(1))
      OUTRIDER_RETURN_IF_ERROR(ReplayRoutes(path));
    return absl::OkStatus();
  }
  if (what == "passes" && arguments.size() >= 3 && arguments.size() <= 7) {
    Settings settings = {.model = arguments[1], .text = arguments[2]};
    if ((arguments.size() < 4 || Parse(arguments[3], settings.share)) &&
        (arguments.size() < 5 || Parse(arguments[4], settings.rows)) &&
        (arguments.size() < 6 || Parse(arguments[5], settings.rounds)) &&
        (arguments.size() < 7 || Parse(arguments[6], settings.agreement)) && settings.share > 0 &&
        settings.share <= 1 && settings.rows > 0 && settings.rows <= kPromptLength &&
        settings.rounds > 0) {
      return RunPasses(settings);
    }
  }
  return InvalidArgument(
      "usage: expert_flash passes MODEL.gguf TEXT [SHARE] [ROWS] [ROUNDS] [AGREEMENT]\n"
      "       expert_flash routes FILE...");
}

}  // namespace
}  // namespace outrider

int main(int argc, char** argv) {
  const absl::Status status = outrider::Run(std::span(argv + 1, argv + argc));
  if (status.ok()) return 0;
  std::fprintf(stderr, "expert_flash: %s\n", std::string(outrider::Message(status)).c_str());
  return 1;
}
