#include "common/formats/containers/safetensors.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/base/scratch_dir.h"
#include "tests/test_files.h"

namespace outrider {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::StartsWith;

std::string File(std::string_view json, std::string_view data = "") {
  const uint64_t length = json.size();
  std::string bytes(sizeof(length), '\0');
  std::memcpy(bytes.data(), &length, sizeof(length));
  return bytes + std::string(json) + std::string(data);
}

// Eight bytes of data under two names, the later one listed first.
constexpr std::string_view kSmallJson =
    R"({"__metadata__":{"format":"pt"},)"
    R"("b":{"dtype":"I8","shape":[],"data_offsets":[6,7]},)"
    R"("none":{"dtype":"F64","shape":[3,0],"data_offsets":[6,6]},)"
    R"("c":{"dtype":"BOOL","shape":[1],"data_offsets":[7,8]},)"
    R"("a":{"dtype":"BF16","shape":[1,3],"data_offsets":[0,6]}})";

absl::StatusOr<std::vector<SafetensorsTensor>> Parse(std::string_view bytes) {
  return ParseSafetensors(std::as_bytes(std::span(bytes)), "m.safetensors");
}

std::string ErrorOf(std::string_view bytes) {
  const auto tensors = Parse(bytes);
  return tensors.ok() ? "no error" : std::string(Message(tensors.status()));
}

// The error for a file whose header is `json` before eight bytes of data.
std::string HeaderError(std::string_view json) {
  return ErrorOf(File(json, "12345678"));
}

TEST(Safetensors, TensorsComeInTheOrderOfTheirBytes) {
  const std::string bytes = File(kSmallJson, "12345678");
  const auto tensors = Parse(bytes);
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  ASSERT_EQ(tensors->size(), 4u);
  const SafetensorsTensor& a = (*tensors)[0];
  EXPECT_EQ(a.name, "a");
  EXPECT_EQ(a.dtype, "BF16");
  EXPECT_THAT(a.shape, ElementsAre(1, 3));
  EXPECT_EQ(a.offset, bytes.size() - 8);
  EXPECT_EQ(a.bytes, 6u);
  EXPECT_EQ((*tensors)[1].name, "none");
  EXPECT_EQ((*tensors)[1].bytes, 0u);
  EXPECT_EQ((*tensors)[2].name, "b");
  EXPECT_THAT((*tensors)[2].shape, IsEmpty());
  EXPECT_EQ((*tensors)[3].name, "c");
}

TEST(Safetensors, NothingAtAllIsAFileToo) {
  EXPECT_EQ(ErrorOf(File("{}")), "no error");
  EXPECT_EQ(ErrorOf(File("{}      ")), "no error");  // padded, as writers do
}

TEST(Safetensors, EveryTruncationIsAnError) {
  const std::string bytes = File(kSmallJson, "12345678");
  ASSERT_EQ(ErrorOf(bytes), "no error");
  for (size_t size = 0; size < bytes.size(); ++size) {
    const std::vector<char> cut(bytes.data(), bytes.data() + size);  // exactly: asan sees overreads
    EXPECT_THAT(ErrorOf({cut.data(), cut.size()}), StartsWith("m.safetensors: "))
        << "cut to " << size << " bytes";
  }
}

TEST(Safetensors, NoFlippedBitLeadsAstray) {
  const std::string bytes = File(kSmallJson, "12345678");
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    std::string flipped = bytes;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    const auto tensors = Parse(flipped);
    if (!tensors.ok()) {
      EXPECT_THAT(std::string(Message(tensors.status())), StartsWith("m.safetensors: "));
      continue;
    }
    for (const SafetensorsTensor& tensor : *tensors) {
      EXPECT_LE(tensor.offset + tensor.bytes, bytes.size());
    }
  }
}

TEST(Safetensors, LengthsAreNotBelieved) {
  EXPECT_EQ(ErrorOf("1234"),
            "m.safetensors: is 4 bytes long, a safetensors file begins with a length of 8");
  EXPECT_EQ(ErrorOf(File("{}").substr(0, 9)),
            "m.safetensors: claims a header of 2 bytes, 1 are there: it is cut short, fetch it "
            "again");
  EXPECT_EQ(ErrorOf("GGUF\x03\x01\x01\x01"),
            "m.safetensors: claims a header of 72340182591162183 bytes, at most 100000000 are "
            "allowed: it is not a safetensors file");
}

