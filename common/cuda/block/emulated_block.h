// A block of threads, emulated: what kernel bodies (common/cuda/README.md) are written over, run on
// this machine one thread after another, and watched.
//
// Each() calls its phase for every thread, now from the first to the last, now the other way round,
// so that a body that hopes for an order is found out. Sync() is where a GPU's threads wait for one
// another; here nobody has to, and so shared memory keeps book: who reads what another thread has
// written since the last Sync(), writes what another has read or written since, reads what nobody
// has written, or goes past an end, is stopped by a CHECK. Global memory is plain memory, for
// AddressSanitizer to watch.
//
// Memory: allocates as it goes. This is for tests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "common/base/check.h"
#include "common/cuda/block/matrix_fragments.h"

namespace outrider::gpu {

class EmulatedBlock {
 public:
  template <typename T>
  class PerThread {
   public:
    T& operator[](uint32_t thread) { return (*values_)[thread]; }

   private:
    friend class EmulatedBlock;
    explicit PerThread(uint32_t thread_count)
        : values_(std::make_shared<std::vector<T>>(thread_count)) {}

    std::shared_ptr<std::vector<T>> values_;
  };

  template <typename T>
  class Shared {
   public:
    T Get(uint32_t thread, size_t i) const {
      Cell& cell = At(i);
      OUTRIDER_CHECK(cell.written_in != kNever, "shared memory is written before it is read");
      OUTRIDER_CHECK(cell.written_in != *epoch_ || cell.writer == thread,
                     "a thread reads what another has written after a Sync()");
      cell.reader = cell.read_in == *epoch_ && cell.reader != thread ? kSeveral : thread;
      cell.read_in = *epoch_;
      return cell.value;
    }
    void Set(uint32_t thread, size_t i, T value) const {
      Cell& cell = At(i);
      OUTRIDER_CHECK(cell.written_in != *epoch_ || cell.writer == thread,
                     "two threads write to the same place with a Sync() between them");
      OUTRIDER_CHECK(cell.read_in != *epoch_ || cell.reader == thread,
                     "a thread writes where another has read after a Sync()");
      cell.value = value;
      cell.writer = thread;
      cell.written_in = *epoch_;
    }

   private:
    friend class EmulatedBlock;
    static constexpr uint64_t kNever = 0;
    static constexpr uint32_t kSeveral = UINT32_MAX;
    struct Cell {
      T value;
      uint32_t writer, reader;
      uint64_t written_in = kNever, read_in = kNever;
    };

    Shared(size_t count, const uint64_t* epoch)
        : cells_(std::make_shared<std::vector<Cell>>(count)), epoch_(epoch) {}
    Cell& At(size_t i) const {
      OUTRIDER_CHECK(i < cells_->size(), "shared memory is used as far as it goes");
      return (*cells_)[i];
    }

    std::shared_ptr<std::vector<Cell>> cells_;
    const uint64_t* epoch_;
  };

  EmulatedBlock(uint32_t x, uint32_t y, uint32_t thread_count, size_t shared_bytes)
      : x_(x),
        y_(y),
        thread_count_(thread_count),
        shared_bytes_(shared_bytes),
        shared_bytes_left_(shared_bytes) {}
  EmulatedBlock(const EmulatedBlock&) = delete;
  EmulatedBlock& operator=(const EmulatedBlock&) = delete;

  uint32_t x() const { return x_; }
  uint32_t y() const { return y_; }

  // All threads have waited for one another, and go on as another block of another grid, whose
  // shared memory nobody has used.
  void MoveTo(uint32_t x, uint32_t y) {
    Sync();
    shared_bytes_left_ = shared_bytes_;
    x_ = x;
    y_ = y;
  }

  template <typename T>
  PerThread<T> Private() const {
    return PerThread<T>(thread_count_);
  }

