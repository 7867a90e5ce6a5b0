#include "bench/simulator/world/frames.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace outrider {
namespace {

using ::testing::ElementsAre;

TEST(Frames, HaveTheHeaderThatGrpcWrites) {
  EXPECT_EQ(FrameOf(FrameKind::kMessage, "abc"), std::string("\0\0\0\0\3abc", 8));
  EXPECT_EQ(FrameOf(FrameKind::kMessage, std::string(70000, 'x')).substr(0, 5),
            std::string("\0\0\1\x11\x70", 5));
}

TEST(Frames, ComeOutWholeHoweverTheBytesArrive) {
  const std::string bytes = FrameOf(FrameKind::kMessage, "one") + FrameOf(FrameKind::kMessage, "") +
                            FrameOf(FrameKind::kMessage, std::string(1000, 'x'));
  for (const size_t piece : {1, 2, 5, 7, 100, 5000}) {
    FrameReader reader;
    std::vector<std::string> contents;
    for (size_t begin = 0; begin < bytes.size(); begin += piece) {
      reader.Add(std::string_view(bytes).substr(begin, piece));
      while (const std::optional<Frame> frame = reader.Next()) {
        contents.emplace_back(frame->content);
      }
    }
    EXPECT_THAT(contents, ElementsAre("one", "", std::string(1000, 'x'))) << piece;
  }
}

TEST(Frames, CarryAStatus) {
  FrameReader reader;
  reader.Add(FrameOf(absl::UnavailableError("come again")));
  const std::optional<Frame> frame = reader.Next();
  ASSERT_TRUE(frame.has_value());
  EXPECT_EQ(StatusIn(*frame), absl::UnavailableError("come again"));
}

}  // namespace
}  // namespace outrider
