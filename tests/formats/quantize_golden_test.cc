// Held against ggml on the inputs of tests/golden/quantize.py, and against its own bytes of yesterday.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "common/formats/tensors/quantize.h"
#include "gtest/gtest.h"
#include "tests/formats/quantized_values.h"
#include "tests/test_files.h"

namespace outrider {
namespace {

std::string Fnv(std::span<const std::byte> bytes) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const std::byte byte : bytes) {
    hash = (hash ^ static_cast<uint8_t>(byte)) * 0x100000001b3;
  }
  char text[17];
  std::snprintf(text, sizeof(text), "%016llx", static_cast<unsigned long long>(hash));
  return text;
}

struct GoldenLine {
  std::string kind, type, input, value;
};

std::vector<GoldenLine> ReadGoldenLines(const std::string& kind) {
  std::ifstream file(TestFile("quantize/ggml.txt"));
  std::vector<GoldenLine> lines;
  for (GoldenLine line; file >> line.kind >> line.type >> line.input >> line.value;) {
    if (line.kind == kind) lines.push_back(line);
  }
  return lines;
}

// An error of ours is at most 2 % larger than ggml's.
TEST(QuantizeAgainstGgml, LosesNoMoreThanItsSearch) {
  const std::map<std::string, std::vector<float>> inputs = QuantizeInputs();
  const std::vector<GoldenLine> lines = ReadGoldenLines("rms");
  ASSERT_EQ(lines.size(), 2 * inputs.size());
  for (const GoldenLine& line : lines) {
    const std::vector<float>& values = inputs.at(line.input);
    const double error = RmsError(RoundTrip(*TensorTypeFromName(line.type), values), values);
    const double of_ggml = std::stod(line.value);
    EXPECT_TRUE(error <= 1.02 * of_ggml)
        << line.type << " of " << line.input << ": " << error << " against " << of_ggml;
    RecordProperty(line.type + "_" + line.input, std::to_string(error / of_ggml));
  }
}

TEST(QuantizeAgainstGgml, MakesItsBytesWhereThereIsNothingToChoose) {
  const std::map<std::string, std::vector<float>> inputs = QuantizeInputs();
  const std::vector<GoldenLine> lines = ReadGoldenLines("fnv");
  ASSERT_EQ(lines.size(), 4 * inputs.size());
  for (const GoldenLine& line : lines) {
    const TensorType type = *TensorTypeFromName(line.type);
    EXPECT_EQ(Fnv(MustQuantize(type, inputs.at(line.input))), line.value)
        << line.type << " of " << line.input;
  }
}

// These bytes may not change with compiler, optimisation or machine; if the search is improved on
// purpose, they do.
TEST(Quantize, IsTheSameEverywhere) {
  const std::map<std::string, std::vector<float>> inputs = QuantizeInputs();
  const auto hash = [&](TensorType type, const char* input) {
    return Fnv(MustQuantize(type, inputs.at(input)));
  };
  EXPECT_EQ(hash(TensorType::kQ4_K, "bell"), "841a41516bba6253");
  EXPECT_EQ(hash(TensorType::kQ4_K, "outliers"), "dc38ae7cfe985155");
  EXPECT_EQ(hash(TensorType::kQ4_K, "negative"), "3716e03177376115");
  EXPECT_EQ(hash(TensorType::kQ4_K, "positive"), "ab13a37c7b4c45ef");
  EXPECT_EQ(hash(TensorType::kQ6_K, "bell"), "532a0af4b16fc133");
  EXPECT_EQ(hash(TensorType::kQ6_K, "outliers"), "227a67e7bae07ef6");
  EXPECT_EQ(hash(TensorType::kQ6_K, "negative"), "75227fac9bdcdb2d");
  EXPECT_EQ(hash(TensorType::kQ4_1, "outliers"), "807e5426822a2619");
  EXPECT_EQ(hash(TensorType::kQ5_0, "outliers"), "80f38f13814a14d7");
  EXPECT_EQ(hash(TensorType::kQ5_1, "outliers"), "167426c3d0788838");
  EXPECT_EQ(hash(TensorType::kQ5_K, "bell"), "8ff9be8ed9608452");
  EXPECT_EQ(hash(TensorType::kQ5_K, "outliers"), "da3e598d74bf652c");
  EXPECT_EQ(hash(TensorType::kIQ4_NL, "bell"), "3d5b2f19ad2c4856");
  EXPECT_EQ(hash(TensorType::kIQ4_NL, "outliers"), "85b3c744bb315c44");
  EXPECT_EQ(hash(TensorType::kIQ4_XS, "bell"), "21a4a8e0162cfbe9");
  EXPECT_EQ(hash(TensorType::kIQ4_XS, "outliers"), "2db80f7780c517a9");
}

}  // namespace
}  // namespace outrider