  template <typename T>
  Shared<T> Share(size_t count) {
    const size_t bytes = (count * sizeof(T) + 15) / 16 * 16;
    OUTRIDER_CHECK(bytes <= shared_bytes_left_, "a body asks for the shared memory it uses");
    shared_bytes_left_ -= bytes;
    return Shared<T>(count, &epoch_);
  }

  template <typename Phase>
  void Each(const Phase& phase) {
    backwards_ = !backwards_;
    for (uint32_t i = 0; i < thread_count_; ++i) {
      phase(backwards_ ? thread_count_ - 1 - i : i);
    }
  }

  void Sync() { ++epoch_; }

  // What the threads' partners in their warps have: lane l's is lane l ^ by.
  template <typename T>
  PerThread<T> OfPartners(PerThread<T>& values, uint32_t by) const {
    OUTRIDER_CHECK(thread_count_ % kWarpLanes == 0 && by < kWarpLanes, "partners share a warp");
    PerThread<T> theirs(thread_count_);
    for (uint32_t t = 0; t < thread_count_; ++t) theirs[t] = values[t ^ by];
    return theirs;
  }

  // tile_of(thread) is an IntTile.
  template <typename TileOf>
  void MultiplyTiles(const TileOf& tile_of) const {
    OUTRIDER_CHECK(thread_count_ % kWarpLanes == 0, "whole warps multiply");
    for (uint32_t warp = 0; warp < thread_count_; warp += kWarpLanes) {
      IntTile tiles[kWarpLanes];
      for (uint32_t lane = 0; lane < kWarpLanes; ++lane) tiles[lane] = tile_of(warp + lane);
      MultiplyTile(tiles);
    }
  }

  // tile_of(thread) is a FloatTile.
  template <typename TileOf>
  void MultiplyFloatTiles(const TileOf& tile_of) const {
    OUTRIDER_CHECK(thread_count_ % kWarpLanes == 0, "whole warps multiply");
    for (uint32_t warp = 0; warp < thread_count_; warp += kWarpLanes) {
      FloatTile tiles[kWarpLanes];
      for (uint32_t lane = 0; lane < kWarpLanes; ++lane) tiles[lane] = tile_of(warp + lane);
      if (!AddsNothing(tiles)) MultiplyFloatTile(tiles);
    }
  }

 private:
  static int8_t ByteOf(uint32_t dword, uint32_t i) {
    return static_cast<int8_t>(dword >> 8 * i & 255);
  }
  static float HalfOf(uint32_t dword, uint32_t i) {
    return WidenBfloat16(static_cast<uint16_t>(dword >> 16 * i));
  }

  // As matrix_fragments.h says who holds what.
  static void MultiplyTile(const IntTile (&tiles)[kWarpLanes]) {
    int32_t w[kTileInputs][kTileOutputs];
    int32_t x[kTileRows][kTileInputs];
    int32_t sums[kTileRows][kTileOutputs] = {};
    for (uint32_t lane = 0; lane < kWarpLanes; ++lane) {
      for (uint32_t i = 0; i < 4; ++i) {
        const uint32_t k = 4 * PlaceOf(lane) + i;
        for (uint32_t d = 0; d < 4; ++d) {
          w[k + 16 * (d / 2)][GroupOf(lane) + 8 * (d % 2)] =
              ByteOf(tiles[lane].weights->dwords[d], i);
        }
        for (uint32_t d = 0; d < 2; ++d) {
          x[GroupOf(lane)][k + 16 * d] = ByteOf(tiles[lane].rows->dwords[d], i);
        }
      }
    }
    for (uint32_t row = 0; row < kTileRows; ++row) {
      for (uint32_t k = 0; k < kTileInputs; ++k) {
        for (uint32_t n = 0; n < kTileOutputs; ++n) sums[row][n] += w[k][n] * x[row][k];
      }
    }
    for (uint32_t lane = 0; lane < kWarpLanes; ++lane) {
      for (uint32_t i = 0; i < 4; ++i) {
        tiles[lane].sums->sums[i] += sums[RowOfSum(lane, i)][OutputOfSum(lane, i)];
      }
    }
  }

