#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/formats/containers/gguf_file.h"
#include "gtest/gtest.h"
#include "tests/base/scratch_dir.h"
#include "tests/formats/gguf_bytes.h"

namespace outrider {
namespace {

using Type = GgufValueType;

// One shard with one tensor of 32 bytes, all of them the tensor's name's first letter.
std::string Shard(uint16_t number, uint16_t count, int32_t tensor_count, std::string_view tensor) {
  GgufBytes file;
  if (number == 0) file.keys.push_back(PackedKey("model", Type::kString, PackedString("split")));
  file.keys.push_back(PackedKey("split.no", Type::kUint16, Packed(number)));
  file.keys.push_back(PackedKey("split.count", Type::kUint16, Packed(count)));
  file.keys.push_back(PackedKey("split.tensors.count", Type::kInt32, Packed(tensor_count)));
  file.tensors = {PackedTensor(tensor, {8}, 0, 0)};
  file.data = std::string(32, tensor.front());
  return file.Encode();
}

class GgufSplit : public ::testing::Test {
 protected:
  GgufSplit() {
    scratch_.Write("m-00001-of-00003.gguf", Shard(0, 3, 3, "a"));
    scratch_.Write("m-00002-of-00003.gguf", Shard(1, 3, 3, "b"));
    scratch_.Write("m-00003-of-00003.gguf", Shard(2, 3, 3, "c"));
  }

  // The error of opening `name`, the directory's path replaced by D.
  std::string OpenError(std::string_view name) {
    const absl::StatusOr<GgufFile> file = GgufFile::Open(scratch_.File(name));
    if (file.ok()) return "no error";
    std::string message(Message(file.status()));
    for (size_t at; (at = message.find(scratch_.path())) != std::string::npos;) {
      message.replace(at, scratch_.path().size(), "D");
    }
    return message;
  }

  ScratchDir scratch_;
};

TEST_F(GgufSplit, ShardsLookLikeOneFile) {
  absl::StatusOr<GgufFile> opened = GgufFile::Open(scratch_.File("m-00001-of-00003.gguf"));
  ASSERT_TRUE(opened.ok()) << opened.status();
  const GgufFile file = *std::move(opened);
  EXPECT_EQ(file.shard_count(), 3u);
  EXPECT_EQ(*file.GetString("model"), "split");
  ASSERT_EQ(file.tensors().size(), 3u);
  uint32_t shard = 0;
  for (const std::string_view name : {"a", "b", "c"}) {
    const GgufTensor* tensor = file.FindTensor(name);
    ASSERT_NE(tensor, nullptr) << name;
    EXPECT_EQ(tensor->shard, shard);
    EXPECT_EQ(file.shard_path(shard), scratch_.File(Concat("m-0000", shard + 1, "-of-00003.gguf")));
    EXPECT_EQ((*file.ReadBytes(*tensor))[31], std::byte(name.front()));
    ++shard;
  }
  EXPECT_EQ(file.file_bytes(), Shard(0, 3, 3, "a").size() + 2 * Shard(1, 3, 3, "b").size());
}

TEST_F(GgufSplit, AnotherShardNamesTheFirst) {
  EXPECT_EQ(OpenError("m-00002-of-00003.gguf"),
            "D/m-00002-of-00003.gguf: is shard 2 of a model split into 3 files: open the first one "
            "instead, D/m-00001-of-00003.gguf");
  scratch_.Write("renamed.gguf", Shard(2, 3, 3, "c"));
  EXPECT_EQ(OpenError("renamed.gguf"),
            "D/renamed.gguf: is shard 3 of a model split into 3 files: open the first one instead, "
            "the one whose name ends in -00001-of-00003.gguf");
}

TEST_F(GgufSplit, AMissingShardIsNamed) {
  std::filesystem::remove(scratch_.File("m-00003-of-00003.gguf"));
  EXPECT_EQ(OpenError("m-00001-of-00003.gguf"),
            "D/m-00001-of-00003.gguf: its shard 3 of 3 is missing: D/m-00003-of-00003.gguf: cannot "
            "open: No such file or directory");
}

TEST_F(GgufSplit, ARenamedFirstShardCannotFindTheOthers) {
  scratch_.Write("renamed.gguf", Shard(0, 3, 3, "a"));
  EXPECT_EQ(OpenError("renamed.gguf"),
            "D/renamed.gguf: is the first of 3 shards, so its name must end in "
            "-00001-of-00003.gguf for the others to be found: give it back that name");
}

TEST_F(GgufSplit, ShardsAgreeOnTheirCounts) {
  scratch_.Write("m-00002-of-00003.gguf", Shard(2, 3, 3, "b"));
  EXPECT_EQ(OpenError("m-00001-of-00003.gguf"),
            "D/m-00002-of-00003.gguf: says it is shard 3 of 3, by its name it is 2 of 3");
  scratch_.Write("m-00002-of-00003.gguf", Shard(1, 4, 3, "b"));
  EXPECT_EQ(OpenError("m-00001-of-00003.gguf"),
            "D/m-00002-of-00003.gguf: says it is shard 2 of 4, by its name it is 2 of 3");
  scratch_.Write("m-00002-of-00003.gguf", GgufBytes{}.Encode());
  EXPECT_EQ(OpenError("m-00001-of-00003.gguf"), "D/m-00002-of-00003.gguf: has no key \"split.no\"");
  scratch_.Write("m-00002-of-00003.gguf", Shard(1, 3, 3, "b"));
  scratch_.Write("m-00001-of-00003.gguf", Shard(0, 3, 7, "a"));
  EXPECT_EQ(
      OpenError("m-00001-of-00003.gguf"),
      "D/m-00001-of-00003.gguf: announces 7 tensors, its 3 shards hold 3: they are not of one "
      "model");
}

TEST_F(GgufSplit, ATensorIsInOneShardOnly) {
  scratch_.Write("m-00003-of-00003.gguf", Shard(2, 3, 3, "a"));
  EXPECT_EQ(OpenError("m-00001-of-00003.gguf"),
            "D/m-00003-of-00003.gguf: tensor \"a\" is already in D/m-00001-of-00003.gguf");
}

TEST_F(GgufSplit, ADamagedShardIsNamed) {
  scratch_.Write("m-00003-of-00003.gguf", "GGUF");
  EXPECT_EQ(
      OpenError("m-00001-of-00003.gguf"),
      "D/m-00003-of-00003.gguf: is 4 bytes long, a GGUF header has 24: it is cut short, fetch "
      "it again");
}

TEST_F(GgufSplit, OneShardOfOneIsAnOrdinaryFile) {
  scratch_.Write("any-name.gguf", Shard(0, 1, 1, "a"));
  EXPECT_EQ(OpenError("any-name.gguf"), "no error");
}

TEST_F(GgufSplit, MemoryHoldsNoSiblings) {
  const std::string bytes = Shard(0, 3, 3, "a");
  EXPECT_EQ(Message(GgufFile::Parse(AsBytes(bytes), "m.gguf").status()),
            "m.gguf: is one of the 3 files of a split model, which can only be opened by path");
}

}  // namespace
}  // namespace outrider
