#include "common/formats/containers/gguf_file.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/formats/gguf_bytes.h"

namespace outrider {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Type = GgufValueType;

constexpr uint32_t kF32 = 0;
constexpr uint32_t kQ8_0 = 8;

// Two tensors whose bytes end where the file ends, and a value of every type.
GgufBytes SmallFile() {
  return {
      .keys =
          {
              PackedKey("u8", Type::kUint8, Packed<uint8_t>(200)),
              PackedKey("i8", Type::kInt8, Packed<int8_t>(-100)),
              PackedKey("u16", Type::kUint16, Packed<uint16_t>(60000)),
              PackedKey("i16", Type::kInt16, Packed<int16_t>(-30000)),
              PackedKey("u32", Type::kUint32, Packed<uint32_t>(4000000000)),
              PackedKey("i32", Type::kInt32, Packed<int32_t>(-2000000000)),
              PackedKey("f32", Type::kFloat32, Packed<float>(0.1f)),
              PackedKey("bool", Type::kBool, Packed<uint8_t>(1)),
              PackedKey("string", Type::kString, PackedString("hello")),
              PackedKey("u64", Type::kUint64, Packed<uint64_t>(~uint64_t{0})),
              PackedKey("i64", Type::kInt64, Packed<int64_t>(INT64_MIN)),
              PackedKey("f64", Type::kFloat64, Packed<double>(1e300)),
              PackedKey("strings", Type::kArray,
                        PackedArray(Type::kString, 3,
                                    PackedString("a") + PackedString("") + PackedString("bc"))),
              PackedKey("u16s", Type::kArray,
                        PackedArray(Type::kUint16, 2, Packed<uint16_t>(1) + Packed<uint16_t>(2))),
              PackedKey("i8s", Type::kArray, PackedArray(Type::kInt8, 2, "\x01\xff")),
              PackedKey("f32s", Type::kArray,
                        PackedArray(Type::kFloat32, 2, Packed(0.5f) + Packed(-2.0f))),
              PackedKey("bools", Type::kArray, PackedArray(Type::kBool, 1, "\x01")),
              PackedKey("none", Type::kArray, PackedArray(Type::kFloat64, 0, "")),
          },
      .tensors =
          {
              PackedTensor("plain", {3, 2}, kF32, 0),
              PackedTensor("blocks", {32, 1, 2}, kQ8_0, 32),
          },
      .data = std::string(24, 'p') + std::string(8, '\0') + std::string(68, 'b'),
  };
}

std::string ErrorOf(std::string_view bytes) {
  const absl::StatusOr<GgufFile> file = GgufFile::Parse(AsBytes(bytes), "m.gguf");
  return file.ok() ? "no error" : std::string(Message(file.status()));
}

TEST(GgufFile, EveryValueReadsBackAsItsKind) {
  const std::string bytes = SmallFile().Encode();
  const absl::StatusOr<GgufFile> file = GgufFile::Parse(AsBytes(bytes), "m.gguf");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->version(), 3u);
  EXPECT_EQ(file->alignment(), 32u);
  EXPECT_EQ(file->metadata().size(), 18u);
  EXPECT_EQ(file->metadata()[8].key, "string");
  EXPECT_EQ(*file->GetUint("u8"), 200u);
  EXPECT_EQ(*file->GetUint("u16"), 60000u);
  EXPECT_EQ(*file->GetUint("u32"), 4000000000u);
  EXPECT_EQ(*file->GetUint("u64"), ~uint64_t{0});
  EXPECT_EQ(std::get<int64_t>(file->Find("i8")->data), -100);
  EXPECT_EQ(std::get<int64_t>(file->Find("i16")->data), -30000);
  EXPECT_EQ(std::get<int64_t>(file->Find("i32")->data), -2000000000);
  EXPECT_EQ(std::get<int64_t>(file->Find("i64")->data), INT64_MIN);
  EXPECT_EQ(*file->GetFloat("f32"), 0.1f);
  EXPECT_EQ(*file->GetFloat("f64"), 1e300);
  EXPECT_EQ(*file->GetFloat("i8"), -100.0);
  EXPECT_EQ(*file->GetFloat("u8"), 200.0);
  EXPECT_EQ(*file->GetBool("bool"), true);
  EXPECT_EQ(*file->GetString("string"), "hello");
  EXPECT_THAT(*file->GetStrings("strings"), ElementsAre("a", "", "bc"));
  EXPECT_THAT(*file->GetUints("u16s"), ElementsAre(1, 2));
  EXPECT_THAT(*file->GetInts("u16s"), ElementsAre(1, 2));
  EXPECT_THAT(*file->GetInts("i8s"), ElementsAre(1, -1));
  EXPECT_THAT(*file->GetFloats("i8s"), ElementsAre(1.0f, -1.0f));
  EXPECT_THAT(*file->GetFloats("f32s"), ElementsAre(0.5f, -2.0f));
  EXPECT_THAT(*file->GetFloats("none"), IsEmpty());
}