  // Rows of zeros, which whole warps have where there are few segments; unless a weight is not finite,
  // or a sum is -0.
  static bool AddsNothing(const FloatTile (&tiles)[kWarpLanes]) {
    for (const FloatTile& tile : tiles) {
      if ((tile.rows->dwords[0] | tile.rows->dwords[1]) != 0) return false;
    }
    for (const FloatTile& tile : tiles) {
      for (const float sum : tile.sums->sums) {
        if (BitsOf(sum) == kMinusZero) return false;
      }
      for (const uint32_t dword : tile.weights->dwords) {
        if ((dword & 0x7f80u) == 0x7f80u || (dword & 0x7f800000u) == 0x7f800000u) return false;
      }
    }
    return true;
  }

  // A model of what a GPU does, which nobody has written down (matrix_fragments.h): sixteen exact
  // products join the sum one after another, as the tile's inputs go, and each sum is rounded to
  // nearest. (Below the smallest normal float a product is rounded too.)
  static void MultiplyFloatTile(const FloatTile (&tiles)[kWarpLanes]) {
    float w[kFloatTileInputs][kTileOutputs];
    float x[kTileRows][kFloatTileInputs];
    float sums[kTileRows][kTileOutputs];
    bool is_changed[kTileRows] = {};
    bool all_finite = true;
    for (uint32_t lane = 0; lane < kWarpLanes; ++lane) {
      const FloatTile& tile = tiles[lane];
      for (uint32_t i = 0; i < 2; ++i) {
        const uint32_t k = 2 * PlaceOf(lane) + i;
        for (uint32_t d = 0; d < 4; ++d) {
          float& weight = w[k + 8 * (d / 2)][GroupOf(lane) + 8 * (d % 2)];
          weight = HalfOf(tile.weights->dwords[d], i);
          all_finite &= weight - weight == 0;
        }
        for (uint32_t d = 0; d < 2; ++d) {
          x[GroupOf(lane)][k + 8 * d] = HalfOf(tile.rows->dwords[d], i);
        }
      }
      if ((tile.rows->dwords[0] | tile.rows->dwords[1]) != 0) is_changed[GroupOf(lane)] = true;
      for (uint32_t i = 0; i < 4; ++i) {
        const float sum = tile.sums->sums[i];
        sums[RowOfSum(lane, i)][OutputOfSum(lane, i)] = sum;
        if (BitsOf(sum) == kMinusZero) is_changed[RowOfSum(lane, i)] = true;
      }
    }
    for (uint32_t row = 0; row < kTileRows; ++row) {
      if (all_finite && !is_changed[row]) continue;  // zeros, of which there are many, add nothing
      for (uint32_t k = 0; k < kFloatTileInputs; ++k) {
        for (uint32_t n = 0; n < kTileOutputs; ++n) sums[row][n] += w[k][n] * x[row][k];
      }
    }
    for (uint32_t lane = 0; lane < kWarpLanes; ++lane) {
      for (uint32_t i = 0; i < 4; ++i) {
        tiles[lane].sums->sums[i] = sums[RowOfSum(lane, i)][OutputOfSum(lane, i)];
      }
    }
  }

  static constexpr uint32_t kMinusZero = 0x80000000u;

  uint32_t x_, y_;
  const uint32_t thread_count_;
  const size_t shared_bytes_;
  size_t shared_bytes_left_;
  uint64_t epoch_ = 1;
  bool backwards_ = true;
};

// Every block of a grid, one after another.
template <typename Body>
void Emulate(const Body& body, uint32_t grid_x, uint32_t grid_y) {
  for (uint32_t y = 0; y < grid_y; ++y) {
    for (uint32_t x = 0; x < grid_x; ++x) {
      EmulatedBlock block(x, y, Body::kThreads, body.SharedBytes());
      body(block);
    }
  }
}

}  // namespace outrider::gpu
