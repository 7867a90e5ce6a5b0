// A model loaded for a test, with all that its transformer needs, and logits asked for the simple
// way: this text, alone, in one chunk.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/base/check.h"
#include "common/base/thread_pool.h"
#include "common/formats/models/model_file.h"
#include "common/kernels/isa.h"
#include "common/kernels/kernels.h"
#include "common/model/batch.h"
#include "common/model/kv_cache.h"
#include "common/model/kv_sequence.h"
#include "common/model/model_spec.h"
#include "common/model/resident_weights.h"
#include "common/model/transformer.h"

namespace outrider {

template <typename T>
T OrDie(absl::StatusOr<T> value) {
  OUTRIDER_CHECK_OK(value.status());
  return *std::move(value);
}

struct EngineOptions {
  Isa isa = BestIsa();
  uint32_t thread_count = 2;
  uint32_t row_count_max = 64;
  uint32_t page_count = 64;
};

class Engine {
 public:
  explicit Engine(const std::string& path, const EngineOptions& options = {})
      : model(OrDie(ModelFile::Open(path))),
        spec(OrDie(ModelSpec::From(*model, path))),
        pool(OrDie(ThreadPool::Create(options.thread_count))),
        weights(OrDie(ResidentWeights::Load(*model, spec, path, *pool, nullptr))),
        cache(OrDie(KvCache::Create(spec, options.page_count))),
        transformer(
            OrDie(Transformer::Create(spec, *weights, cache->layout(), KernelsFor(options.isa),
                                      *pool, options.row_count_max, options.row_count_max))),
        batch(OrDie(Batch::Create(options.row_count_max, spec.context_length, spec.window))) {}

  std::unique_ptr<KvSequence> NewSequence() {
    return std::make_unique<KvSequence>(*cache, spec.context_length, transformer->row_count_max());
  }

  // Logits after each of the tokens, which follow what the sequence has.
  std::vector<std::vector<float>> Read(KvSequence& sequence, std::span<const TokenId> tokens) {
    OUTRIDER_CHECK_OK(sequence.Reserve(static_cast<uint32_t>(tokens.size()), 0));
    batch.Clear();
    batch.AddChain(sequence, tokens);
    OUTRIDER_CHECK_OK(transformer->Forward(batch, nullptr));
    sequence.Advance(static_cast<uint32_t>(tokens.size()));
    return Logits();
  }

  // Of all rows of the last run.
  std::vector<std::vector<float>> Logits() {
    std::vector<uint32_t> rows(transformer->rows().size());
    for (uint32_t i = 0; i < rows.size(); ++i) rows[i] = i;
    const LogitRows logits = transformer->Project(rows);
    std::vector<std::vector<float>> copies;
    for (uint32_t i = 0; i < rows.size(); ++i) {
      copies.emplace_back(logits.row(i).begin(), logits.row(i).end());
    }
    return copies;
  }

  std::unique_ptr<ModelFile> model;
  ModelSpec spec;
  std::unique_ptr<ThreadPool> pool;
  std::unique_ptr<ResidentWeights> weights;
  std::unique_ptr<KvCache> cache;
  std::unique_ptr<Transformer> transformer;
  Batch batch;
};

}  // namespace outrider