TEST(GgufFile, TensorsLieWhereTheFileSays) {
  const std::string bytes = SmallFile().Encode();
  const absl::StatusOr<GgufFile> file = GgufFile::Parse(AsBytes(bytes), "m.gguf");
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_EQ(file->tensors().size(), 2u);
  const GgufTensor* blocks = file->FindTensor("blocks");
  ASSERT_NE(blocks, nullptr);
  EXPECT_EQ(blocks->type, TensorType::kQ8_0);
  EXPECT_THAT(blocks->dims, ElementsAre(32, 1, 2));
  EXPECT_EQ(blocks->bytes, 68u);
  EXPECT_EQ(blocks->offset, bytes.size() - 68);
  EXPECT_EQ(file->ReadBytes(*blocks)->size(), 68u);
  EXPECT_EQ(file->ReadBytes(*blocks)->front(), std::byte{'b'});
  EXPECT_EQ(file->ReadBytes(file->tensors()[0])->back(), std::byte{'p'});
  EXPECT_EQ(file->FindTensor("absent"), nullptr);
  EXPECT_EQ(file->file_bytes(), bytes.size());
}

TEST(GgufFile, AskingForAnotherKindIsASentence) {
  const std::string bytes = SmallFile().Encode();
  const absl::StatusOr<GgufFile> parsed = GgufFile::Parse(AsBytes(bytes), "m.gguf");
  ASSERT_TRUE(parsed.ok());
  const GgufFile& file = *parsed;
  EXPECT_EQ(file.GetUint("absent").status(), NotFound("m.gguf: has no key \"absent\""));
  EXPECT_EQ(Message(file.GetUint("i8").status()),
            "m.gguf: key \"i8\" is -100, it must not be negative");
  EXPECT_EQ(Message(file.GetUint("f32").status()),
            "m.gguf: key \"f32\" is of type f32, an integer is needed");
  EXPECT_EQ(Message(file.GetFloat("string").status()),
            "m.gguf: key \"string\" is of type string, a number is needed");
  EXPECT_EQ(Message(file.GetBool("u8").status()),
            "m.gguf: key \"u8\" is of type u8, a bool is needed");
  EXPECT_EQ(Message(file.GetString("strings").status()),
            "m.gguf: key \"strings\" is of type array, a string is needed");
  EXPECT_EQ(Message(file.GetStrings("string").status()),
            "m.gguf: key \"string\" is of type string, an array is needed");
  EXPECT_EQ(Message(file.GetStrings("i8s").status()),
            "m.gguf: key \"i8s\" is an array of i8, an array of strings is needed");
  EXPECT_EQ(Message(file.GetUints("strings").status()),
            "m.gguf: key \"strings\" is an array of strings, an array of numbers is needed");
  EXPECT_EQ(Message(file.GetUints("i8s").status()),
            "m.gguf: key \"i8s\" element 1 is -1, it must not be negative");
  EXPECT_EQ(Message(file.GetFloats("bools").status()),
            "m.gguf: key \"bools\" element 0 is of type bool, a number is needed");
}

