// A transformer for tests that are about it, below the engine: batches made by hand, observers,
// stores and specs that no engine makes. Logits are asked for the simple way: this text, alone, in
// one chunk. What can be asked of an engine is asked of CpuEngine.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/thread_pool.h"
#include "common/formats/models/model_file.h"
#include "common/kernels/isa.h"
#include "common/kernels/kernels.h"
#include "common/model/memory/batch.h"
#include "common/model/memory/page_memory.h"
#include "common/model/memory/sequence_memory.h"
#include "common/model/model_spec.h"
#include "common/model/transformer.h"
#include "common/model/weights/resident_weights.h"
#include "common/tokens/outcome.h"

namespace outrider {

template <typename T>
T OrDie(absl::StatusOr<T> value) {
  OUTRIDER_CHECK_OK(value.status());
  return *std::move(value);
}

struct LoadedModelOptions {
  Isa isa = BestIsa();
  uint32_t thread_count = 2;
  uint32_t row_count_max = 64;
  uint32_t page_count = 64;
  uint32_t encoder_length_max = 0;
  uint32_t context_length_max = 0;  // 0: the model's
  // What the file's spec becomes before anything is made by it.
  std::function<void(ModelSpec&)> change_spec = [](ModelSpec&) {};
  // What stands between the weights and the transformer.
  std::function<std::unique_ptr<WeightStore>(WeightStore&)> wrap_weights = nullptr;
};

class LoadedModel {
 public:
  explicit LoadedModel(const std::string& path, const LoadedModelOptions& options = {})
      : model(OrDie(ModelFile::Open(path))),
        spec(Changed(OrDie(ModelSpec::From(*model, path)), options)),
        pool(OrDie(ThreadPool::Create(options.thread_count))),
        weights(OrDie(ResidentWeights::Load(
            *model, Limited(OrDie(ModelSpec::From(*model, path)), options), path, *pool, nullptr))),
        wrapped(options.wrap_weights ? options.wrap_weights(*weights) : nullptr),
        limits{spec.context_length, options.row_count_max, options.row_count_max},
        memory(OrDie(MakeMemory(spec, options))),
        transformer(OrDie(Transformer::Create(spec, wrapped ? *wrapped : *weights, memory->layout(),
                                              KernelsFor(options.isa), *pool, options.row_count_max,
                                              options.row_count_max))),
        batch(OrDie(Batch::Create(memory->layout(), limits))) {}

  std::unique_ptr<SequenceMemory> NewSequence() {
    return std::make_unique<SequenceMemory>(*memory, limits);
  }

  // Logits after each of the tokens, which follow what the sequence has.
  std::vector<std::vector<float>> Read(SequenceMemory& sequence, std::span<const TokenId> tokens) {
    OUTRIDER_CHECK_OK(sequence.Reserve(static_cast<uint32_t>(tokens.size()), 0));
    batch.Clear();
    batch.AddChain(sequence, tokens);
    OUTRIDER_CHECK_OK(transformer->Forward(batch, nullptr));
    sequence.Commit(static_cast<uint32_t>(tokens.size()), {});
    return Logits();
  }

  // A row for each node, which goes to the slot of its number.
  void AddNodes(SequenceMemory& sequence, std::span<const DraftedNode> nodes) {
    for (uint32_t i = 0; i < nodes.size(); ++i) {
      const bool below_root = nodes[i].parent == DraftedNode::kRoot;
      batch.AddNode(sequence, nodes[i].token, below_root ? NodeTree::kChain : nodes[i].parent, i);
    }
  }

  // Of all rows of the last run.
  std::vector<std::vector<float>> Logits() {
    std::vector<uint32_t> rows(transformer->rows().size());
    for (uint32_t i = 0; i < rows.size(); ++i) rows[i] = i;
    WeightStore& store = wrapped ? *wrapped : *weights;
    const Lease<HeadWeights> head = OrDie(store.Acquire(HeadKey{}));
    const LogitRows logits = transformer->Project(rows, *head);
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
  std::unique_ptr<WeightStore> wrapped;
  SequenceLimits limits;
  std::unique_ptr<PageMemory> memory;
  std::unique_ptr<Transformer> transformer;
  Batch batch;

 private:
  static absl::StatusOr<std::unique_ptr<PageMemory>> MakeMemory(const ModelSpec& spec,
                                                                const LoadedModelOptions& options) {
    MemoryLayout layout(spec, options.encoder_length_max);
    const std::vector<uint32_t> page_counts(layout.group_count(), options.page_count);
    return PageMemory::Create(std::move(layout), page_counts, 0);
  }
  static ModelSpec Changed(ModelSpec spec, const LoadedModelOptions& options) {
    options.change_spec(spec);
    return Limited(std::move(spec), options);
  }
  static ModelSpec Limited(ModelSpec spec, const LoadedModelOptions& options) {
    const uint32_t most = options.context_length_max;
    spec.LimitContext(most > 0 ? most : spec.context_length);
    return spec;
  }
};

}  // namespace outrider