TEST(Safetensors, TheHeaderIsStrictJson) {
  EXPECT_EQ(HeaderError(""), "m.safetensors: has a header that does not begin with {");
  EXPECT_EQ(HeaderError("[]"), "m.safetensors: has a header that does not begin with {");
  EXPECT_EQ(HeaderError("{"),
            "m.safetensors: its JSON ends after 1 bytes in the middle; it is cut off, fetch it "
            "again");
  EXPECT_EQ(HeaderError("{}x"), "m.safetensors: is not valid JSON at byte 3 of the text");
  EXPECT_EQ(HeaderError(std::string_view("{}\0x", 4)),
            "m.safetensors: is not valid JSON at byte 2 of the text");
  EXPECT_EQ(HeaderError("{\"\xff\":{}}"), "m.safetensors: is not valid JSON at byte 3 of the text");
  EXPECT_EQ(HeaderError(R"({"a":1})"), "m.safetensors: tensor \"a\" is a number, not an object");
  EXPECT_EQ(HeaderError(R"({"a":{"dtype":8}})"),
            "m.safetensors: tensor \"a\" has a number in its dtype");
  EXPECT_EQ(HeaderError(R"({"a":{"shape":8}})"),
            "m.safetensors: tensor \"a\" has a number in its shape");
  EXPECT_EQ(HeaderError(R"({"a":{"shape":[[8]]}})"),
            "m.safetensors: tensor \"a\" has an array in its shape");
  EXPECT_EQ(HeaderError(R"({"a":{"shape":[-8]}})"),
            "m.safetensors: tensor \"a\" has a negative number in its shape");
  EXPECT_EQ(HeaderError(R"({"a":{"shape":[8.0]}})"),
            "m.safetensors: tensor \"a\" has a fraction in its shape");
  EXPECT_EQ(HeaderError(R"({"a":{"shape":[1e999]}})"),
            "m.safetensors: is not valid JSON at byte 20 of the text");
  EXPECT_EQ(HeaderError(R"({"a":{"data_offsets":{}}})"),
            "m.safetensors: tensor \"a\" has an object in its data_offsets");
  EXPECT_EQ(HeaderError(R"({"a":{"data_offsets":[null]}})"),
            "m.safetensors: tensor \"a\" has null in its data_offsets");
  EXPECT_EQ(HeaderError(R"({"__metadata__":{"format":true}})"),
            "m.safetensors: __metadata__ holds a boolean, only strings are allowed");
  EXPECT_EQ(HeaderError(R"({"__metadata__":"pt"})"),
            "m.safetensors: __metadata__ holds a string, only strings are allowed");
}

TEST(Safetensors, EveryFieldIsGivenOnce) {
  EXPECT_EQ(HeaderError(R"({"a":{"dtype":"I8","shape":[8]}})"),
            "m.safetensors: tensor \"a\" has no data_offsets");
  EXPECT_EQ(HeaderError(R"({"a":{}})"), "m.safetensors: tensor \"a\" has no dtype");
  EXPECT_EQ(HeaderError(R"({"a":{"shape":[8],"shape":[8]}})"),
            "m.safetensors: tensor \"a\" has shape twice");
  EXPECT_EQ(HeaderError(R"({"a":{"stride":[1]}})"),
            "m.safetensors: tensor \"a\" has a field \"stride\" that safetensors does not define");
  EXPECT_EQ(HeaderError(R"({"a":{"dtype":"I8","shape":[8],"data_offsets":[0,8,8]}})"),
            "m.safetensors: tensor \"a\" has 3 data_offsets, expected begin and end");
  EXPECT_EQ(HeaderError(R"({"a":{"dtype":"I8","shape":[8],"data_offsets":[0,8]},"a":{}})"),
            "m.safetensors: tensor \"a\" appears twice");
  EXPECT_EQ(HeaderError(R"({"__metadata__":{"k":"1","k":"2"}})"),
            "m.safetensors: __metadata__ holds key \"k\" twice");
}

std::string OneTensor(std::string_view dtype, std::string_view shape, std::string_view offsets) {
  return Concat(R"({"a":{"dtype":")", dtype, R"(","shape":)", shape, R"(,"data_offsets":)", offsets,
                "}}");
}

