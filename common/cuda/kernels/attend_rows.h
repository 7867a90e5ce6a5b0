// Attention of rows over paged keys and values (NUMERICS.md, section 6): committed cells, drafted
// ancestors and a row's own, in the runs that a batch gives (kernels/attention.h). What is masked
// is what is in no run.
//
// A block is a row and a query head. Each of its warps takes a chunk of 32 positions; the chunks of
// a round are then merged in order, a thread four elements of the result. Chunks are cut by
// position, so the bits are the same wherever keys are stored and whoever else is in the run.
//
// What takes time is waiting for memory, so loads come in batches, with nothing between them that
// depends on one: past a chunk's end its last cell is loaded again, and what comes of that is not
// looked at. A round waits for the tables, twice for keys of 128 elements and twice for values.
//
//   grid: rows, head_count
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/cuda/block/halves.h"
#include "common/cuda/block/matrix_fragments.h"
#include "common/kernels/attention.h"

namespace outrider::gpu {

// The keys one row sees.
struct alignas(16) SeenRuns {
  uint32_t first_index;  // of the first run
  uint32_t end_index;    // behind the last
  uint32_t chunk_count;  // that they are cut into
  uint32_t first_chunk;  // chunk c has runs [chunk_runs[first_chunk + c], ... + c + 1])
};

struct AttendRows {
  const float* query;          // [rows, head_count, key_length]
  float* out;                  // [rows, head_count, value_length]
  const SeenRuns* seen;        // [rows]
  const uint32_t* chunk_runs;  // by chunk of all rows, and one more
  const KeyRun* runs;          // in pages that begin on 16 bytes
  uint32_t head_count;
  uint32_t kv_head_count;
  uint32_t key_length;  // 1..kHeadLengthMax, as is value_length
  uint32_t value_length;
  float scale;
  size_t keys_at;  // of slot 0 of the first head, in halves from a page's beginning
  size_t values_at;
  uint32_t slot_count;  // of a page
};

template <uint32_t kWarpCount, uint32_t kBlockCount>
struct AttendBody : AttendRows {
  static constexpr uint32_t kWarps = kWarpCount;
  static constexpr uint32_t kThreads = kWarps * kWarpLanes;
  static constexpr uint32_t kBlocksAtOnce = kBlockCount;

  OUTRIDER_HD size_t SharedBytes() const {
    return query_fours() * sizeof(Four) + kThreads * (sizeof(float) + sizeof(uint64_t)) +
           kWarps * (value_fours() * sizeof(Four) + sizeof(ChunkSum) + sizeof(Merging));
  }

  template <typename Block>
  OUTRIDER_HD void operator()(Block& block) const {
    const SeenRuns here = seen[block.x()];
    const uint32_t kv_head = block.y() / (head_count / kv_head_count);
    const Room<Block> room(block, *this);
    auto scores = block.template Private<float>();
    auto maxima = block.template Private<float>();
    auto states = block.template Private<State>();
    block.Each([&](uint32_t t) {
      maxima[t] = -Infinity();
      TakeQuery(QueryOf(block), room, t);
    });
    block.Sync();
    for (uint32_t first = 0; first < here.chunk_count; first += kWarps) {
      const uint32_t left = here.chunk_count - first;
      const uint32_t count = left < kWarps ? left : kWarps;
      ScoreKeys(block, here, first, kv_head, room, scores);
      WeighScores(block, here, first, room, scores);
      block.Sync();
      block.Each([&](uint32_t t) {
        const Slots slots = SlotsOf(here, first + t / kWarpLanes);
        values_are_whole() ? AddValues<true>(room, t, slots) : AddValues<false>(room, t, slots);
        // By the last warp, which has no chunk while texts are short.
        const uint32_t c = t - (kThreads - kWarpLanes);
        if (c < count) maxima[t] = PrepareMerging(room, t, c, count, maxima[t]);
      });
      block.Sync();
      block.Each([&](uint32_t t) {
        if (t < value_fours()) Merge(room, t, first == 0, count, states[t]);
      });
      block.Sync();
    }
    float* const to = out + (size_t{block.x()} * head_count + block.y()) * value_length;
    block.Each([&](uint32_t t) {
      const float r = 1.0f / states[t].sum;
      OUTRIDER_UNROLL
      for (uint32_t e = 0; e < 4; ++e) {
        if (4 * t + e < value_length) to[4 * t + e] = states[t].out.at[e] * r;
      }
    });
  }

