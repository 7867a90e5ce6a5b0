// A block of threads as a GPU has it: what kernel bodies (common/cuda/README.md) are written over,
// run by real threads. Only nvcc sees this.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "common/cuda/block/matrix_fragments.h"

namespace outrider::gpu {

// Methods are __host__ too, as the bodies that call them are; on the host nobody calls either.
class GpuBlock {
 public:
  // A value of each thread: here, of this one.
  template <typename T>
  class PerThread {
   public:
    OUTRIDER_HD T& operator[](uint32_t) { return value_; }

   private:
    T value_ = {};
  };

  // An array in shared memory. Who reads or writes says who he is, for the emulation's sake.
  template <typename T>
  class Shared {
   public:
    OUTRIDER_HD explicit Shared(T* values) : values_(values) {
#ifdef __CUDA_ARCH__
      address_ = static_cast<uint32_t>(__cvta_generic_to_shared(values));
#endif
    }
    OUTRIDER_HD T Get(uint32_t, size_t i) const {
      return values_[i];
    }
    OUTRIDER_HD void Set(uint32_t, size_t i, T value) const {
      values_[i] = value;
    }

    // Four of four bytes each at once, which begin on 16 bytes.
    OUTRIDER_HD Four<T> GetFour(uint32_t, size_t i) const {
      return *reinterpret_cast<const Four<T>*>(values_ + i);
    }
    OUTRIDER_HD Two<T> GetTwo(uint32_t, size_t i) const {
      return *reinterpret_cast<const Two<T>*>(values_ + i);
    }
    OUTRIDER_HD uint32_t AddressOf(size_t i) const {
      return address_ + static_cast<uint32_t>(i * sizeof(T));
    }
    // From global memory, on their way from now on (AwaitBatches() below); zeros where nothing is
    // there, whose address is not looked at.
    OUTRIDER_HD void CopyFour([[maybe_unused]] uint32_t thread, [[maybe_unused]] size_t i,
                              [[maybe_unused]] const void* from,
                              [[maybe_unused]] bool is_there) const {
#ifdef __CUDA_ARCH__
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                   :
                   : "r"(AddressOf(i)), "l"(from), "r"(is_there ? 16 : 0)
                   : "memory");
#endif
    }

   private:
    T* values_;
    uint32_t address_ = 0;  // of these, as copies want it
  };

  OUTRIDER_HD explicit GpuBlock(std::byte* shared) : shared_(Kept(shared)), all_shared_(shared_) {
#ifdef __CUDA_ARCH__
    x_ = blockIdx.x;
    y_ = blockIdx.y;
#endif
  }

  template <typename T>
  OUTRIDER_HD PerThread<T> Private() const {
    return {};
  }

  OUTRIDER_HD uint32_t x() const {
    return x_;
  }
  OUTRIDER_HD uint32_t y() const {
    return y_;
  }

  // All threads have waited for one another, and go on as another block of another grid, whose
  // shared memory nobody has used.
  OUTRIDER_HD void MoveTo(uint32_t x, uint32_t y) {
    Sync();
    shared_ = all_shared_;
    x_ = x;
    y_ = y;
  }

  template <typename T>
  OUTRIDER_HD Shared<T> Share(size_t count) {
    std::byte* const at = shared_;
    shared_ += (count * sizeof(T) + 15) / 16 * 16;
    return Shared<T>(reinterpret_cast<T*>(at));
  }

  template <typename Phase>
  OUTRIDER_HD void Each([[maybe_unused]] const Phase& phase) const {
#ifdef __CUDA_ARCH__
    phase(threadIdx.x);
#endif
  }

  OUTRIDER_HD void Sync() const {
#ifdef __CUDA_ARCH__
    __syncthreads();
#endif
  }

  // Every kCount threads that follow one another, whole warps, have waited for one another. One
  // count in a kernel, of which a block has up to fifteen.
  template <uint32_t kCount>
  OUTRIDER_HD void SyncGroups() const {
#ifdef __CUDA_ARCH__
    if constexpr (kCount == kWarpLanes) {
      __syncwarp();
    } else {
      asm volatile("bar.sync %0, %1;" ::"r"(1 + threadIdx.x / kCount), "n"(kCount) : "memory");
    }
#endif
  }

