#include "common/base/buffer.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "gtest/gtest.h"

// Sanitizers are asked to answer an absurd request as the C library does.
extern "C" const char* __asan_default_options() {
  return "allocator_may_return_null=1";
}
extern "C" const char* __tsan_default_options() {
  return "allocator_may_return_null=1";
}

namespace outrider {
namespace {

template <typename T>
bool IsAligned(std::span<T> bytes, size_t alignment) {
  return reinterpret_cast<uintptr_t>(bytes.data()) % alignment == 0;
}

bool AllZero(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

TEST(AlignedBuffer, HasTheSizeAndAlignmentAskedForAndHoldsZeros) {
  for (const size_t alignment : {1, 64, 4096, 1 << 16}) {
    for (const size_t bytes : {1, 63, 64, 65, 100'000}) {
      absl::StatusOr<AlignedBuffer> buffer = AlignedBuffer::Create(bytes, alignment);
      ASSERT_TRUE(buffer.ok()) << buffer.status();
      EXPECT_EQ(buffer->bytes().size(), bytes);
      EXPECT_TRUE(IsAligned(buffer->bytes(), std::max(alignment, kVectorAlignment)));
      EXPECT_TRUE(AllZero(buffer->bytes()));
    }
  }
}

TEST(AlignedBuffer, IsViewedAsNumbers) {
  absl::StatusOr<AlignedBuffer> buffer = AlignedBuffer::Create(40);
  ASSERT_TRUE(buffer.ok());
  const std::span<float> floats = buffer->As<float>();
  ASSERT_EQ(floats.size(), 10u);
  floats[9] = 1.5f;
  EXPECT_EQ(std::as_const(*buffer).As<float>()[9], 1.5f);
}

TEST(BufferDeathTest, HalfANumberIsABug) {
  absl::StatusOr<AlignedBuffer> buffer = AlignedBuffer::Create(42);
  ASSERT_TRUE(buffer.ok());
  EXPECT_DEATH(buffer->As<float>(), "a whole number of what it is viewed as");
  EXPECT_DEATH(AlignedBuffer::Create(42, 48).IgnoreError(), "a power of two");
}

TEST(PageBuffer, IsWholePagesOfZeros) {
  const size_t page = PageBuffer::PageSize();
  for (const size_t bytes : {size_t{1}, page - 1, page, page + 1, 100 * page}) {
    absl::StatusOr<PageBuffer> buffer = PageBuffer::Create(bytes);
    ASSERT_TRUE(buffer.ok()) << buffer.status();
    EXPECT_EQ(buffer->bytes().size(), (bytes + page - 1) / page * page);
    EXPECT_TRUE(IsAligned(buffer->bytes(), page));
    EXPECT_TRUE(AllZero(buffer->bytes()));
    EXPECT_EQ(buffer->As<uint32_t>().size(), buffer->bytes().size() / 4);
  }
}

TEST(PageBuffer, OnlyWhatIsTouchedIsResident) {
  absl::StatusOr<PageBuffer> buffer = PageBuffer::Create(64 << 20);
  ASSERT_TRUE(buffer.ok()) << buffer.status();
  buffer->bytes().back() = std::byte{1};
  std::vector<unsigned char> pages(buffer->bytes().size() / PageBuffer::PageSize());
  ASSERT_EQ(mincore(buffer->bytes().data(), buffer->bytes().size(), pages.data()), 0);
  const auto resident =
      std::count_if(pages.begin(), pages.end(), [](unsigned char page) { return page & 1; });
  EXPECT_GE(resident, 1);
  EXPECT_LE(resident * PageBuffer::PageSize(), 4u << 20);  // one page, or one huge page
}

// Whether the page at `address` is mapped.
bool IsMapped(std::byte* address) {
  unsigned char resident;
  return mincore(address, 1, &resident) == 0 || errno != ENOMEM;
}

TEST(PageBuffer, GivesItsPagesBackWhenDestroyedOrReplaced) {
  absl::StatusOr<PageBuffer> first = PageBuffer::Create(1 << 20);
  absl::StatusOr<PageBuffer> second = PageBuffer::Create(1 << 20);
  ASSERT_TRUE(first.ok() && second.ok());
  std::byte* const first_page = first->bytes().data();
  std::byte* const second_page = second->bytes().data();
  EXPECT_TRUE(IsMapped(first_page));
  {
    PageBuffer owner = *std::move(first);
    EXPECT_EQ(owner.bytes().data(), first_page);
    owner = *std::move(second);
    EXPECT_FALSE(IsMapped(first_page));
    EXPECT_EQ(owner.bytes().data(), second_page);
  }
  EXPECT_FALSE(IsMapped(second_page));
}

TEST(PageBuffer, LargePagesAreAlignedAndZeroAndAllGivenBack) {
  const size_t page = PageBuffer::PageSize();
  for (const size_t bytes : {size_t{1}, PageBuffer::kLargePage - 1, PageBuffer::kLargePage,
                             3 * PageBuffer::kLargePage + 5 * page + 1}) {
    std::byte* begin = nullptr;
    size_t size = 0;
    {
      absl::StatusOr<PageBuffer> buffer = PageBuffer::CreateLarge(bytes);
      ASSERT_TRUE(buffer.ok()) << buffer.status();
      size = buffer->bytes().size();
      begin = buffer->bytes().data();
      EXPECT_EQ(size, RoundUp(bytes, page));
      EXPECT_TRUE(IsAligned(buffer->bytes(), PageBuffer::kLargePage));
      EXPECT_TRUE(AllZero(buffer->bytes()));
      std::ranges::fill(buffer->bytes(), std::byte{1});
    }
    for (size_t at = 0; at < size; at += page) EXPECT_FALSE(IsMapped(begin + at));
  }
}

TEST(AlignedBuffer, MovesLeaveAnEmptyBufferBehind) {
  absl::StatusOr<AlignedBuffer> buffer = AlignedBuffer::Create(100);
  ASSERT_TRUE(buffer.ok());
  const std::byte* const data = buffer->bytes().data();
  AlignedBuffer moved = *std::move(buffer);
  EXPECT_EQ(moved.bytes().data(), data);
  AlignedBuffer again;
  again = std::move(moved);
  EXPECT_EQ(again.bytes().data(), data);
  EXPECT_EQ(again.bytes().size(), 100u);
}

TEST(Buffer, NothingAskedForIsAnEmptyBuffer) {
  EXPECT_TRUE(AlignedBuffer::Create(0)->bytes().empty());
  EXPECT_TRUE(PageBuffer::Create(0)->bytes().empty());
  EXPECT_TRUE(AlignedBuffer().As<double>().empty());
}

TEST(Buffer, MoreThanTheMachineHasIsAnAnswer) {
  for (const size_t bytes : {SIZE_MAX, SIZE_MAX - 4095, SIZE_MAX / 2, size_t{1} << 60}) {
    const absl::Status refused =
        ResourceExhausted("the machine has no ", bytes, " bytes of memory to give");
    EXPECT_EQ(AlignedBuffer::Create(bytes).status(), refused);
    EXPECT_EQ(PageBuffer::Create(bytes).status(), refused);
  }
}

}  // namespace
}  // namespace outrider
