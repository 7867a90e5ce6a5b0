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
#include <span>
#include <type_traits>

#include "absl/status/statusor.h"
#include "common/base/check.h"

namespace outrider {

inline constexpr size_t kVectorAlignment = 64;  // a cache line, and the widest vector we load

namespace buffer_internal {

template <typename T>
std::span<T> ViewAs(std::byte* data, size_t size) {
  static_assert(std::is_trivially_copyable_v<T>, "bytes are viewed as plain numbers only");
  static_assert(alignof(T) <= kVectorAlignment, "every buffer is aligned to that at least");
  OUTRIDER_CHECK(size % sizeof(T) == 0, "a buffer holds a whole number of what it is viewed as");
  return {reinterpret_cast<T*>(data), size / sizeof(T)};
}

}  // namespace buffer_internal

class AlignedBuffer {
 public:
  // `alignment` is a power of two; less than kVectorAlignment is as good as that. Zero bytes are a
  // valid, empty buffer.
  static absl::StatusOr<AlignedBuffer> Create(size_t bytes, size_t alignment = kVectorAlignment);

  AlignedBuffer() = default;
  AlignedBuffer(AlignedBuffer&& other) noexcept;
  AlignedBuffer& operator=(AlignedBuffer&& other) noexcept;
  ~AlignedBuffer();

  std::span<std::byte> bytes() { return {data_, size_}; }
  std::span<const std::byte> bytes() const { return {data_, size_}; }

  // The size is a multiple of T's.
  template <typename T>
  std::span<T> As() {
    return buffer_internal::ViewAs<T>(data_, size_);
  }
  template <typename T>
  std::span<const T> As() const {
    return buffer_internal::ViewAs<const T>(data_, size_);
  }

 private:
  AlignedBuffer(std::byte* data, size_t size) : data_(data), size_(size) {}

  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

class PageBuffer {
 public:
  // Rounded up to whole pages: the size is a multiple of PageSize(). Zero bytes are a valid, empty
  // buffer.
  static absl::StatusOr<PageBuffer> Create(size_t bytes);
  static size_t PageSize();

  PageBuffer() = default;
  PageBuffer(PageBuffer&& other) noexcept;
  PageBuffer& operator=(PageBuffer&& other) noexcept;
  ~PageBuffer();

  std::span<std::byte> bytes() { return {data_, size_}; }
  std::span<const std::byte> bytes() const { return {data_, size_}; }

  // T's size divides a page.
  template <typename T>
  std::span<T> As() {
    return buffer_internal::ViewAs<T>(data_, size_);
  }
  template <typename T>
  std::span<const T> As() const {
    return buffer_internal::ViewAs<const T>(data_, size_);
  }

 private:
  PageBuffer(std::byte* data, size_t size) : data_(data), size_(size) {}

  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace outrider
