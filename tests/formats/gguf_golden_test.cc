// Files as gguf-py writes them (tests/golden/gguf_sample.py).
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/formats/containers/gguf_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/test_files.h"

namespace outrider {
namespace {

using ::testing::ElementsAre;

GgufFile OpenSample(const std::string& name) {
  absl::StatusOr<GgufFile> file = GgufFile::Open(TestFile("gguf/" + name));
  OUTRIDER_CHECK_OK(file.status());
  return *std::move(file);
}

// The tensor's bytes as numbers.
template <typename T>
std::vector<T> Elements(const GgufFile& file, std::string_view name) {
  const GgufTensor* tensor = file.FindTensor(name);
  if (tensor == nullptr || tensor->bytes % sizeof(T) != 0) return {};
  std::vector<T> elements(tensor->bytes / sizeof(T));
  std::memcpy(elements.data(), file.ReadBytes(*tensor)->data(), tensor->bytes);
  return elements;
}

void ExpectRamp(const std::vector<float>& elements, size_t count) {
  ASSERT_EQ(elements.size(), count);
  for (size_t i = 0; i < count; ++i) {
    EXPECT_EQ(elements[i], static_cast<float>(i) / 4 - 3) << i;
  }
}

template <typename T>
void ExpectUints(const GgufFile& file, const std::string& name) {
  constexpr T kMost = std::numeric_limits<T>::max();
  EXPECT_EQ(*file.GetUint("sample." + name + ".least"), 0u);
  EXPECT_EQ(*file.GetUint("sample." + name + ".most"), kMost);
  EXPECT_THAT(*file.GetUints("sample." + name + "s"), ElementsAre(0u, kMost));
}

template <typename T>
void ExpectInts(const GgufFile& file, const std::string& name) {
  constexpr T kLeast = std::numeric_limits<T>::min();
  constexpr T kMost = std::numeric_limits<T>::max();
  EXPECT_EQ(std::get<int64_t>(file.Find("sample." + name + ".least")->data), kLeast);
  EXPECT_EQ(*file.GetUint("sample." + name + ".most"), static_cast<uint64_t>(kMost));
  EXPECT_THAT(*file.GetInts("sample." + name + "s"), ElementsAre(kLeast, kMost));
}

void ExpectSample(const GgufFile& file) {
  EXPECT_EQ(file.alignment(), 64u);
  EXPECT_EQ(*file.GetString("general.architecture"), "sample");
  ExpectUints<uint8_t>(file, "uint8");
  ExpectUints<uint16_t>(file, "uint16");
  ExpectUints<uint32_t>(file, "uint32");
  ExpectUints<uint64_t>(file, "uint64");
  ExpectInts<int8_t>(file, "int8");
  ExpectInts<int16_t>(file, "int16");
  ExpectInts<int32_t>(file, "int32");
  ExpectInts<int64_t>(file, "int64");
  EXPECT_EQ(*file.GetFloat("sample.float32.least"), -0.5);
  EXPECT_EQ(*file.GetFloat("sample.float32.most"), 3.0e38f);
  EXPECT_THAT(*file.GetFloats("sample.float32s"), ElementsAre(-0.5f, 3.0e38f));
  EXPECT_EQ(*file.GetFloat("sample.float64.least"), -0.1);
  EXPECT_EQ(*file.GetFloat("sample.float64.most"), 1.0e300);
  EXPECT_EQ(*file.GetBool("sample.true"), true);
  EXPECT_EQ(*file.GetBool("sample.false"), false);
  EXPECT_EQ(std::get<GgufArray>(file.Find("sample.bools")->data).count, 3u);
  EXPECT_EQ(*file.GetString("sample.string"), "Grüße, мир, 世界");
  EXPECT_THAT(*file.GetStrings("sample.strings"), ElementsAre("<s>", " ", "Ġthe", "▁x"));

  EXPECT_EQ(file.tensors().size(), 5u);
  ExpectRamp(Elements<float>(file, "scale"), 1);
  ExpectRamp(Elements<float>(file, "matrix"), 15);
  EXPECT_THAT(file.FindTensor("matrix")->dims, ElementsAre(5, 3));
  EXPECT_EQ(file.FindTensor("half")->type, TensorType::kF16);
  EXPECT_THAT(file.FindTensor("half")->dims, ElementsAre(4, 3, 2));
  EXPECT_THAT(Elements<int32_t>(file, "ids"), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_EQ(file.FindTensor("blocks")->type, TensorType::kQ8_0);
  EXPECT_THAT(file.FindTensor("blocks")->dims, ElementsAre(64, 4));
  EXPECT_EQ(file.FindTensor("blocks")->bytes, 4u * 2 * 34);
}

TEST(GgufGolden, ASampleOfEverythingReads) {
  const GgufFile file = OpenSample("sample.gguf");
  EXPECT_EQ(file.version(), 3u);
  ExpectSample(file);
}

TEST(GgufGolden, Version2HoldsTheSame) {
  const GgufFile file = OpenSample("sample-v2.gguf");
  EXPECT_EQ(file.version(), 2u);
  ExpectSample(file);
}

TEST(GgufGolden, ASplitModelOpens) {
  const GgufFile file = OpenSample("split-00001-of-00003.gguf");
  EXPECT_EQ(file.shard_count(), 3u);
  ASSERT_EQ(file.tensors().size(), 2u);
  EXPECT_EQ(file.tensors()[0].shard, 1u);
  EXPECT_EQ(file.tensors()[1].shard, 2u);
  ExpectRamp(Elements<float>(file, "first"), 8);
  ExpectRamp(Elements<float>(file, "second"), 16);
}

TEST(GgufGolden, BigEndianIsRefused) {
  const std::string path = TestFile("gguf/big-endian.gguf");
  EXPECT_EQ(Message(GgufFile::Open(path).status()),
            path +
                ": is a big-endian GGUF file, only little-endian ones are read: turn it round "
                "with gguf-convert-endian from the Python package gguf");
}

// A vocabulary of a real model, where it is at hand.
TEST(GgufGolden, ARealVocabularyReads) {
  const std::string path = ExternalFile("tokenizers/llama.cpp/ggml-vocab-gpt-2.gguf");
  OUTRIDER_SKIP_WITHOUT(path);
  const absl::StatusOr<GgufFile> file = GgufFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->GetStrings("tokenizer.ggml.tokens")->size(), 50257u);
}

}  // namespace
}  // namespace outrider