TEST(GgufFile, NumbersThatDoNotFitAreRefusedNotBent) {
  const std::string bytes =
      GgufBytes{
          .keys = {PackedKey("f64s", Type::kArray, PackedArray(Type::kFloat64, 1, Packed(1e300))),
                   PackedKey("u64s", Type::kArray,
                             PackedArray(Type::kUint64, 1, Packed(~uint64_t{0}))),
                   PackedKey("odd", Type::kArray,
                             PackedArray(Type::kFloat64, 2,
                                         Packed<double>(NAN) + Packed<double>(-INFINITY)))}}
          .Encode();
  const absl::StatusOr<GgufFile> file = GgufFile::Parse(AsBytes(bytes), "m.gguf");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(Message(file->GetFloats("f64s").status()),
            "m.gguf: key \"f64s\" element 0 is 1e+300, which is too large for a 32-bit float");
  EXPECT_EQ(Message(file->GetInts("u64s").status()),
            "m.gguf: key \"u64s\" element 0 is 18446744073709551615, it must be at most "
            "9223372036854775807");
  const std::vector<float> odd = *file->GetFloats("odd");
  EXPECT_TRUE(std::isnan(odd[0]));
  EXPECT_EQ(odd[1], -INFINITY);
}

TEST(GgufFile, Version2ReadsAsVersion3Does) {
  GgufBytes file = SmallFile();
  file.version = 2;
  const std::string bytes = file.Encode();
  const absl::StatusOr<GgufFile> parsed = GgufFile::Parse(AsBytes(bytes), "m.gguf");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->version(), 2u);
  EXPECT_EQ(parsed->tensors().size(), 2u);
}

TEST(GgufFile, GapsAndAnyOrderAreFine) {
  const GgufBytes file = {
      .tensors = {PackedTensor("b", {8}, kF32, 96), PackedTensor("a", {8}, kF32, 32)},
      .data = std::string(128, 'x')};
  EXPECT_EQ(ErrorOf(file.Encode()), "no error");
}

TEST(GgufFile, WithoutTensorsNoDataSectionIsNeeded) {
  GgufBytes file = {.keys = {PackedKey("k", Type::kUint8, "\x01")}, .alignment = 1};
  EXPECT_EQ(ErrorOf(file.Encode()), "no error");
}

void ExpectErrorWhereverCut(const std::string& bytes) {
  ASSERT_EQ(ErrorOf(bytes), "no error");
  for (size_t size = 0; size < bytes.size(); ++size) {
    const std::vector<char> cut(bytes.data(), bytes.data() + size);  // exactly: asan sees overreads
    EXPECT_THAT(ErrorOf({cut.data(), cut.size()}), testing::StartsWith("m.gguf: "))
        << "cut to " << size << " bytes";
  }
}

TEST(GgufFile, EveryTruncationIsAnError) {
  ExpectErrorWhereverCut(SmallFile().Encode());
}

TEST(GgufFile, EveryTruncationOfMetadataAloneIsAnError) {
  for (const std::string& key : SmallFile().keys) {
    ExpectErrorWhereverCut(GgufBytes{.keys = {key}, .alignment = 1}.Encode());
  }
}

// Whatever one flipped bit makes of the file, reading all of it again stays inside it.
TEST(GgufFile, NoFlippedBitLeadsAstray) {
  const std::string bytes = SmallFile().Encode();
  size_t still_fine = 0;
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    std::string flipped = bytes;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    const absl::StatusOr<GgufFile> file = GgufFile::Parse(AsBytes(flipped), "m.gguf");
    if (!file.ok()) {
      EXPECT_THAT(std::string(Message(file.status())), testing::StartsWith("m.gguf: "));
      continue;
    }
    ++still_fine;
    for (const GgufKeyValue& entry : file->metadata()) {
      (void)file->GetStrings(entry.key);
      (void)file->GetInts(entry.key);
      (void)file->GetFloats(entry.key);
    }
    for (const GgufTensor& tensor : file->tensors()) {
      EXPECT_EQ(file->ReadBytes(tensor)->size(), tensor.bytes);
    }
  }
  EXPECT_GT(still_fine, 0u);  // flips in values and tensor bytes are none of the reader's business
}

}  // namespace
}  // namespace outrider
