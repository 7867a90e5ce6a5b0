// Over folders that look as the kernel's do, of both versions of control groups.
#include "common/base/group_limit.h"

#include <filesystem>
#include <fstream>
#include <string>

#include "gtest/gtest.h"
#include "tests/base/scratch_dir.h"

namespace outrider {
namespace {

class GroupLimitTest : public testing::Test {
 protected:
  void Put(const std::string& path, const std::string& text) {
    const std::filesystem::path whole = root_ + "/" + path;
    std::filesystem::create_directories(whole.parent_path());
    std::ofstream(whole) << text << "\n";
  }
  std::optional<uint64_t> Limit(const std::string& groups) {
    std::ofstream(groups_) << groups;
    return MemoryLimitOfGroup(root_, groups_);
  }

  const ScratchDir dir_;
  const std::string root_ = dir_.File("cgroup");
  const std::string groups_ = dir_.File("groups");
};

TEST_F(GroupLimitTest, IsTheLeastOfAGroupAndThoseAboveIt) {
  EXPECT_FALSE(Limit("0::/a/b\n").has_value());
  Put("a/b/memory.max", "max");
  EXPECT_FALSE(Limit("0::/a/b\n").has_value());
  Put("a/b/memory.max", "900000000");
  EXPECT_EQ(Limit("0::/a/b\n"), 900000000u);
  Put("a/b/memory.high", "800000000");
  EXPECT_EQ(Limit("0::/a/b\n"), 800000000u);
  Put("a/memory.max", "700000000");
  EXPECT_EQ(Limit("0::/a/b\n"), 700000000u);
  EXPECT_EQ(Limit("0::/a\n"), 700000000u);
  Put("memory.max", "600000000");  // as a container sees its own
  EXPECT_EQ(Limit("0::/a/b\n"), 600000000u);
  EXPECT_EQ(Limit("0::/\n"), 600000000u);
}

TEST_F(GroupLimitTest, OfTheFirstVersionThatOfMemory) {
  Put("memory/a/memory.limit_in_bytes", "9223372036854771712");
  EXPECT_FALSE(Limit("5:cpu:/c\n4:memory:/a\n0::/\n").has_value());
  Put("memory/a/memory.limit_in_bytes", "500000000");
  Put("cpu/c/memory.limit_in_bytes", "1");
  EXPECT_EQ(Limit("5:cpu:/c\n4:memory:/a\n0::/\n"), 500000000u);
}

}  // namespace
}  // namespace outrider
