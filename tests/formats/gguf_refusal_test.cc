// What the GGUF reader says no to, and in which words.
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/formats/containers/gguf_file.h"
#include "common/formats/containers/gguf_format.h"
#include "gtest/gtest.h"
#include "tests/formats/gguf_bytes.h"

namespace outrider {
namespace {

using Type = GgufValueType;

constexpr uint32_t kF32 = 0;
constexpr uint32_t kQ4_0 = 2;

std::string ErrorOf(std::string_view bytes) {
  const absl::StatusOr<GgufFile> file = GgufFile::Parse(AsBytes(bytes), "m.gguf");
  return file.ok() ? "no error" : std::string(Message(file.status()));
}

std::string ErrorOfKeys(std::vector<std::string> keys) {
  return ErrorOf(GgufBytes{.keys = std::move(keys)}.Encode());
}

// The error for tensors before `data_bytes` of data.
std::string ErrorOfTensors(std::vector<std::string> tensors, size_t data_bytes) {
  return ErrorOf(
      GgufBytes{.tensors = std::move(tensors), .data = std::string(data_bytes, 'x')}.Encode());
}

std::string ErrorOfAlignment(uint32_t alignment) {
  return ErrorOfKeys({PackedKey("general.alignment", Type::kUint32, Packed(alignment))});
}

TEST(GgufRefuses, WhatIsNotGguf) {
  EXPECT_EQ(ErrorOf(""), "m.gguf: is not a GGUF file: it begins with \"\" instead of \"GGUF\"");
  EXPECT_EQ(ErrorOf("version https://git-lfs.github.com/spec/v1"),
            "m.gguf: is not a GGUF file: it begins with \"vers\" instead of \"GGUF\"");
  EXPECT_EQ(ErrorOf("GGUF\x03"),
            "m.gguf: is 5 bytes long, a GGUF header has 24: it is cut short, fetch it again");
}

TEST(GgufRefuses, OtherVersions) {
  EXPECT_EQ(ErrorOf(GgufBytes{.version = 1}.Encode()),
            "m.gguf: is GGUF version 1, which nothing reads any more: convert the original model "
            "again");
  EXPECT_EQ(ErrorOf(GgufBytes{.version = 4}.Encode()),
            "m.gguf: is GGUF version 4, only 2 and 3 are read");
  EXPECT_EQ(ErrorOf(GgufBytes{.version = 0}.Encode()),
            "m.gguf: is GGUF version 0, only 2 and 3 are read");
}

TEST(GgufRefuses, TheWrongEndianness) {
  EXPECT_EQ(ErrorOf(GgufBytes{.version = 0x03000000}.Encode()),
            "m.gguf: is a big-endian GGUF file, only little-endian ones are read: turn it round "
            "with gguf-convert-endian from the Python package gguf");
}

TEST(GgufRefuses, AbsurdCounts) {
  EXPECT_EQ(ErrorOf(GgufBytes{.claimed_keys = ~uint64_t{0}}.Encode()),
            "m.gguf: claims 18446744073709551615 metadata keys, more than its 32 bytes can hold or "
            "any model has: it is damaged");
  EXPECT_EQ(ErrorOf(GgufBytes{.claimed_tensors = uint64_t{1} << 40}.Encode()),
            "m.gguf: claims 1099511627776 tensors, more than its 32 bytes can hold or any model "
            "has: it is damaged");
  const std::string room(uint64_t{4} << 20, '\0');
  EXPECT_EQ(ErrorOf(GgufBytes{.data = room, .claimed_keys = 65537}.Encode()),
            "m.gguf: claims 65537 metadata keys, more than its 4194336 bytes can hold or any model "
            "has: it is damaged");
  EXPECT_EQ(ErrorOf(GgufBytes{.data = "", .claimed_keys = 1}.Encode()),
            "m.gguf: claims 1 metadata keys, more than its 32 bytes can hold or any model has: it "
            "is damaged");
}

TEST(GgufRefuses, AbsurdLengths) {
  EXPECT_EQ(ErrorOfKeys({Packed<uint64_t>(100) + "shortened"}),
            "m.gguf: key 1 of 1 needs 100 bytes at byte 32, the file has 32 left: it is cut short "
            "or damaged, fetch it again");
  EXPECT_EQ(ErrorOfKeys({PackedKey("k", Type::kString, Packed(~uint64_t{0}))}),
            "m.gguf: key \"k\" holds a string of 18446744073709551615 bytes, at most 1073741824 "
            "are allowed: the file is damaged, fetch it again");
  EXPECT_EQ(ErrorOfKeys({PackedKey("k", Type::kArray,
                                   PackedArray(Type::kFloat64, (uint64_t{1} << 61) + 1, ""))}),
            "m.gguf: key \"k\" claims 2305843009213693953 elements, at most 1073741824 are "
            "allowed: the file is damaged, fetch it again");
  EXPECT_EQ(ErrorOfKeys(
                {PackedKey("k", Type::kArray, PackedArray(Type::kFloat64, uint64_t{1} << 30, ""))}),
            "m.gguf: key \"k\" needs 8589934592 bytes at byte 49, the file has 15 left: it is cut "
            "short or damaged, fetch it again");
  EXPECT_EQ(ErrorOfKeys(
                {PackedKey("k", Type::kArray, PackedArray(Type::kString, 2, PackedString("one")))}),
            "m.gguf: key \"k\" needs 8 bytes at byte 60, the file has 4 left: it is cut short or "
            "damaged, fetch it again");
}

TEST(GgufRefuses, BadKeys) {
  const std::string value = "\x01";
  EXPECT_EQ(ErrorOfKeys({PackedKey("k", Type::kUint8, value), PackedKey("k", Type::kUint8, value)}),
            "m.gguf: key \"k\" appears twice");
  EXPECT_EQ(ErrorOfKeys({PackedKey("", Type::kUint32, Packed(1))}),
            "m.gguf: key 1 of 1 has an empty name");
  EXPECT_EQ(ErrorOfKeys({PackedKey(std::string(65535, 'k'), Type::kUint8, value)}), "no error");
  EXPECT_EQ(ErrorOfKeys({PackedKey(std::string(65536, 'k'), Type::kUint8, value)}),
            "m.gguf: key 1 of 1 has a name of 65536 bytes, at most 65535 are allowed");
}

TEST(GgufRefuses, ValuesOfNoKind) {
  EXPECT_EQ(ErrorOfKeys({PackedKey("k", 13, Packed(1))}),
            "m.gguf: key \"k\" has a value of type 13, which GGUF does not define");
  EXPECT_EQ(ErrorOfKeys({PackedKey("k", Type::kArray, Packed(99) + Packed<uint64_t>(0))}),
            "m.gguf: key \"k\" has a value of type 99, which GGUF does not define");
  EXPECT_EQ(ErrorOfKeys({PackedKey("k", Type::kArray, PackedArray(Type::kArray, 0, ""))}),
            "m.gguf: key \"k\" is an array of arrays, which no model needs and llama.cpp refuses "
            "too");
  EXPECT_EQ(ErrorOfKeys({PackedKey("k", Type::kBool, "\x02")}),
            "m.gguf: key \"k\" holds a bool stored as 2, only 0 and 1 are allowed");
  EXPECT_EQ(ErrorOfKeys({PackedKey("k", Type::kArray, PackedArray(Type::kBool, 2, "\x01\xff"))}),
            "m.gguf: key \"k\" holds a bool stored as 255, only 0 and 1 are allowed");
}

TEST(GgufRefuses, AlignmentsNothingCanBeAlignedTo) {
  for (const uint32_t good : {8u, 32u, 4096u, 2u << 20, 1u << 30}) {
    EXPECT_EQ(ErrorOfAlignment(good), "no error") << good;
  }
  for (const uint32_t bad : {0u, 1u, 4u, 24u, 33u, 1u << 31, ~0u}) {
    EXPECT_EQ(ErrorOfAlignment(bad), Concat("m.gguf: key \"general.alignment\" is ", bad,
                                            ", it must be a power of two from 8 to 1073741824"));
  }
  EXPECT_EQ(ErrorOfKeys({PackedKey("general.alignment", Type::kUint64, Packed<uint64_t>(32))}),
            "m.gguf: key \"general.alignment\" is of type u64, it must be u32");
}

TEST(GgufRefuses, BadTensorNames) {
  EXPECT_EQ(ErrorOfTensors({PackedTensor("a", {8}, kF32, 0), PackedTensor("a", {8}, kF32, 32)}, 64),
            "m.gguf: tensor \"a\" appears twice");
  EXPECT_EQ(ErrorOfTensors({PackedTensor("", {8}, kF32, 0)}, 32),
            "m.gguf: tensor 1 of 1 has an empty name");
  const std::string longest(63, 'n');
  EXPECT_EQ(ErrorOfTensors({PackedTensor(longest, {8}, kF32, 0)}, 32), "no error");
  EXPECT_EQ(ErrorOfTensors({PackedTensor(longest + "n", {8}, kF32, 0)}, 32),
            "m.gguf: tensor \"" + longest + "n\" has a name of 64 bytes, at most 63 are allowed");
}

TEST(GgufRefuses, TensorTypesNobodyKnows) {
  EXPECT_EQ(
      ErrorOfTensors({PackedTensor("a", {32}, 4, 0)}, 64),
      "m.gguf: tensor \"a\" is stored in type 4, which GGUF does not define or no longer uses");
  EXPECT_EQ(ErrorOfTensors({PackedTensor("a", {32}, 1000, 0)}, 64),
            "m.gguf: tensor \"a\" is stored in type 1000, which GGUF does not define or no longer "
            "uses");
}

// The types from 2^16 on are ours: panels (tensors/panels.h).
TEST(GgufRefuses, PanelsOfWhatHasNone) {
  const auto error_of = [](uint32_t type, const std::vector<uint64_t>& dims) {
    return ErrorOfTensors({PackedTensor("a", dims, kGgufPanelTypes + type, 0)}, 64);
  };
  EXPECT_EQ(error_of(kQ4_0, {32}), "m.gguf: tensor \"a\" is a vector, which has no panels");
  EXPECT_EQ(error_of(24, {32, 16}), "m.gguf: tensor \"a\" is I8, which has no panels");
  EXPECT_EQ(error_of(1000, {32, 16}),
            "m.gguf: tensor \"a\" is stored in type 66536, which GGUF does not define or no longer "
            "uses");
  EXPECT_EQ(error_of(kQ4_0, {32, 1}),  // a panel has room for sixteen
            "m.gguf: tensor \"a\" needs 320 bytes at offset 0 of the data section, 64 are there: "
            "the file is cut short, fetch it again");
}

TEST(GgufRefuses, ShapesNoFileCanHold) {
  EXPECT_EQ(ErrorOfTensors({PackedTensor("a", {}, kF32, 0)}, 64),
            "m.gguf: tensor \"a\" has 0 dimensions, expected 1 to 4");
  EXPECT_EQ(ErrorOfTensors({PackedTensor("a", {1, 1, 1, 1, 1}, kF32, 0)}, 64),
            "m.gguf: tensor \"a\" has 5 dimensions, expected 1 to 4");
  EXPECT_EQ(ErrorOfTensors({PackedTensor("a", {8, 0}, kF32, 0)}, 64),
            "m.gguf: tensor \"a\" has dimension 1 of zero elements");
  EXPECT_EQ(ErrorOfTensors({PackedTensor("a", {33}, kQ4_0, 0)}, 64),
            "m.gguf: tensor \"a\" has rows of 33 elements, Q4_0 needs a multiple of 32");
  const uint64_t huge = uint64_t{1} << 33;
  EXPECT_EQ(ErrorOfTensors({PackedTensor("a", {huge, huge}, kF32, 0)}, 64),
            "m.gguf: tensor \"a\" is larger than any file: dimensions overflow");
}

TEST(GgufRefuses, MisalignedTensors) {
  EXPECT_EQ(ErrorOfTensors({PackedTensor("a", {8}, kF32, 33)}, 128),
            "m.gguf: tensor \"a\" lies at offset 33 of the data section, which is not a multiple "
            "of the alignment 32");
}

TEST(GgufRefuses, OverlappingTensors) {
  EXPECT_EQ(
      ErrorOfTensors({PackedTensor("a", {9}, kF32, 32), PackedTensor("b", {8}, kF32, 64)}, 128),
      "m.gguf: tensors \"a\" and \"b\" overlap: both claim byte 160 of the file");
  EXPECT_EQ(
      ErrorOfTensors({PackedTensor("a", {8}, kF32, 64), PackedTensor("b", {32}, kF32, 0)}, 128),
      "m.gguf: tensors \"b\" and \"a\" overlap: both claim byte 160 of the file");
  EXPECT_EQ(ErrorOfTensors({PackedTensor("a", {8}, kF32, 0), PackedTensor("b", {8}, kF32, 0)}, 64),
            "m.gguf: tensors \"a\" and \"b\" overlap: both claim byte 96 of the file");
}

TEST(GgufRefuses, TensorsCutShort) {
  EXPECT_EQ(
      ErrorOfTensors({PackedTensor("a", {8}, kF32, 0), PackedTensor("b", {8}, kF32, 32)}, 40),
      "m.gguf: tensor \"b\" needs 32 bytes at offset 32 of the data section, 8 are there: the file "
      "is cut short, fetch it again");
  EXPECT_EQ(ErrorOfTensors({PackedTensor("a", {8}, kF32, 0)}, 0),
            "m.gguf: tensor \"a\" needs 32 bytes at offset 0 of the data section, 0 are there: the "
            "file is cut short, fetch it again");
  const uint64_t far = ~uint64_t{0} - 31;
  EXPECT_EQ(ErrorOfTensors({PackedTensor("a", {8}, kF32, far)}, 64),
            "m.gguf: tensor \"a\" needs 32 bytes at offset 18446744073709551584 of the data "
            "section, 0 are there: the file is cut short, fetch it again");
}

TEST(GgufRefuses, NamesCannotGarbleTheSentence) {
  EXPECT_EQ(
      ErrorOfKeys({PackedKey("a\n\"\x1b[31m", 77, "")}),
      "m.gguf: key \"a\\x0a\\\"\\x1b[31m\" has a value of type 77, which GGUF does not define");
}

}  // namespace
}  // namespace outrider
