// Exit heads come back as they were written, and what cannot be theirs is refused by name.
#include "common/formats/models/exits_file.h"

#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/formats/containers/gguf_file.h"
#include "common/formats/containers/gguf_writer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/base/scratch_dir.h"

namespace outrider {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

ExitCalibration SomeCalibration() {
  return {.kappa = 0.75f,
          .bias = -1.5f,
          .doubt = {.knots = {0, 1, 4}, .slopes = {-2, -0.25f}},
          .entropy = {.knots = {0, 2}, .slopes = {-0.5f}},
          .margin = {.knots = {0, 0.5f, 1, 8}, .slopes = {2, 1, 0}},
          .agrees_with_previous = 0.5f,
          .agrees_with_first_draft = 0};
}

// Weights that a half holds.
std::vector<float> SomeWeights(size_t count, int seed) {
  std::vector<float> weights(count);
  for (size_t i = 0; i < count; ++i) {
    weights[i] = static_cast<float>((static_cast<int>(i) * 37 + seed) % 101 - 50) / 64;
  }
  return weights;
}

TrainedExits SomeExits() {
  TrainedExits exits;
  exits.target = {.name = "tiny",
                  .content_hash = 0x00ab'cdef'0123'4567,
                  .embedding_length = 8,
                  .layer_count = 6,
                  .vocabulary_size = 100};
  exits.exits = {{.layer = 2, .rank = 3, .down = SomeWeights(24, 1), .up = SomeWeights(24, 2)},
                 {.layer = 4, .rank = 1, .down = SomeWeights(8, 3), .up = SomeWeights(8, 4)}};
  exits.exits[0].greedy = SomeCalibration();
  exits.exits[1].sampled = ExitCalibration{};
  exits.frequent_tokens = {0, 7, 99};
  return exits;
}

class ExitsFileTest : public testing::Test {
 protected:
  // The file of SomeExits() without the key `left_out`, and with what `edit` sets.
  absl::StatusOr<TrainedExits> ReadEdited(const std::function<void(GgufWriter&)>& edit,
                                          std::string_view left_out = "") {
    OUTRIDER_CHECK_OK(WriteExits(SomeExits(), path_));
    const auto file = GgufFile::Open(path_);
    OUTRIDER_CHECK_OK(file.status());
    GgufWriter writer;
    for (const GgufKeyValue& entry : file->metadata()) {
      if (entry.key != left_out) writer.AddCopy(entry.key, entry.value);
    }
    for (const GgufTensor& tensor : file->tensors()) {
      if (tensor.name == left_out) continue;
      OUTRIDER_CHECK_OK(writer.AddTensor(tensor.name, tensor.type, tensor.dims));
    }
    edit(writer);
    const std::string edited = dir_.File("edited.gguf");
    OUTRIDER_CHECK_OK(writer.Begin(edited));
    for (const GgufTensor& tensor : file->tensors()) {
      if (tensor.name != left_out) OUTRIDER_CHECK_OK(writer.Write(*file->ReadBytes(tensor)));
    }
    OUTRIDER_CHECK_OK(writer.Commit());
    return ReadExits(edited);
  }
  absl::StatusOr<TrainedExits> ReadWithout(std::string_view left_out) {
    return ReadEdited([](GgufWriter&) {}, left_out);
  }

  ScratchDir dir_;
  std::string path_ = dir_.File("tiny.exits.gguf");
};

void ExpectRefusal(const absl::Status& status, const std::string& part) {
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(Message(status)), HasSubstr(part));
}

TEST_F(ExitsFileTest, AModelHasThoseBesideItUnlessOthersOrNoneAreAskedFor) {
  const std::string model = dir_.File("tiny.gguf");
  EXPECT_EQ(ChooseExits("", model).path, "") << "none lie there";
  OUTRIDER_CHECK_OK(WriteExits(SomeExits(), path_));
  EXPECT_EQ(ChooseExits("", model).path, path_);
  EXPECT_FALSE(ChooseExits("", model).was_asked);
  EXPECT_EQ(ChooseExits("none", model).path, "");
  EXPECT_EQ(ChooseExits("others.gguf", model).path, "others.gguf");
  EXPECT_TRUE(ChooseExits("others.gguf", model).was_asked);

  const std::string folder = dir_.File("folder");
  std::filesystem::create_directory(folder);
  EXPECT_EQ(ChooseExits("", folder).path, "");
  OUTRIDER_CHECK_OK(WriteExits(SomeExits(), folder + "/exits.gguf"));
  EXPECT_EQ(ChooseExits("", folder).path, folder + "/exits.gguf");
}