 private:
  static constexpr uint32_t kLanes = 16;  // of a sum
  // What a thread has on its way at the same time: 32 registers of either.
  static constexpr uint32_t kKeyBatch = 4;     // times eight elements of two keys
  static constexpr uint32_t kValueBatch = 16;  // values' four elements
  static constexpr uint32_t kRunBatch = 4;

  struct alignas(16) Four {
    float at[4];
  };
  // Of one key, half of the lanes of a score.
  struct HalfLanes {
    float sums[kLanes / 2];
  };
  // A chunk's largest score, and the sum of its weights.
  struct ChunkSum {
    float max;
    float sum;
  };
  // What comes of merging a chunk: what the state and the chunk are multiplied with.
  struct Merging {
    float of_state;
    float of_chunk;
  };
  // All chunks so far, not yet divided by the sum of their weights, of four elements.
  struct State {
    float sum;
    Four out;
  };
  // Of a chunk, those that a row sees: they follow one another. Of a chunk that is not there, none.
  struct Slots {
    uint32_t begin;
    uint32_t end;
  };
  struct Cell {
    const uint16_t* key;
    const uint16_t* value;
  };

  // Shared memory.
  template <typename Block>
  struct Room {
    OUTRIDER_HD Room(Block& block, const AttendBody& body)
        : q(block.template Share<Four>(body.query_fours())),
          weights(block.template Share<float>(kThreads)),
          values(block.template Share<const uint16_t*>(kThreads)),
          outs(block.template Share<Four>(kWarps * body.value_fours())),
          chunks(block.template Share<ChunkSum>(kWarps)),
          mergings(block.template Share<Merging>(kWarps)) {}

    typename Block::template Shared<Four> q;
    typename Block::template Shared<float> weights;           // by warp and slot
    typename Block::template Shared<const uint16_t*> values;  // likewise
    typename Block::template Shared<Four> outs;               // by warp and four elements
    typename Block::template Shared<ChunkSum> chunks;         // by warp
    typename Block::template Shared<Merging> mergings;
  };

  // Whole eights of elements, +0 past the end.
  OUTRIDER_HD uint32_t query_fours() const { return (key_length + 7) / 8 * 2; }
  OUTRIDER_HD uint32_t value_fours() const { return (value_length + 3) / 4; }

  // Whether eight elements of a key, or four of a value, are one load.
  OUTRIDER_HD bool keys_are_whole() const { return (key_length | keys_at) % 8 == 0; }
  OUTRIDER_HD bool values_are_whole() const { return (value_length | values_at) % 4 == 0; }

  template <typename Block>
  OUTRIDER_HD const float* QueryOf(const Block& block) const {
    return query + (size_t{block.x()} * head_count + block.y()) * key_length;
  }

  template <typename Room>
  OUTRIDER_HD void TakeQuery(const float* from, const Room& room, uint32_t t) const {
    if (t >= query_fours()) return;
    Four four = {};
    OUTRIDER_UNROLL
    for (uint32_t e = 0; e < 4; ++e) {
      if (4 * t + e < key_length) four.at[e] = from[4 * t + e];
    }
    room.q.Set(t, t, four);
  }

  static OUTRIDER_HD Slots SlotsOf(const SeenRuns& here, uint32_t chunk) {
    if (chunk >= here.chunk_count) return {0, 0};
    return {chunk == 0 ? here.first_index % kChunk : 0,
            chunk + 1 == here.chunk_count ? (here.end_index - 1) % kChunk + 1 : kChunk};
  }

