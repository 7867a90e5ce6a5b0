#include "common/formats/containers/gguf_writer.h"

#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/formats/containers/gguf_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/base/scratch_dir.h"
#include "tests/formats/gguf_bytes.h"

namespace outrider {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Dims = std::vector<uint64_t>;
using Type = GgufValueType;

// A path with the scratch directory left out, and the same for a message.
class GgufWriterTest : public ::testing::Test {
 protected:
  std::string MessageOf(const absl::Status& status) const {
    std::string message(Message(status));
    const size_t at = message.find(path_);
    if (at != std::string::npos) message.replace(at, path_.size(), "out.gguf");
    return message;
  }

  GgufFile Reopen() const {
    absl::StatusOr<GgufFile> file = GgufFile::Open(path_);
    EXPECT_TRUE(file.ok()) << file.status();
    return *std::move(file);
  }

  ScratchDir scratch_;
  const std::string path_ = scratch_.File("out.gguf");
};

// Keys k0, k1, ...: each value type that a file can hold, as its extremes.
std::vector<std::string> EveryKindOfValue() {
  std::vector<std::string> keys;
  const auto add = [&keys](Type type, const std::string& payload) {
    keys.push_back(PackedKey(Concat("k", keys.size()), type, payload));
  };
  const auto add_numbers = [&add]<typename T>(Type type, std::initializer_list<T> numbers) {
    std::string elements;
    for (const T number : numbers) add(type, Packed(number)), elements += Packed(number);
    add(Type::kArray, PackedArray(type, numbers.size(), elements));
    add(Type::kArray, PackedArray(type, 0, ""));
  };
  const auto add_extremes = [&add_numbers]<typename T>(Type type, T) {
    add_numbers(type,
                {std::numeric_limits<T>::lowest(), T{0}, T{1}, std::numeric_limits<T>::max()});
  };
  add_extremes(Type::kUint8, uint8_t{});
  add_extremes(Type::kInt8, int8_t{});
  add_extremes(Type::kUint16, uint16_t{});
  add_extremes(Type::kInt16, int16_t{});
  add_extremes(Type::kUint32, uint32_t{});
  add_extremes(Type::kInt32, int32_t{});
  add_extremes(Type::kUint64, uint64_t{});
  add_extremes(Type::kInt64, int64_t{});
  add_extremes(Type::kFloat32, float{});
  add_extremes(Type::kFloat64, double{});
  add_numbers(Type::kFloat32, {std::numeric_limits<float>::infinity(), -0.0f, 1e-45f});
  add_numbers(Type::kFloat64, {std::numeric_limits<double>::quiet_NaN(), -0.0, 5e-324});
  add_numbers(Type::kBool, {uint8_t{0}, uint8_t{1}});
  add(Type::kString, PackedString(""));
  add(Type::kString, PackedString(std::string_view("nul \0 and \xff", 11)));
  add(Type::kArray, PackedArray(Type::kString, 2, PackedString("") + PackedString("two")));
  add(Type::kArray, PackedArray(Type::kString, 0, ""));
  return keys;
}

TEST_F(GgufWriterTest, ACopyOfEveryValueIsTheSameBytes) {
  const std::string original = GgufBytes{.keys = EveryKindOfValue(),
                                         .tensors = {PackedTensor("t", {8}, 0, 0)},
                                         .data = std::string(32, 'd')}
                                   .Encode();
  const absl::StatusOr<GgufFile> file = GgufFile::Parse(AsBytes(original), "original");
  ASSERT_TRUE(file.ok()) << file.status();
  GgufWriter writer;
  for (const GgufKeyValue& entry : file->metadata()) writer.AddCopy(entry.key, entry.value);
  for (const GgufTensor& tensor : file->tensors()) {
    ASSERT_TRUE(writer.AddTensor(tensor.name, tensor.type, tensor.dims).ok());
  }
  ASSERT_TRUE(writer.Begin(path_).ok());
  ASSERT_TRUE(writer.Write(*file->ReadBytes(file->tensors()[0])).ok());
  ASSERT_TRUE(writer.Commit().ok());
  EXPECT_EQ(Contents(path_), original);
}

TEST_F(GgufWriterTest, WhatIsAddedReadsBack) {
  GgufWriter writer;
  writer.AddUint32("u32", 7);
  writer.AddUint64("u64", uint64_t{1} << 63);
  writer.AddFloat32("f32", 1e-5f);
  writer.AddBool("yes", true);
  writer.AddBool("no", false);
  writer.AddString("string", "text");
  writer.AddStrings("strings", std::vector<std::string>{"a", "", "bc"});
  writer.AddUint32s("u32s", std::vector<uint32_t>{1, 2});
  writer.AddInt32s("i32s", std::vector<int32_t>{-1, 2});
  writer.AddFloat32s("f32s", std::vector<float>{0.5f});
  writer.AddFloat32s("empty", {});
  writer.AddBytes("bytes", std::string_view("\0\xff", 2));
  ASSERT_TRUE(writer.Begin(path_).ok());
  ASSERT_TRUE(writer.Commit().ok());

  const GgufFile file = Reopen();
  EXPECT_EQ(file.version(), 3u);
  EXPECT_EQ(*file.GetUint("u32"), 7u);
  EXPECT_EQ(file.Find("u64")->type, Type::kUint64);
  EXPECT_EQ(*file.GetUint("u64"), uint64_t{1} << 63);
  EXPECT_EQ(*file.GetFloat("f32"), 1e-5f);
  EXPECT_EQ(*file.GetBool("yes"), true);
  EXPECT_EQ(*file.GetBool("no"), false);
  EXPECT_EQ(*file.GetString("string"), "text");
  EXPECT_THAT(*file.GetStrings("strings"), ElementsAre("a", "", "bc"));
  EXPECT_THAT(*file.GetUints("u32s"), ElementsAre(1, 2));
  EXPECT_THAT(*file.GetInts("i32s"), ElementsAre(-1, 2));
  EXPECT_THAT(*file.GetFloats("f32s"), ElementsAre(0.5f));
  EXPECT_THAT(*file.GetFloats("empty"), IsEmpty());
  EXPECT_THAT(*file.GetUints("bytes"), ElementsAre(0, 255));
  EXPECT_EQ(file.metadata().front().key, "u32");
  EXPECT_EQ(file.metadata().back().key, "bytes");
}

TEST_F(GgufWriterTest, SettingAKeyAgainReplacesItsValueInPlace) {
  GgufWriter writer;
  writer.AddUint32("a", 1);
  writer.AddUint32("b", 2);
  writer.AddString("a", "one");
  ASSERT_TRUE(writer.Begin(path_).ok());
  ASSERT_TRUE(writer.Commit().ok());
  const GgufFile file = Reopen();
  ASSERT_EQ(file.metadata().size(), 2u);
  EXPECT_EQ(file.metadata()[0].key, "a");
  EXPECT_EQ(*file.GetString("a"), "one");
}

TEST_F(GgufWriterTest, TheLayoutIsTheWritersOwn) {
  GgufWriter writer(4096);
  writer.AddUint32("general.alignment", 64);
  writer.AddUint32("split.count", 3);
  ASSERT_TRUE(writer.Begin(path_).ok());
  ASSERT_TRUE(writer.Commit().ok());
  const GgufFile file = Reopen();
  EXPECT_EQ(file.alignment(), 4096u);
  EXPECT_EQ(file.Find("split.count"), nullptr);
}

// The law llama.cpp holds files to: each tensor begins where the one before it, padded, ends.
TEST_F(GgufWriterTest, TensorsFollowEachOtherInOrderAndAligned) {
  for (const uint64_t alignment : {8u, 32u, 4096u, 16384u}) {
    const std::vector<Dims> shapes = {{1}, {32, 3}, {5, 1, 7}, {8}};
    GgufWriter writer(alignment);
    std::string bytes;
    for (size_t i = 0; i < shapes.size(); ++i) {
      const std::string name = Concat("tensor.", i);
      ASSERT_TRUE(writer.AddTensor(name, TensorType::kF32, shapes[i]).ok());
      bytes += std::string(*TensorBytes(TensorType::kF32, shapes[i]), static_cast<char>('a' + i));
    }
    ASSERT_TRUE(writer.Begin(path_).ok());
    // Chunks of seven bytes: they end inside tensors and reach over their ends.
    for (size_t at = 0; at < bytes.size(); at += 7) {
      ASSERT_TRUE(writer.Write(AsBytes(std::string_view(bytes).substr(at, 7))).ok());
    }
    ASSERT_TRUE(writer.Commit().ok());

    const GgufFile file = Reopen();
    EXPECT_EQ(file.alignment(), alignment);
    ASSERT_EQ(file.tensors().size(), shapes.size());
    uint64_t offset = file.tensors()[0].offset;
    EXPECT_EQ(offset % alignment, 0u);
    for (size_t i = 0; i < shapes.size(); ++i) {
      const GgufTensor& tensor = file.tensors()[i];
      EXPECT_EQ(tensor.name, Concat("tensor.", i));
      EXPECT_EQ(tensor.dims, shapes[i]);
      EXPECT_EQ(tensor.offset, offset);
      offset += AlignUp(tensor.bytes, alignment);
      EXPECT_EQ(*file.ReadBytes(tensor), std::vector<std::byte>(tensor.bytes, std::byte('a' + i)));
    }
    EXPECT_EQ(file.file_bytes(), offset);
  }
}

TEST_F(GgufWriterTest, PanelsReadBackAsPanels) {
  const Dims dims = {32, 17, 2};
  GgufWriter writer;
  ASSERT_TRUE(writer.AddTensor("p", TensorType::kQ8_0, dims, WeightLayout::kPanels).ok());
  EXPECT_EQ(MessageOf(writer.AddTensor("v", TensorType::kF32, Dims{8}, WeightLayout::kPanels)),
            "tensor \"v\" is a vector, which has no panels");
  const uint64_t bytes = *StoredBytes(WeightLayout::kPanels, TensorType::kQ8_0, dims);
  ASSERT_TRUE(writer.Begin(path_).ok());
  ASSERT_TRUE(writer.Write(std::vector<std::byte>(bytes)).ok());
  ASSERT_TRUE(writer.Commit().ok());

  const GgufFile file = Reopen();
  const GgufTensor& tensor = *file.FindTensor("p");
  EXPECT_EQ(tensor.type, TensorType::kQ8_0);
  EXPECT_EQ(tensor.layout, WeightLayout::kPanels);
  EXPECT_EQ(tensor.dims, dims);
  EXPECT_EQ(tensor.bytes, bytes);
  // Whoever wants rows does not get panels for them.
  EXPECT_EQ(MessageOf(file.ReadBytes(tensor).status()),
            "out.gguf: tensor \"p\" lies in panels, as only the weights of a model may");
}

TEST_F(GgufWriterTest, TensorsThatFitNoFileAreRefused) {
  GgufWriter writer;
  const Dims dims = {8};
  const uint64_t huge = uint64_t{1} << 61;
  EXPECT_TRUE(writer.AddTensor(std::string(63, 'n'), TensorType::kF32, dims).ok());
  EXPECT_EQ(
      MessageOf(writer.AddTensor(std::string(64, 'n'), TensorType::kF32, dims)),
      Concat("tensor \"", std::string(64, 'n'), "\" has a name of 64 bytes, expected 1 to 63"));
  EXPECT_EQ(MessageOf(writer.AddTensor("", TensorType::kF32, dims)),
            "tensor \"\" has a name of 0 bytes, expected 1 to 63");
  EXPECT_EQ(MessageOf(writer.AddTensor(std::string(63, 'n'), TensorType::kF32, dims)),
            Concat("tensor \"", std::string(63, 'n'), "\" is added twice"));
  EXPECT_EQ(MessageOf(writer.AddTensor("q", TensorType::kQ4_0, dims)),
            "tensor \"q\" has rows of 8 elements, Q4_0 needs a multiple of 32");
  EXPECT_TRUE(writer.AddTensor("big", TensorType::kI8, Dims{huge}).ok());
  EXPECT_EQ(MessageOf(writer.AddTensor("bigger", TensorType::kI8, Dims{huge})),
            "tensor \"bigger\" makes the file larger than any can be");
}

TEST_F(GgufWriterTest, KeysNoReaderTakesAreRefused) {
  GgufWriter writer;
  writer.AddBool("", true);
  writer.AddBool(std::string(65536, 'k'), true);
  EXPECT_EQ(MessageOf(writer.Begin(path_)),
            "out.gguf: key \"\" has a name of 0 bytes, expected 1 to 65535");
  EXPECT_THAT(scratch_.Names(), IsEmpty());
}

TEST_F(GgufWriterTest, TooFewBytesAreNotCommitted) {
  GgufWriter writer;
  ASSERT_TRUE(writer.AddTensor("a", TensorType::kF32, Dims{8}).ok());
  ASSERT_TRUE(writer.AddTensor("b", TensorType::kF32, Dims{8}).ok());
  ASSERT_TRUE(writer.Begin(path_).ok());
  ASSERT_TRUE(writer.Write(AsBytes(std::string(40, 'x'))).ok());
  EXPECT_EQ(MessageOf(writer.Commit()), "out.gguf: tensor \"b\" was given 8 of its 32 bytes");
  EXPECT_FALSE(scratch_.Names().contains("out.gguf"));
}

TEST_F(GgufWriterTest, TooManyBytesAreNotTaken) {
  GgufWriter writer;
  ASSERT_TRUE(writer.AddTensor("a", TensorType::kF32, Dims{8}).ok());
  ASSERT_TRUE(writer.Begin(path_).ok());
  EXPECT_EQ(MessageOf(writer.Write(AsBytes(std::string(40, 'x')))),
            "out.gguf: was given 8 bytes beyond those of its 1 tensors");
}

TEST_F(GgufWriterTest, WithoutCommitThereIsNoFile) {
  scratch_.Write("out.gguf", "the old one");
  {
    GgufWriter writer;
    ASSERT_TRUE(writer.Begin(path_).ok());
    EXPECT_EQ(scratch_.Names().size(), 2u);  // the old file, and the new one's beginning
  }
  EXPECT_EQ(Contents(path_), "the old one");
  EXPECT_EQ(scratch_.Names().size(), 1u);
}

}  // namespace
}  // namespace outrider