TEST_F(ExitsFileTest, WhatIsWrittenIsRead) {
  for (const TensorType type : {TensorType::kF32, TensorType::kF16}) {
    TrainedExits exits = SomeExits();
    exits.type = type;
    ASSERT_TRUE(WriteExits(exits, path_).ok());
    const auto read = ReadExits(path_);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_TRUE(*read == exits);
  }
}

TEST_F(ExitsFileTest, HalvesRoundAndFloatsDoNot) {
  TrainedExits exits = SomeExits();
  exits.exits[0].up[5] = 0.1f;
  ASSERT_TRUE(WriteExits(exits, path_).ok());
  EXPECT_EQ(ReadExits(path_)->exits[0].up[5], 0.1f);
  exits.type = TensorType::kF16;
  ASSERT_TRUE(WriteExits(exits, path_).ok());
  EXPECT_NE(ReadExits(path_)->exits[0].up[5], 0.1f);
  EXPECT_NEAR(ReadExits(path_)->exits[0].up[5], 0.1f, 0x1p-15);
}

TEST_F(ExitsFileTest, WhatNoReaderWouldTakeIsNotWritten) {
  const auto refuse = [&](const std::function<void(TrainedExits&)>& spoil,
                          const std::string& part) {
    TrainedExits exits = SomeExits();
    spoil(exits);
    const absl::Status status = WriteExits(exits, path_);
    ExpectRefusal(status, part);
    EXPECT_THAT(std::string(Message(status)), StartsWith(path_ + ": "));
  };
  refuse([](TrainedExits& e) { e.exits.clear(); }, "has 0 exits, must be 1 to 256");
  refuse([](TrainedExits& e) { e.exits[1].layer = 2; },
         "exits.layers do not rise: 2 comes after 2");
  refuse([](TrainedExits& e) { e.exits[1].layer = 5; },
         "an exit after layer 5 of 6, counted from 0, leaves nothing to guess");
  refuse([](TrainedExits& e) { e.exits[0].rank = 9; }, "layer 2 has rank 9, must be 1 to 8");
  refuse([](TrainedExits& e) { e.exits[0].up.pop_back(); },
         "has matrices of 24 and 23 weights, expected 24");
  refuse([](TrainedExits& e) { e.exits[1].down[3] = kNan; },
         "tensor blk.4.exit_down.weight has weights that are no numbers");
  refuse(
      [](TrainedExits& e) {
        e.frequent_tokens = {3, 100};
      },
      "has token 100, and the target's vocabulary 100");
  refuse([](TrainedExits& e) { e.frequent_tokens = {3, 3}; }, "do not rise: 3 comes after 3");
  refuse([](TrainedExits& e) { e.frequent_tokens = {-1}; }, "has token -1");
  refuse([](TrainedExits& e) { e.target.layer_count = 0; }, "exits.target.layer_count is 0");
  refuse([](TrainedExits& e) { e.type = TensorType::kQ8_0; }, "F32 or F16, not Q8_0");

  const auto refuse_greedy = [&](const std::function<void(ExitCalibration&)>& spoil,
                                 const std::string& part) {
    refuse([&](TrainedExits& e) { spoil(*e.exits[0].greedy); }, part);
  };
  refuse_greedy([](ExitCalibration& c) { c.kappa = 0; },
                "exits.2.greedy.kappa is 0, and scores are divided by it");
  refuse_greedy([](ExitCalibration& c) { c.kappa = kNan; }, "exits.2.greedy.kappa is nan");
  refuse_greedy([](ExitCalibration& c) { c.bias = kNan; }, "exits.2.greedy.bias is nan");
  refuse_greedy([](ExitCalibration& c) { c.doubt.slopes[1] = 0.5f; },
                "exits.2.greedy.doubt.slopes has 0.5 at 1, and the probability must fall with it");
  refuse_greedy([](ExitCalibration& c) { c.margin.slopes[0] = -1; }, "must rise with it");
  refuse_greedy([](ExitCalibration& c) { c.margin.slopes[0] = kNan; }, "margin.slopes has nan");
  refuse_greedy(
      [](ExitCalibration& c) {
        c.entropy.knots = {2, 2};
      },
      "exits.2.greedy.entropy.knots do not rise at 1, where 2 stands");
  refuse_greedy([](ExitCalibration& c) { c.entropy.knots.push_back(3); },
                "has 3 knots and 1 slopes");
  refuse_greedy([](ExitCalibration& c) { c.agrees_with_previous = -0.5f; },
                "exits.2.greedy.agrees_with_previous is -0.5");
  EXPECT_THAT(dir_.Names(), testing::IsEmpty());
}