TEST(Safetensors, SizesFollowFromDtypeAndShape) {
  EXPECT_EQ(HeaderError(OneTensor("F8_E4M3", "[8]", "[0,8]")), "no error");
  EXPECT_EQ(HeaderError(OneTensor("F8_E5M2", "[2,4]", "[0,8]")), "no error");
  EXPECT_EQ(HeaderError(OneTensor("I64", "[]", "[0,8]")), "no error");
  EXPECT_EQ(HeaderError(OneTensor("Q4", "[8]", "[0,8]")),
            "m.safetensors: tensor \"a\" has dtype \"Q4\", which is not known");
  EXPECT_EQ(HeaderError(OneTensor("F16", "[8]", "[0,8]")),
            "m.safetensors: tensor \"a\" takes 16 bytes by dtype and shape, 8 by data_offsets");
  EXPECT_EQ(HeaderError(OneTensor("I8", "[4294967296,4294967296]", "[0,8]")),
            "m.safetensors: tensor \"a\" has a shape larger than any file");
}

TEST(Safetensors, TensorsCoverTheDataExactly) {
  EXPECT_EQ(HeaderError(OneTensor("I8", "[8]", "[8,0]")),
            "m.safetensors: tensor \"a\" ends at byte 0 of the data, before it begins at 8");
  EXPECT_EQ(HeaderError(OneTensor("I8", "[9]", "[0,9]")),
            "m.safetensors: tensor \"a\" needs bytes 0 to 9 of the data, which has 8: the file is "
            "cut short, fetch it again");
  EXPECT_EQ(HeaderError(OneTensor("I8", "[7]", "[1,8]")),
            "m.safetensors: tensor \"a\" begins at byte 1 of the data and leaves a gap from byte "
            "0, which safetensors does not allow");
  EXPECT_EQ(HeaderError(OneTensor("I8", "[7]", "[0,7]")),
            "m.safetensors: has 1 bytes after its last tensor, which safetensors does not allow");
  EXPECT_EQ(HeaderError(R"({"a":{"dtype":"I8","shape":[5],"data_offsets":[0,5]},)"
                        R"("b":{"dtype":"I8","shape":[4],"data_offsets":[4,8]}})"),
            "m.safetensors: tensors \"a\" and \"b\" overlap: both claim byte 4 of the data");
}