  // Of a slot that the row sees. A chunk has a run or two, or many where drafted nodes are
  // scattered: several are read at a time.
  OUTRIDER_HD Cell CellOf(const SeenRuns& here, uint32_t chunk, uint32_t slot,
                          uint32_t kv_head) const {
    uint32_t first = chunk_runs[here.first_chunk + chunk];
    const uint32_t last = chunk_runs[here.first_chunk + chunk + 1] - 1;
    uint32_t begin = chunk == 0 ? here.first_index % kChunk : 0;
    KeyRun of = {};
    for (; begin <= slot; first += kRunBatch) {
      KeyRun read[kRunBatch];
      OUTRIDER_UNROLL
      for (uint32_t j = 0; j < kRunBatch; ++j) read[j] = runs[first + j < last ? first + j : last];
      OUTRIDER_UNROLL
      for (uint32_t j = 0; j < kRunBatch; ++j) {
        const bool is_here = begin <= slot && slot - begin < read[j].count;
        if (is_here) of = {read[j].page, read[j].slot + slot - begin, 1};
        begin += read[j].count;
      }
    }
    const size_t cell = size_t{kv_head} * slot_count + of.slot;
    return {of.page + keys_at + cell * key_length, of.page + values_at + cell * value_length};
  }

  // A lane's score is that of the slot it has the number of. Two lanes that are neighbours go over
  // both their keys together, each over its half of every sixteen elements, so that they load whole
  // sectors; then they swap what is the other's.
  template <typename Block, typename Scores>
  OUTRIDER_HD void ScoreKeys(Block& block, const SeenRuns& here, uint32_t first, uint32_t kv_head,
                             const Room<Block>& room, Scores& scores) const {
    auto keys = block.template Private<const uint16_t*>();
    auto kept = block.template Private<HalfLanes>();
    auto given = block.template Private<HalfLanes>();
    block.Each([&](uint32_t t) {
      const uint32_t chunk = first + t / kWarpLanes;
      const Slots slots = SlotsOf(here, chunk);
      if (slots.begin == slots.end) return;
      uint32_t slot = LaneOf(t) < slots.begin ? slots.begin : LaneOf(t);
      slot = slot < slots.end ? slot : slots.end - 1;
      const Cell cell = CellOf(here, chunk, slot, kv_head);
      keys[t] = cell.key;
      room.values.Set(t, t, cell.value);
    });
    auto others = block.OfPartners(keys, 1);
    block.Each([&](uint32_t t) {
      if (first + t / kWarpLanes >= here.chunk_count) return;
      const bool is_odd = t % 2 != 0;
      const Pair<const uint16_t*> both = {is_odd ? others[t] : keys[t],
                                          is_odd ? keys[t] : others[t]};
      const Pair<HalfLanes> sums =
          keys_are_whole() ? AddKeys<true>(room, t, both) : AddKeys<false>(room, t, both);
      kept[t] = is_odd ? sums.second : sums.first;
      given[t] = is_odd ? sums.first : sums.second;
    });
    auto got = block.OfPartners(given, 1);
    block.Each([&](uint32_t t) { scores[t] = Fold(kept[t], got[t]) * scale; });
  }

  // What a thread's half of the lanes comes to, of two keys.
  template <bool kWhole, typename Room>
  OUTRIDER_HD Pair<HalfLanes> AddKeys(const Room& room, uint32_t t,
                                      const Pair<const uint16_t*>& keys) const {
    Pair<HalfLanes> sums = {};
    uint32_t i = kLanes / 2 * (t % 2);
    if constexpr (kWhole) {
      for (; i + kLanes * (kKeyBatch - 1) < key_length; i += kLanes * kKeyBatch) {
        AddEights<kWhole, kKeyBatch>(room, t, i, keys, sums);
      }
    }
    for (; i < key_length; i += kLanes) AddEights<kWhole, 1>(room, t, i, keys, sums);
    return sums;
  }