  // Copies that a thread has asked for since the last time are a batch, none too.
  OUTRIDER_HD void CloseBatch() const {
#ifdef __CUDA_ARCH__
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
  }
  // A thread's batches are there, but for so many of the newest; others see them after that and a
  // Sync().
  template <uint32_t kStillOnTheirWay>
  OUTRIDER_HD void AwaitBatches() const {
#ifdef __CUDA_ARCH__
    asm volatile("cp.async.wait_group %0;" ::"n"(kStillOnTheirWay) : "memory");
#endif
  }

  // Of so many blocks that come to a counter, which begins and ends at zero, the last is told so,
  // and sees what all of them have written before.
  OUTRIDER_HD bool IsLastToCome([[maybe_unused]] uint32_t* counter,
                                [[maybe_unused]] uint32_t count) const {
#ifdef __CUDA_ARCH__
    __shared__ uint32_t come_before;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) come_before = atomicInc(counter, count - 1);
    __syncthreads();
    __threadfence();
    return come_before == count - 1;
#else
    return false;
#endif
  }

  // What the threads' partners in their warps have: lane l's is lane l ^ by.
  template <typename T>
  OUTRIDER_HD PerThread<T> OfPartners([[maybe_unused]] PerThread<T>& values,
                                      [[maybe_unused]] uint32_t by) const {
    static_assert(sizeof(T) % sizeof(uint32_t) == 0, "lanes exchange dwords");
    PerThread<T> theirs;
#ifdef __CUDA_ARCH__
    uint32_t dwords[sizeof(T) / sizeof(uint32_t)];
    memcpy(dwords, &values[0], sizeof(T));
    OUTRIDER_UNROLL
    for (uint32_t& dword : dwords) dword = __shfl_xor_sync(UINT32_MAX, dword, by);
    memcpy(&theirs[0], dwords, sizeof(T));
#endif
    return theirs;
  }

  // tile_of(thread) is an IntTile, whose sums begin at kStart: registers that hold nothing else.
  template <int32_t kStart, typename TileOf>
  OUTRIDER_HD void MultiplyTilesFrom([[maybe_unused]] const TileOf& tile_of) const {
#ifdef __CUDA_ARCH__
    const IntTile tile = tile_of(threadIdx.x);
    const uint32_t(&w)[4] = tile.weights->dwords;
    const uint32_t(&x)[2] = tile.rows->dwords;
    int32_t(&s)[4] = tile.sums->sums;
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%10, %10, %10, %10};"
        : "=r"(s[0]), "=r"(s[1]), "=r"(s[2]), "=r"(s[3])
        : "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3]), "r"(x[0]), "r"(x[1]), "r"(kStart));
#endif
  }

  // Halves into fragments (matrix_fragments.h): place_of(thread) is where a lane's eight begin, and
  // fragment_of(thread) a WeightFragment.
  template <typename Shared, typename PlaceOf, typename FragmentOf>
  OUTRIDER_HD void ReadTransposed([[maybe_unused]] const Shared& halves,
                                  [[maybe_unused]] const PlaceOf& place_of,
                                  [[maybe_unused]] const FragmentOf& fragment_of) const {
#ifdef __CUDA_ARCH__
    uint32_t(&d)[4] = fragment_of(threadIdx.x)->dwords;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
                 : "r"(halves.AddressOf(place_of(threadIdx.x)))
                 : "memory");
#endif
  }

  // tile_of(thread) is a FloatTile.
  template <typename TileOf>
  OUTRIDER_HD void MultiplyFloatTiles([[maybe_unused]] const TileOf& tile_of) const {
#ifdef __CUDA_ARCH__
    const FloatTile tile = tile_of(threadIdx.x);
    const uint32_t(&w)[4] = tile.weights->dwords;
    const uint32_t(&x)[2] = tile.rows->dwords;
    float(&s)[4] = tile.sums->sums;
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(s[0]), "+f"(s[1]), "+f"(s[2]), "+f"(s[3])
        : "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3]), "r"(x[0]), "r"(x[1]));
#endif
  }

 private:
  // nvcc would work the address out again wherever it is used, which takes a special register and
  // its time. So it does not see where it comes from, only that it is shared memory's.
  static OUTRIDER_HD std::byte* Kept(std::byte* shared) {
#ifdef __CUDA_ARCH__
    auto at = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
    asm volatile("" : "+r"(at));
    return static_cast<std::byte*>(__cvta_shared_to_generic(at));
#else
    return shared;
#endif
  }

  std::byte* shared_;  // what is left of it
  std::byte* const all_shared_;
  uint32_t x_ = 0, y_ = 0;
};

}  // namespace outrider::gpu
