// Every kernel on the GPU and, thread after thread, on this machine: the same bytes. That the
// latter are right is tests/cuda's to show. (Products: products_on_gpu.cc.)
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "bench/cuda_check/same_on_both.h"
#include "common/base/status.h"
#include "common/cuda/kernels/product_choice.h"

namespace outrider {
namespace {

TEST(KernelsOnGpu, Norms) {
  for (const uint32_t length : {64u, 4096u, 16384u}) {
    for (const bool has_bias : {false, true}) {
      ExpectSame(
          [&](Try& t) {
            float* const stream = t.Put(Outlying(3 * length, 1));
            float* const out = t.Room(3 * length);
            t.queue().Run(gpu::NormRows{.stream = stream,
                                        .part = t.Put(Outlying(3 * length, 2)),
                                        .weight = t.Put(Outlying(length, 3)),
                                        .bias = has_bias ? t.Put(Outlying(length, 4)) : nullptr,
                                        .out = out,
                                        .which = nullptr,
                                        .length = length,
                                        .epsilon = 1e-5f},
                          3, 1);
            t.Keep(stream, 3 * length);
            t.Keep(out, 3 * length);
          },
          "norm of " + std::to_string(length));
    }
  }
}

TEST(KernelsOnGpu, SumsAndCopies) {
  constexpr uint32_t kLength = 4096;
  for (const bool has_part : {false, true}) {
    ExpectSame(
        [&](Try& t) {
          float* const stream = t.Put(Outlying(3 * kLength, 1));
          float* const out = t.Room(3 * kLength);
          t.queue().Run(gpu::NormRows{.stream = stream,
                                      .part = has_part ? t.Put(Outlying(3 * kLength, 2)) : nullptr,
                                      .weight = nullptr,
                                      .bias = nullptr,
                                      .out = out,
                                      .which = nullptr,
                                      .length = kLength,
                                      .epsilon = 1e-5f},
                        3, 1);
          t.Keep(stream, 3 * kLength);
          t.Keep(out, 3 * kLength);
        },
        has_part ? "sums" : "copies");
  }
}

TEST(KernelsOnGpu, Embeddings) {
  constexpr uint32_t kInputs = 2560;
  const std::vector<uint32_t> tokens = {17, gpu::EmbedRows::kGiven, 0}, positions = {3, 20, 1};
  for (const Kind& kind : kKinds) {
    const PanelType& type = TypeNamed(kind.name);
    Bytes panels = MakePanels(type, 2, kInputs, Weights::kRandom, 5);
    ExpectSame(
        [&](Try& t) {
          const gpu::PanelTable table = {t.Put(panels.data(), panels.size()), type.Size(kInputs),
                                         kind.kind};
          const gpu::EmbedRows embed = {.tokens = table,
                                        .positions = table,
                                        .token = t.Put(tokens),
                                        .position = t.Put(positions),
                                        .out = t.Room(3 * kInputs),
                                        .length = kInputs};
          t.queue().Run(embed, 3, embed.grid_y());
          t.Keep(embed.out, 3 * kInputs);
        },
        std::string("embeddings in ") + kind.name);
  }
}

TEST(KernelsOnGpu, LargestLogits) {
  for (const uint32_t length : {100u, 32000u}) {
    std::vector<float> logits = Outlying(4 * length, 1);
    logits[length + 11] = logits[length + 99] = 1e6f;
    logits[2 * length + 50] = std::numeric_limits<float>::quiet_NaN();
    std::fill_n(logits.begin() + 3 * length, length, -std::numeric_limits<float>::infinity());
    ExpectSame(
        [&](Try& t) {
          gpu::BestLogit* const best = t.Put(std::vector<gpu::BestLogit>(4));
          t.queue().Run(gpu::BestOfRows{t.Put(logits), best, length}, 4, 1);
          for (uint32_t row = 0; row < 4; ++row) {
            t.Keep(&best[row].sound, 1);
            if (row == 2) continue;  // the rest means nothing
            t.Keep(&best[row].value, 1);
            t.Keep(&best[row].token, 1);
          }
        },
        "the largest of " + std::to_string(length));
  }
}

TEST(KernelsOnGpu, Quants) {
  constexpr uint32_t kRows = 5, kInputs = 2560;
  for (const uint32_t block : {32u, 256u}) {
    ExpectSame(
        [&](Try& t) {
          std::vector<float> x = Outlying(kRows * kInputs, 5);
          for (size_t i = 0; i < 300; ++i) x[i] = 0.0f;
          x[1000] = std::numeric_limits<float>::quiet_NaN();
          x[2000] = std::numeric_limits<float>::infinity();
          x[4000] = 1e-40f;
          const gpu::RowTiles tiles = {kInputs, block};
          std::vector<int8_t> room(tiles.QuantsOfTile());
          std::vector<int16_t> sum_room(tiles.SumsOfTile());
          int8_t* const quants = t.Put(room);
          float* const scales = t.Room(tiles.ScalesOfTile());
          int16_t* const sums = t.Put(sum_room);
          const gpu::QuantizeRows quantize = {t.Put(x), quants, scales, sums, kInputs, block};
          t.queue().Run(quantize, kRows, quantize.grid_y());
          t.Keep(quants, room.size());
          t.Keep(scales, tiles.ScalesOfTile());
          t.Keep(sums, sum_room.size());
        },
        "blocks of " + std::to_string(block));
  }
}

TEST(KernelsOnGpu, Gates) {
  std::vector<float> x = Outlying(4000, 6);
  for (size_t i = 0; i < 2000; ++i) x[i] = (static_cast<float>(i) - 1000.0f) * 0.1f;
  for (const gpu::Gate kind :
       {gpu::Gate::kSiluGated, gpu::Gate::kGeluTanhGated, gpu::Gate::kGeluTanh, gpu::Gate::kSilu}) {
    ExpectSame(
        [&](Try& t) {
          float* const up = t.Put(x);
          const gpu::GateRows gate = {t.Put(x), up, 2000, kind};
          t.queue().Run(gate, 2, gate.grid_y());
          t.Keep(up, 4000);
        },
        "gate " + std::to_string(static_cast<int>(kind)));
  }
}

TEST(KernelsOnGpu, GatheredOutputs) {
  constexpr uint32_t kInputs = 2560;
  const std::vector<uint32_t> which = {74, 3, 0, 16, 17, 33, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 70};
  for (const Kind& kind : kKinds) {
    const PanelType& type = TypeNamed(kind.name);
    const size_t panel_bytes = type.Size(kInputs);
    ExpectSame(
        [&](Try& t) {
          Bytes panels = MakePanels(type, 5, kInputs, Weights::kRandom, 5);
          std::byte* const to = t.Put(std::vector<std::byte>(2 * panel_bytes));
          const gpu::GatherOutputs gather = {.from = t.Put(panels.data(), panels.size()),
                                             .to = to,
                                             .panel_bytes = panel_bytes,
                                             .which = t.Put(which),
                                             .count = static_cast<uint32_t>(which.size()),
                                             .lines = gpu::LinesOf(kind.kind, kInputs)};
          t.queue().Run(gather, gather.grid_x(), 2);
          t.Keep(to, 2 * panel_bytes);
        },
        std::string("outputs of ") + kind.name);
  }
}

TEST(KernelsOnGpu, AdaptersEnds) {
  for (const uint32_t length : {36u, 4096u}) {
    ExpectSame(
        [&](Try& t) {
          float* const out = t.Room(2 * length);
          t.queue().Run(gpu::AdaptRows{.states = t.Put(Outlying(3 * length, 1)),
                                       .which = t.Put(std::vector<uint32_t>{2, 0}),
                                       .change = t.Put(Outlying(2 * length, 2)),
                                       .out = out,
                                       .length = length,
                                       .epsilon = 1e-5f},
                        2, 1);
          t.Keep(out, 2 * length);
        },
        "states of " + std::to_string(length));
  }
}

// Rows with ties, with what is no number, and one that is nobody's to rank.
TEST(KernelsOnGpu, RankedCandidates) {
  constexpr uint32_t kColumns = 1300, kFrequent = 1000;
  ExpectSame(
      [&](Try& t) {
        std::vector<float> logits = Outlying(4 * kColumns, 3);
        for (uint32_t i = 0; i < kColumns; ++i) logits[i] = std::floor(4.0f * logits[i]);
        logits[2 * kColumns + 5] = std::numeric_limits<float>::quiet_NaN();
        std::vector<uint32_t> tokens(kColumns), own;
        for (uint32_t i = 0; i < kColumns; ++i) tokens[i] = i < kFrequent ? 2 * i : 2 * i - 1999;
        for (uint32_t i = kFrequent; i < kColumns; i += 3) own.push_back(i);
        const auto own_count = static_cast<uint32_t>(own.size());
        const std::vector<ExitCandidates> candidates = {{kFrequent, 0, own_count, true},
                                                        {900, 7, own_count - 7, true},
                                                        {kFrequent, 0, 0, true},
                                                        {kFrequent, 0, own_count, false}};
        ExitRanking* const rankings = t.Put(std::vector<ExitRanking>(4));
        t.queue().Run(gpu::RankCandidates{.logits = t.Put(logits),
                                          .stride = kColumns,
                                          .tokens = t.Put(tokens),
                                          .candidates = t.Put(candidates),
                                          .own_columns = t.Put(own),
                                          .rankings = rankings},
                      4, 1);
        t.Keep(rankings, 4);
      },
      "rankings");
}

// Rows that choose among experts, with ties and what is no number, and where they go.
TEST(KernelsOnGpu, ChoicesAndPlaces) {
  for (const uint32_t expert_count : {5u, 60u, 64u, 1500u}) {
    for (const uint32_t row_count : {1u, 9u, 300u}) {
      const uint32_t used_count = expert_count == 5 ? 2 : 8, choice_count = row_count * used_count;
      ExpectSame(
          [&](Try& t) {
            std::vector<float> logits = Outlying(size_t{row_count} * expert_count, 3);
            for (uint32_t e = 0; e < expert_count; ++e) logits[e] = std::floor(4.0f * logits[e]);
            logits[2] = std::numeric_limits<float>::quiet_NaN();
            auto* const choices = t.Put(std::vector<gpu::ExpertChoice>(choice_count));
            auto* const groups = t.Put(std::vector<gpu::ExpertRows>(expert_count));
            auto* const place_of = t.Put(std::vector<uint32_t>(choice_count));
            auto* const row_at = t.Put(std::vector<uint32_t>(choice_count));
            t.queue().Run(gpu::ChooseExperts{.logits = t.Put(logits),
                                             .choices = choices,
                                             .expert_count = expert_count,
                                             .used_count = used_count,
                                             .renormalize = row_count == 9},
                          row_count, 1);
            t.queue().Run(gpu::GroupRows{.choices = choices,
                                         .groups = groups,
                                         .place_of = place_of,
                                         .row_at = row_at,
                                         .choice_count = choice_count,
                                         .used_count = used_count,
                                         .expert_count = expert_count},
                          1, 1);
            t.Keep(choices, choice_count);
            t.Keep(groups, expert_count);
            t.Keep(place_of, choice_count);
            t.Keep(row_at, choice_count);
          },
          std::to_string(row_count) + " rows of " + std::to_string(expert_count) + " experts");
    }
  }
}

TEST(KernelsOnGpu, RowsBroughtToExperts) {
  constexpr uint32_t kInputs = 2560;
  const std::vector<uint32_t> which = {2, 0, 0, 1, 2};
  ExpectSame(
      [&](Try& t) {
        const float* const x = t.Put(Outlying(3 * kInputs, 5));
        float* const out = t.Room(5 * kInputs);
        const gpu::RowTiles tiles = {kInputs, 32};
        std::vector<int8_t> room(tiles.QuantsOfTile());
        std::vector<int16_t> sum_room(tiles.SumsOfTile());
        int8_t* const quants = t.Put(room);
        float* const scales = t.Room(tiles.ScalesOfTile());
        int16_t* const sums = t.Put(sum_room);
        const gpu::GatherRows gather = {x, t.Put(which), out, kInputs};
        t.queue().Run(gather, 5, gather.grid_y());
        const gpu::QuantizeRows quantize = {x, quants, scales, sums, kInputs, 32, t.Put(which)};
        t.queue().Run(quantize, 5, quantize.grid_y());
        t.Keep(out, 5 * kInputs);
        t.Keep(quants, room.size());
        t.Keep(scales, tiles.ScalesOfTile());
        t.Keep(sums, sum_room.size());
      },
      "rows of experts");
}

TEST(KernelsOnGpu, SumsOfExperts) {
  constexpr uint32_t kRows = 3, kUsed = 4, kLength = 2560;
  for (const bool has_shared : {false, true}) {
    ExpectSame(
        [&](Try& t) {
          std::vector<gpu::ExpertChoice> choices;
          std::vector<uint32_t> place_of;
          for (uint32_t c = 0; c < kRows * kUsed; ++c) {
            choices.push_back({c % 7, 0.3f + 0.1f * static_cast<float>(c)});
            place_of.push_back((5 * c + 3) % (kRows * kUsed));
          }
          float* const out = t.Room(kRows * kLength);
          const gpu::SumExperts sum = {
              .answers = t.Put(Outlying(kRows * kUsed * kLength, 1)),
              .choices = t.Put(choices),
              .place_of = t.Put(place_of),
              .shared_answers = has_shared ? t.Put(Outlying(kRows * kLength, 2)) : nullptr,
              .shared_gate = has_shared ? t.Put(std::vector<float>(kLength, 0.001f)) : nullptr,
              .x = t.Put(Outlying(kRows * kLength, 4)),
              .out = out,
              .used_count = kUsed,
              .length = kLength};
          t.queue().Run(sum, kRows, sum.grid_y());
          t.Keep(out, kRows * kLength);
        },
        has_shared ? "sums with a shared expert" : "sums");
  }
}

// Rows of several lengths over pages in no order, grouped heads; of 20 elements, which are no whole
// eights. Few rows have another body than many.
TEST(KernelsOnGpu, Attention) {
  constexpr uint32_t kHeads = 4, kKvHeads = 2, kPages = 12;
  for (const uint32_t length : {16u, 20u, 40u, 64u, 128u, 256u}) {
    const size_t page_halves = size_t{2} * kKvHeads * kChunk * length;
    std::mt19937 random(length);
    std::vector<uint16_t> pages(kPages * page_halves);
    for (uint16_t& half : pages) {
      half = static_cast<uint16_t>((random() & 0x83ff) | (12 + random() % 4) << 10);
    }
    const auto attend = [&](size_t row_count) {
      ExpectSame(
          [&](Try& t) {
            const uint16_t* const there = t.Put(pages);
            std::vector<KeyRun> runs;
            std::vector<uint32_t> chunk_runs;
            std::vector<gpu::SeenRuns> seen;
            for (const uint32_t count : {1u, 32u, 45u, 300u}) {
              const uint32_t first = count == 45 ? 7 : 0;
              const auto first_chunk = static_cast<uint32_t>(chunk_runs.size());
              for (uint32_t index = first; index < first + count;) {
                const uint32_t end = std::min((index / kChunk + 1) * kChunk, first + count);
                if (index == first || index % kChunk == 0) {
                  chunk_runs.push_back(static_cast<uint32_t>(runs.size()));
                }
                // The last chunk of each comes in runs of one, as drafted nodes do.
                const uint32_t run = end == first + count ? 1 : end - index;
                const size_t page = (index / kChunk * 5 + count) % kPages;
                runs.push_back({there + page * page_halves, index % kChunk, run});
                index += run;
              }
              seen.push_back({first, first + count,
                              static_cast<uint32_t>(chunk_runs.size()) - first_chunk, first_chunk});
            }
            chunk_runs.push_back(static_cast<uint32_t>(runs.size()));
            for (size_t i = 0; seen.size() < row_count; ++i) seen.push_back(seen[i]);
            const size_t row_floats = size_t{kHeads} * length;
            float* const out = t.Room(seen.size() * row_floats);
            t.queue().Run(gpu::AttendRows{.query = t.Put(Outlying(seen.size() * row_floats, 8)),
                                          .out = out,
                                          .seen = t.Put(seen),
                                          .chunk_runs = t.Put(chunk_runs),
                                          .runs = t.Put(runs),
                                          .head_count = kHeads,
                                          .kv_head_count = kKvHeads,
                                          .key_length = length,
                                          .value_length = length,
                                          .scale = 0.01f,
                                          .keys_at = 0,
                                          .values_at = size_t{kKvHeads} * kChunk * length,
                                          .slot_count = kChunk},
                          static_cast<uint32_t>(seen.size()), kHeads);
            t.Keep(out, seen.size() * row_floats);
          },
          std::to_string(row_count) + " rows, heads of " + std::to_string(length));
    };
    attend(4);
    attend(gpu::kFewAttending / kHeads + 1);
  }
}

}  // namespace
}  // namespace outrider