  // Eight elements that begin with element i, and as many sixteen elements further on.
  template <bool kWhole, uint32_t kCount, typename Room>
  OUTRIDER_HD void AddEights(const Room& room, uint32_t t, uint32_t i,
                             const Pair<const uint16_t*>& keys, Pair<HalfLanes>& sums) const {
    Pair<EightHalves> read[kCount];
    OUTRIDER_UNROLL
    for (uint32_t j = 0; j < kCount; ++j) {
      const uint32_t at = i + j * kLanes;
      read[j] = {LoadHalves<EightHalves, kWhole>(keys.first + at, key_length - at),
                 LoadHalves<EightHalves, kWhole>(keys.second + at, key_length - at)};
    }
    OUTRIDER_UNROLL
    for (uint32_t f = 0; f < kCount * 2; ++f) {
      const uint32_t at = i + f / 2 * kLanes + f % 2 * 4;
      const Four q = room.q.Get(t, at / 4);
      OUTRIDER_UNROLL
      for (uint32_t e = 0; e < 4; ++e) {
        if (!kWhole && at + e >= key_length) continue;
        const uint32_t lane = f % 2 * 4 + e;
        float& first = sums.first.sums[lane];
        float& second = sums.second.sums[lane];
        first = Fma(q.at[e], WidenAt(read[f / 2].first, lane), first);
        second = Fma(q.at[e], WidenAt(read[f / 2].second, lane), second);
      }
    }
  }

  static OUTRIDER_HD float Fold(const HalfLanes& a, const HalfLanes& b) {
    HalfLanes folded;
    OUTRIDER_UNROLL
    for (uint32_t l = 0; l < kLanes / 2; ++l) folded.sums[l] = a.sums[l] + b.sums[l];
    OUTRIDER_UNROLL
    for (uint32_t width = kLanes / 4; width > 0; width /= 2) {
      OUTRIDER_UNROLL
      for (uint32_t l = 0; l < width; ++l) {
        folded.sums[l] = folded.sums[l] + folded.sums[l + width];
      }
    }
    return folded.sums[0];
  }

  // Slots j and j + 16 share a lane of the sum, so what the first lane of a warp adds up is the
  // contract's: a slot that is not seen gives +0, which leaves its lane as it was, since no weight
  // is -0.
  template <typename Block, typename Scores>
  OUTRIDER_HD void WeighScores(Block& block, const SeenRuns& here, uint32_t first,
                               const Room<Block>& room, Scores& scores) const {
    auto largest = block.template Private<float>();
    auto sums = block.template Private<float>();
    const auto is_seen = [&](uint32_t t) {
      const Slots slots = SlotsOf(here, first + t / kWarpLanes);
      return slots.begin <= LaneOf(t) && LaneOf(t) < slots.end;
    };
    block.Each([&](uint32_t t) {
      largest[t] = is_seen(t) && scores[t] > -Infinity() ? scores[t] : -Infinity();
    });
    OUTRIDER_UNROLL
    for (uint32_t by = kWarpLanes / 2; by > 0; by /= 2) {
      auto others = block.OfPartners(largest, by);
      block.Each([&](uint32_t t) {
        if (others[t] > largest[t]) largest[t] = others[t];
      });
    }
    block.Each([&](uint32_t t) {
      sums[t] = is_seen(t) ? Exp(scores[t] - largest[t]) : 0.0f;
      room.weights.Set(t, t, sums[t]);
    });
    OUTRIDER_UNROLL
    for (uint32_t by = kWarpLanes / 2; by > 0; by /= 2) {
      auto others = block.OfPartners(sums, by);
      block.Each([&](uint32_t t) { sums[t] = sums[t] + others[t]; });
    }
    block.Each([&](uint32_t t) {
      if (LaneOf(t) == 0) room.chunks.Set(t, t / kWarpLanes, {largest[t], sums[t]});
    });
  }

  // A lane has four elements side by side of its warp's chunk, and those 128 further on; positions
  // ascend.
  template <bool kWhole, typename Room>
  OUTRIDER_HD void AddValues(const Room& room, uint32_t t, const Slots& slots) const {
    if (slots.begin == slots.end) return;
    const uint32_t warp = t / kWarpLanes;
    for (uint32_t four = LaneOf(t); four < value_fours(); four += kWarpLanes) {
      Four sums = {};
      uint32_t slot = slots.begin;
      if constexpr (kWhole) {
        for (; slot + kValueBatch <= slots.end; slot += kValueBatch) {
          AddBatch<kWhole, true, kValueBatch>(room, warp, four, {slot, slots.end}, sums);
        }
      }
      constexpr uint32_t kRest = kWhole ? kValueBatch / 2 : 1;
      for (; slot < slots.end; slot += kRest) {
        AddBatch<kWhole, false, kRest>(room, warp, four, {slot, slots.end}, sums);
      }
      room.outs.Set(t, warp * value_fours() + four, sums);
    }
  }