// As the reference implementation writes it (tests/golden/safetensors_sample.py).
TEST(Safetensors, EveryDtypeReadsAsTheReferenceWroteIt) {
  const auto set = SafetensorsSet::Open(TestFile("safetensors/sample.safetensors"));
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_EQ(set->tensors().size(), 14u);
  for (const std::string_view dtype : {"F64", "F32", "F16", "BF16", "F8_E4M3", "F8_E5M2", "I64",
                                       "I32", "I16", "I8", "U8", "BOOL"}) {
    const SafetensorsTensor* tensor = set->Find(dtype);
    ASSERT_NE(tensor, nullptr) << dtype;
    EXPECT_EQ(tensor->dtype, dtype);
    EXPECT_THAT(tensor->shape, ElementsAre(2, 3));
    EXPECT_EQ(tensor->bytes, 6 * *SafetensorsElementBytes(dtype));
  }
  std::vector<double> numbers(6);
  std::memcpy(numbers.data(), set->ReadBytes(*set->Find("F64"))->data(), 6 * sizeof(double));
  EXPECT_THAT(numbers, ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(set->Find("scalar")->shape, IsEmpty());
  EXPECT_EQ(set->Find("scalar")->bytes, 4u);
  EXPECT_EQ(set->Find("empty")->bytes, 0u);
}

class SafetensorsDirectory : public ::testing::Test {
 protected:
  void Put(const std::string& name, std::string_view bytes) { directory_.Write(name, bytes); }

  void PutIndex(std::string_view weight_map) {
    Put("model.safetensors.index.json",
        Concat(R"({"metadata":{"total_size":16,"parts":[{"a":null}]},"weight_map":)", weight_map,
               "}"));
  }

  // The error of opening the directory, its own path left out.
  std::string OpenError() {
    const auto set = SafetensorsSet::Open(directory_.path());
    if (set.ok()) return "no error";
    std::string message(Message(set.status()));
    for (size_t at; (at = message.find(directory_.path())) != std::string::npos;) {
      message.replace(at, directory_.path().size(), "D");
    }
    return message;
  }

  ScratchDir directory_;
  const std::string a_ = File(OneTensor("I8", "[8]", "[0,8]"), "aaaaaaaa");
  const std::string b_ =
      File(R"({"b":{"dtype":"I8","shape":[8],"data_offsets":[0,8]}})", "bbbbbbbb");
};

TEST_F(SafetensorsDirectory, OneFileAloneOpens) {
  Put("model.safetensors", a_);
  const auto set = SafetensorsSet::Open(directory_.path());
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_EQ(set->shard_count(), 1u);
  EXPECT_EQ(set->file_bytes(), a_.size());
  ASSERT_NE(set->Find("a"), nullptr);
  EXPECT_EQ(set->ReadBytes(*set->Find("a"))->at(7), std::byte{'a'});
  EXPECT_EQ(set->Find("b"), nullptr);
  EXPECT_TRUE(SafetensorsSet::Open(directory_.path() + "/model.safetensors").ok());
}

TEST_F(SafetensorsDirectory, ShardsLookLikeOneFile) {
  PutIndex(R"({"b":"two.safetensors","a":"one.safetensors"})");
  Put("one.safetensors", a_);
  Put("two.safetensors", b_);
  absl::StatusOr<SafetensorsSet> opened = SafetensorsSet::Open(directory_.path());
  ASSERT_TRUE(opened.ok()) << opened.status();
  const SafetensorsSet set = *std::move(opened);  // moving it leaves names and bytes in place
  EXPECT_EQ(set.shard_count(), 2u);
  EXPECT_EQ(set.file_bytes(), a_.size() + b_.size());
  ASSERT_EQ(set.tensors().size(), 2u);
  ASSERT_NE(set.Find("b"), nullptr);
  EXPECT_EQ(set.ReadBytes(*set.Find("b"))->front(), std::byte{'b'});
  EXPECT_THAT(set.shard_path(set.Find("b")->shard), ::testing::EndsWith("/two.safetensors"));
}

TEST_F(SafetensorsDirectory, WhatIsMissingIsNamed) {
  EXPECT_EQ(OpenError(), "D: holds neither model.safetensors nor model.safetensors.index.json");
  PutIndex(R"({"a":"one.safetensors"})");
  EXPECT_EQ(OpenError(),
            "D/model.safetensors.index.json: a shard is missing: D/one.safetensors: cannot open: "
            "No such file or directory");
  Put("one.safetensors", b_);
  EXPECT_EQ(OpenError(),
            "D/model.safetensors.index.json: tensor \"a\" is said to be in one.safetensors, which "
            "does not hold it");
}

TEST_F(SafetensorsDirectory, ATensorIsInOneShardOnly) {
  PutIndex(R"({"a":"one.safetensors","b":"two.safetensors"})");
  Put("one.safetensors", a_);
  Put("two.safetensors", a_);
  EXPECT_EQ(OpenError(), "D/two.safetensors: tensor \"a\" is already in D/one.safetensors");
}

TEST_F(SafetensorsDirectory, TheIndexCannotLeadOutOfTheDirectory) {
  for (const std::string_view file : {"../one", "/etc/passwd", "x/y", "..", "", "a\\\\b"}) {
    PutIndex(Concat(R"({"a":")", file, R"("})"));
    EXPECT_THAT(OpenError(), ::testing::EndsWith("which is not a file of the same directory"))
        << file;
  }
}

TEST_F(SafetensorsDirectory, TheIndexIsStrictWhereItMatters) {
  const auto error_of = [](std::string_view json) {
    return std::string(Message(ParseSafetensorsIndex(json, "i.json").status()));
  };
  EXPECT_EQ(error_of("{}"), "i.json: has no weight_map");
  EXPECT_EQ(error_of("[]"), "i.json: is an array, not an object");
  EXPECT_EQ(error_of("7"), "i.json: is a number, not an object");
  EXPECT_EQ(error_of("{"),
            "i.json: its JSON ends after 1 bytes in the middle; it is cut off, fetch it again");
  EXPECT_EQ(error_of("{]"), "i.json: is not valid JSON at byte 2 of the text");
  EXPECT_EQ(error_of(R"({"weight_map":"x"})"), "i.json: weight_map is a string, not an object");
  EXPECT_EQ(error_of(R"({"weight_map":[]})"), "i.json: weight_map is an array, not an object");
  EXPECT_EQ(error_of(R"({"weight_map":{"a":1}})"),
            "i.json: tensor \"a\" is mapped to a number, not to a file name");
  EXPECT_EQ(error_of(R"({"weight_map":{"a":{}}})"),
            "i.json: tensor \"a\" is mapped to an object, not to a file name");
  EXPECT_EQ(error_of(R"({"weight_map":{"a":"x","a":"y"}})"),
            "i.json: tensor \"a\" is listed twice");
  EXPECT_EQ(error_of(R"({"weight_map":{},"weight_map":{}})"), "i.json: holds weight_map twice");
}

// Tensors given narrow first, so that their order in the file is the writer's.
TEST(WriteSafetensors, WhatIsWrittenReadsBackAligned) {
  const ScratchDir scratch;
  const std::string path = scratch.File("out.safetensors");
  const std::string text = "0123456789abcdefghijklmnopqrstuvwxyz";
  const auto bytes = [&text](size_t begin, size_t count) {
    return std::as_bytes(std::span(text)).subspan(begin, count);
  };
  const std::vector<SafetensorsEntry> entries = {
      {"bools", "BOOL", {3}, bytes(0, 3)}, {"caf\xc3\xa9 \"quoted\"", "F32", {2, 1}, bytes(3, 8)},
      {"half", "BF16", {3}, bytes(11, 6)}, {"none", "F32", {0}, {}},
      {"scalar", "I64", {}, bytes(17, 8)},
  };
  const absl::Status written = WriteSafetensors(path, entries, {{"format", "pt"}, {"k", ""}});
  ASSERT_TRUE(written.ok()) << written;
  EXPECT_EQ(scratch.Names().size(), 1u);

  const auto set = SafetensorsSet::Open(path);
  ASSERT_TRUE(set.ok()) << set.status();
  ASSERT_EQ(set->tensors().size(), entries.size());
  for (const SafetensorsEntry& entry : entries) {
    const SafetensorsTensor* tensor = set->Find(entry.name);
    ASSERT_NE(tensor, nullptr) << entry.name;
    EXPECT_EQ(tensor->dtype, entry.dtype);
    EXPECT_EQ(tensor->shape, entry.shape);
    EXPECT_TRUE(std::ranges::equal(*set->ReadBytes(*tensor), entry.bytes));
    EXPECT_EQ(tensor->offset % *SafetensorsElementBytes(entry.dtype), 0u);
  }
}

TEST(WriteSafetensors, NothingAtAllIsAFileToo) {
  const ScratchDir scratch;
  const std::string path = scratch.File("out.safetensors");
  ASSERT_TRUE(WriteSafetensors(path, {}, {}).ok());
  EXPECT_EQ(Contents(path), File("{}      "));
}

TEST(WriteSafetensors, WhatCannotBeReadIsNotWritten) {
  const ScratchDir scratch;
  const std::string path = scratch.File("out.safetensors");
  const std::vector<std::byte> bytes(8);
  const auto error_of = [&](const std::vector<SafetensorsEntry>& entries,
                            const absl::btree_map<std::string, std::string>& metadata = {}) {
    const absl::Status status = WriteSafetensors(path, entries, metadata);
    EXPECT_THAT(std::string(Message(status)), StartsWith(path + ": "));
    return std::string(Message(status).substr(path.size() + 2));
  };
  EXPECT_EQ(error_of({{"a", "F4", {8}, bytes}}),
            "tensor \"a\" has dtype \"F4\", which is not known");
  EXPECT_EQ(error_of({{"a", "I8", {9}, bytes}}),
            "tensor \"a\" takes 9 bytes by dtype and shape, 8 are given");
  EXPECT_EQ(error_of({{"a", "I8", {8}, bytes}, {"a", "I8", {8}, bytes}}),
            "tensor \"a\" is given twice");
  EXPECT_EQ(error_of({{"\xff", "I8", {8}, bytes}}),
            "tensor \"\\xff\" has a name that safetensors cannot hold");
  EXPECT_EQ(error_of({{"__metadata__", "I8", {8}, bytes}}),
            "tensor \"__metadata__\" has a name that safetensors cannot hold");
  EXPECT_EQ(error_of({}, {{"k", "\xff"}}), "metadata key \"k\" or its value is not in UTF-8");
  EXPECT_THAT(scratch.Names(), IsEmpty());
}

}  // namespace
}  // namespace outrider