TEST_F(ExitsFileTest, WhatIsNotTheirsIsRefused) {
  const auto refuse = [&](const std::function<void(GgufWriter&)>& edit, const std::string& part) {
    ExpectRefusal(ReadEdited(edit).status(), part);
  };
  EXPECT_TRUE(ReadEdited([](GgufWriter&) {}).ok());
  refuse([](GgufWriter& w) { w.AddString("general.architecture", "llama"); },
         "holds \"llama\", not exit heads, which are \"outrider-exits\"");
  refuse([](GgufWriter& w) { w.AddUint32("exits.version", 2); },
         "is version 2 of the exits' format, and this reads 1");
  refuse([](GgufWriter& w) { w.AddString("exits.target.content_hash", "abc"); },
         "is \"abc\", expected sixteen hexadecimal digits");
  refuse([](GgufWriter& w) { w.AddString("exits.target.content_hash", "00ABCDEF01234567"); },
         "expected sixteen hexadecimal digits");
  refuse([](GgufWriter& w) { w.AddUint64("exits.target.vocabulary_size", uint64_t{1} << 40); },
         "must be 1 to 2147483647");
  refuse([](GgufWriter& w) { w.AddUint32("exits.target.embedding_length", 9); },
         "tensor blk.2.exit_down.weight is [8, 3], expected [9, 3]");
  refuse([](GgufWriter& w) { w.AddUint32("exits.2.strength", 1); },
         "key \"exits.2.strength\" is none of exit heads'");
  refuse([](GgufWriter& w) { w.AddFloat32("exits.3.greedy.kappa", 1); },
         "key \"exits.3.greedy.kappa\" is none");
  refuse([](GgufWriter& w) { w.AddUint32s("exits.layers", std::vector<uint32_t>{2}); },
         "\"exits.4.sampled.");
  refuse(
      [](GgufWriter& w) {
        w.AddUint32s("exits.layers", std::vector<uint32_t>{2, 3, 4});
      },
      "has no tensor blk.3.exit_down.weight");
  refuse([](GgufWriter& w) { w.AddUint32s("exits.frequent_tokens", std::vector<uint32_t>{~0u}); },
         "exits.frequent_tokens has token");
  refuse([](GgufWriter& w) { w.AddFloat32("exits.2.greedy.kappa", -1); }, "kappa is -1");

  ExpectRefusal(ReadWithout("exits.target.name").status(), "exits.target.name");
  ExpectRefusal(ReadWithout("exits.2.greedy.bias").status(), "exits.2.greedy.bias");
  ExpectRefusal(ReadWithout("exits.2.greedy.kappa").status(), "none of exit heads'");
  ExpectRefusal(ReadWithout("blk.4.exit_up.weight").status(), "no tensor blk.4.exit_up.weight");
  ExpectRefusal(ReadExits(dir_.File("nobody.gguf")).status(), "nobody.gguf");
}

TEST_F(ExitsFileTest, ATensorTooManyOrOfAnotherTypeIsRefused) {
  OUTRIDER_CHECK_OK(WriteExits(SomeExits(), path_));
  const auto file = GgufFile::Open(path_);
  const auto read_with = [&](TensorType type_of_last, bool one_more) {
    GgufWriter writer;
    for (const GgufKeyValue& entry : file->metadata()) writer.AddCopy(entry.key, entry.value);
    const std::span<const GgufTensor> all = file->tensors();
    for (const GgufTensor& tensor : all.first(all.size() - 1)) {
      OUTRIDER_CHECK_OK(writer.AddTensor(tensor.name, tensor.type, tensor.dims));
    }
    OUTRIDER_CHECK_OK(writer.AddTensor(all.back().name, type_of_last, all.back().dims));
    const std::vector<uint64_t> dims = {8};
    if (one_more) OUTRIDER_CHECK_OK(writer.AddTensor("blk.4.bias", TensorType::kF32, dims));
    const std::string edited = dir_.File("edited.gguf");
    OUTRIDER_CHECK_OK(writer.Begin(edited));
    for (const GgufTensor& tensor : all.first(all.size() - 1)) {
      OUTRIDER_CHECK_OK(writer.Write(*file->ReadBytes(tensor)));
    }
    OUTRIDER_CHECK_OK(writer.Write(std::vector<std::byte>(RowBytes(type_of_last, 8))));
    if (one_more) OUTRIDER_CHECK_OK(writer.Write(std::vector<std::byte>(32)));
    OUTRIDER_CHECK_OK(writer.Commit());
    return ReadExits(edited).status();
  };
  EXPECT_TRUE(read_with(TensorType::kF16, false).ok());
  ExpectRefusal(read_with(TensorType::kBF16, false),
                "tensor blk.4.exit_up.weight is BF16, and exits are F32 or F16");
  ExpectRefusal(read_with(TensorType::kF32, true),
                "tensor \"blk.4.bias\" belongs to none of the exits");
}

}  // namespace
}  // namespace outrider
