// Memory that is taken once, up front, and where failing to get it is an answer and not an abort.
//
//   AlignedBuffer   some kilobytes to megabytes from the heap, aligned for vector loads or more
//                   strictly where asked; zeroed, so all of it is resident.
//   PageBuffer      whole pages straight from the kernel and straight back to it when destroyed:
//                   weights, caches, targets of direct I/O. Zero where untouched, and resident only
//                   where touched.
//
// Both move and do not copy. As<T>() views the bytes as numbers.
// Errors: ResourceExhausted, with the size that was not to be had.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>

#include "absl/status/statusor.h"
#include "common/base/check.h"

namespace outrider {

inline constexpr size_t kVectorAlignment = 64;  // a cache line, and the widest vector we load

inline uint64_t RoundUp(uint64_t bytes, uint64_t step) {
  return (bytes + step - 1) / step * step;
}

namespace buffer_internal {

// Bytes with one owner, given back by kRelease(data, size).
template <void (*kRelease)(std::byte*, size_t)>
class Owned {
 public:
  Owned() = default;
  Owned(Owned&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  Owned& operator=(Owned&& other) noexcept {
    Owned taken(std::move(other));  // what we held is released here, not when `other` goes
    std::swap(data_, taken.data_);
    std::swap(size_, taken.size_);
    return *this;
  }
  ~Owned() {
    if (data_ != nullptr) kRelease(data_, size_);
  }

  std::span<std::byte> bytes() { return {data_, size_}; }
  std::span<const std::byte> bytes() const { return {data_, size_}; }

  // The size is a multiple of T's.
  template <typename T>
  std::span<T> As() {
    return View<T>();
  }
  template <typename T>
  std::span<const T> As() const {
    return View<const T>();
  }

 protected:
  Owned(std::byte* data, size_t size) : data_(data), size_(size) {}

 private:
  template <typename T>
  std::span<T> View() const {
    static_assert(std::is_trivially_copyable_v<T>, "bytes are viewed as plain numbers only");
    static_assert(alignof(T) <= kVectorAlignment, "every buffer is aligned to that at least");
    OUTRIDER_CHECK(size_ % sizeof(T) == 0, "a buffer holds a whole number of what it is viewed as");
    return {reinterpret_cast<T*>(data_), size_ / sizeof(T)};
  }

  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

void Free(std::byte* data, size_t size);
void Unmap(std::byte* data, size_t size);

}  // namespace buffer_internal

class AlignedBuffer : public buffer_internal::Owned<buffer_internal::Free> {
 public:
  // `alignment` is a power of two; less than kVectorAlignment is as good as that. Zero bytes are a
  // valid, empty buffer.
  static absl::StatusOr<AlignedBuffer> Create(size_t bytes, size_t alignment = kVectorAlignment);

  AlignedBuffer() = default;

 private:
  using Owned::Owned;
};

class PageBuffer : public buffer_internal::Owned<buffer_internal::Unmap> {
 public:
  // Rounded up to whole pages: the size is a multiple of PageSize(). Zero bytes are a valid, empty
  // buffer.
  static absl::StatusOr<PageBuffer> Create(size_t bytes);
  // Of pages of kLargePage where the kernel has some, and aligned to one whatever its size. For what is
  // read from end to end over and over: fewer addresses have to be looked up. And for what devices read
  // into: a request has so many pieces at the most, and memory of small pages is a piece a page. What is
  // touched makes as much around it resident.
  static absl::StatusOr<PageBuffer> CreateLarge(size_t bytes);
  static constexpr size_t kLargePage = size_t{2} << 20;
  static size_t PageSize();

  PageBuffer() = default;

 private:
  using Owned::Owned;
};

}  // namespace outrider