  // Of the first slots. Not full: there are fewer than a batch.
  template <bool kWhole, bool kFull, uint32_t kCount, typename Room>
  OUTRIDER_HD void AddBatch(const Room& room, uint32_t warp, uint32_t four, const Slots& slots,
                            Four& sums) const {
    const uint32_t t = warp * kWarpLanes + four % kWarpLanes;
    const uint32_t last = slots.end - 1;
    const auto slot_of = [&](uint32_t j) {
      const uint32_t slot = slots.begin + j;
      return warp * kWarpLanes + (kFull || slot < last ? slot : last);
    };
    FourHalves read[kCount];
    OUTRIDER_UNROLL
    for (uint32_t j = 0; j < kCount; ++j) {
      const uint16_t* const value = room.values.Get(t, slot_of(j)) + 4 * four;
      read[j] = LoadHalves<FourHalves, kWhole>(value, value_length - 4 * four);
    }
    OUTRIDER_UNROLL
    for (uint32_t j = 0; j < kCount; ++j) {
      const float weight = room.weights.Get(t, slot_of(j));
      const bool is_there = kFull || j == 0 || slots.begin + j <= last;
      OUTRIDER_UNROLL
      for (uint32_t e = 0; e < 4; ++e) {
        const float sum = Fma(weight, WidenAt(read[j], e), sums.at[e]);
        if (is_there) sums.at[e] = sum;
      }
    }
  }

  // For chunk c of a round of `count`; the largest score of all chunks before the round is `max`.
  // Returns that of those before the next.
  template <typename Room>
  OUTRIDER_HD float PrepareMerging(const Room& room, uint32_t t, uint32_t c, uint32_t count,
                                   float max) const {
    float before = max, after = max;
    for (uint32_t i = 0; i < count; ++i) {
      const float here = room.chunks.Get(t, i).max;
      const float larger = here > max ? here : max;
      before = i == c ? max : before;
      after = i == c ? larger : after;
      max = larger;
    }
    room.mergings.Set(t, c, {Exp(before - after), Exp(room.chunks.Get(t, c).max - after)});
    return max;
  }

  template <typename Room>
  OUTRIDER_HD void Merge(const Room& room, uint32_t t, bool is_first, uint32_t count,
                         State& state) const {
    for (uint32_t c = 0; c < count; ++c) {
      const float sum = room.chunks.Get(t, c).sum;
      const Four chunk = room.outs.Get(t, c * value_fours() + t);
      const auto [a, b] = room.mergings.Get(t, c);
      const bool is_taken = is_first && c == 0;
      state.sum = is_taken ? sum : Fma(state.sum, a, sum * b);
      OUTRIDER_UNROLL
      for (uint32_t e = 0; e < 4; ++e) {
        state.out.at[e] = is_taken ? chunk.at[e] : Fma(state.out.at[e], a, chunk.at[e] * b);
      }
    }
  }
};

// More warps have nothing to do while texts are short: where blocks are many they have eight, and
// three of them leave a thread 80 registers, which what it has on its way at the same time needs.
// Where there are no more blocks than multiprocessors, sixteen take as many chunks a round.
using AttendManyRows = AttendBody<8, 3>;
using AttendFewRows = AttendBody<16, 1>;
inline constexpr uint32_t kFewAttending = 128;  // blocks; an H100 has 132 multiprocessors

// use(body) for the body that fits so many rows.
template <typename Use>
void UseAttendBody(const AttendRows& rows, uint32_t row_count, const Use& use) {
  if (row_count * rows.head_count <= kFewAttending) {
    use(AttendFewRows{rows});
  } else {
    use(AttendManyRows{rows});
  }
}

}  // namespace outrider::gpu
