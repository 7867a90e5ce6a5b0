#include "common/formats/models/model_file.h"

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "common/base/status.h"
#include "common/formats/models/convert.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/base/scratch_dir.h"
#include "tests/formats/tiny_models.h"

namespace outrider {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

uint64_t Fnv1a(std::span<const std::byte> bytes) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const std::byte byte : bytes) {
    hash = (hash ^ static_cast<uint64_t>(byte)) * 0x100000001b3;
  }
  return hash;
}

// A line of tests/data/models/tensors.tsv, made by tests/golden/tiny_models.py.
struct GoldenTensor {
  std::string name;
  std::string type;
  std::vector<uint64_t> dims;
  uint64_t hash;
};

std::map<std::string, std::vector<GoldenTensor>> ReadGolden() {
  std::map<std::string, std::vector<GoldenTensor>> models;
  std::ifstream file(ModelDirectory("tensors.tsv"));
  std::string model, dims, hash;
  GoldenTensor tensor;
  while (file >> model >> tensor.name >> tensor.type >> dims >> hash) {
    tensor.dims.clear();
    std::istringstream list(dims);
    for (std::string dim; std::getline(list, dim, ',');) tensor.dims.push_back(std::stoull(dim));
    tensor.hash = std::stoull(hash, nullptr, 16);
    models[model].push_back(tensor);
  }
  return models;
}

TEST(ModelFile, ReadsEveryTensorAsTheConverterWouldWriteIt) {
  const std::map<std::string, std::vector<GoldenTensor>> golden = ReadGolden();
  ASSERT_EQ(golden.size(), 12u);
  for (const auto& [name, tensors] : golden) {
    SCOPED_TRACE(name);
    const std::unique_ptr<ModelFile> model = OpenOrNull(ModelDirectory(name));
    ASSERT_NE(model, nullptr);
    EXPECT_EQ(model->format(), "Hugging Face safetensors");
    EXPECT_EQ(model->hyperparameters().name, name);
    EXPECT_EQ(model->tensors().size(), tensors.size());
    for (const GoldenTensor& expected : tensors) {
      SCOPED_TRACE(expected.name);
      const ModelTensor* tensor = model->Find(expected.name);
      ASSERT_NE(tensor, nullptr);
      EXPECT_EQ(Name(tensor->type), expected.type);
      EXPECT_EQ(tensor->dims, expected.dims);
      EXPECT_EQ(Fnv1a(ReadAll(*model, *tensor)), expected.hash);
    }
  }
}

TEST(ModelFile, AnyBandOfRowsIsThatPartOfTheWhole) {
  std::mt19937 random(7);
  for (const auto& [name, tensors] : ReadGolden()) {
    const std::unique_ptr<ModelFile> model = OpenOrNull(ModelDirectory(name));
    ASSERT_NE(model, nullptr);
    for (const ModelTensor& tensor : model->tensors()) {
      const std::vector<std::byte> whole = ReadAll(*model, tensor);
      const uint64_t rows = tensor.row_count();
      const uint64_t row_bytes = whole.size() / rows;
      std::vector<std::byte> banded;
      for (uint64_t first = 0; first < rows;) {
        const uint64_t count = std::min<uint64_t>(rows - first, random() % 9);  // 0 too
        std::vector<std::byte> band(count * row_bytes);
        ASSERT_TRUE(model->ReadRows(tensor, first, count, band).ok());
        banded.insert(banded.end(), band.begin(), band.end());
        first += count;
      }
      EXPECT_TRUE(banded == whole) << name << " " << tensor.name;
    }
  }
}

// Wherever they come from: plain, in pairs, transposed, gathered, or made.
TEST(ModelFile, RowsCanBeReadAgainInAnyOrder) {
  for (const auto& [name, tensors] : ReadGolden()) {
    const std::unique_ptr<ModelFile> model = OpenOrNull(ModelDirectory(name));
    ASSERT_NE(model, nullptr);
    for (const ModelTensor& tensor : model->tensors()) {
      const std::vector<std::byte> before = ReadAll(*model, tensor);
      const uint64_t rows = tensor.row_count();
      const uint64_t row_bytes = before.size() / rows;
      std::vector<std::byte> again(before.size());
      for (uint64_t row = rows; row-- > 0;) {
        const std::span<std::byte> out = std::span(again).subspan(row * row_bytes, row_bytes);
        ASSERT_TRUE(model->ReadRows(tensor, row, 1, out).ok());
      }
      EXPECT_TRUE(again == before) << name << ", " << tensor.name;
      EXPECT_TRUE(ReadAll(*model, tensor) == before) << name << ", " << tensor.name;
    }
  }
}

TEST(ModelFile, RowsOfAllTensorsCanBeReadByTurns) {
  for (const auto& [name, tensors] : ReadGolden()) {
    const std::unique_ptr<ModelFile> model = OpenOrNull(ModelDirectory(name));
    ASSERT_NE(model, nullptr);
    std::map<std::string, std::vector<std::byte>> whole;
    for (const ModelTensor& tensor : model->tensors()) whole[tensor.name] = ReadAll(*model, tensor);
    for (uint64_t row = 0; row < 3; ++row) {
      for (const ModelTensor& tensor : model->tensors()) {
        if (row >= tensor.row_count()) continue;
        const std::span<const std::byte> all = whole[tensor.name];
        std::vector<std::byte> bytes(all.size() / tensor.row_count());
        ASSERT_TRUE(model->ReadRows(tensor, row, 1, bytes).ok());
        EXPECT_TRUE(std::ranges::equal(bytes, all.subspan(row * bytes.size(), bytes.size())))
            << name << ", " << tensor.name;
      }
    }
  }
}

TEST(ModelFile, ThePlaceOfATensorHoldsItsBytes) {
  size_t places = 0;
  for (const auto& [name, tensors] : ReadGolden()) {
    const std::unique_ptr<ModelFile> model = OpenOrNull(ModelDirectory(name));
    ASSERT_NE(model, nullptr);
    for (const ModelTensor& tensor : model->tensors()) {
      if (!tensor.place) continue;
      ++places;
      ASSERT_LT(tensor.place->file, model->file_count());
      std::ifstream file(model->file_path(tensor.place->file), std::ios::binary);
      std::vector<std::byte> bytes(tensor.bytes);
      file.seekg(static_cast<std::streamoff>(tensor.place->offset));
      file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
      EXPECT_TRUE(bytes == ReadAll(*model, tensor)) << name << " " << tensor.name;
    }
  }
  EXPECT_GT(places, 300u);  // all but permuted, transposed, stacked and made ones
}

TEST(ModelFile, ReadsFromManyThreadsAtOnce) {
  const std::unique_ptr<ModelFile> model = OpenOrNull(ModelDirectory("gpt2"));
  ASSERT_NE(model, nullptr);
  std::vector<std::vector<std::byte>> expected;
  for (const ModelTensor& tensor : model->tensors()) expected.push_back(ReadAll(*model, tensor));
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (size_t t = 0; t < expected.size(); ++t) {
        EXPECT_TRUE(ReadAll(*model, model->tensors()[t]) == expected[t]);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(ModelFile, RowsThatAreNotThereAreRefused) {
  const std::unique_ptr<ModelFile> model = OpenOrNull(ModelDirectory("llama"));
  ASSERT_NE(model, nullptr);
  const ModelTensor& tensor = *model->Find("blk.0.attn_q.weight");
  std::vector<std::byte> row(RowBytes(tensor.type, tensor.dims[0]));
  EXPECT_TRUE(model->ReadRows(tensor, 63, 1, row).ok());
  EXPECT_TRUE(model->ReadRows(tensor, 64, 0, {}).ok());
  EXPECT_EQ(model->ReadRows(tensor, 64, 1, row).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(model->ReadRows(tensor, 1, UINT64_MAX, row).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(model->ReadRows(tensor, 0, 2, row).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(model->Find("blk.2.attn_q.weight"), nullptr);
}

// Rows of a model whose files are cut to a page after they were opened.
void ExpectLost(const std::string& path, const std::string& file) {
  const std::unique_ptr<ModelFile> model = *ModelFile::Open(path);
  fs::resize_file(file, 4096);
  bool has_lost_one = false;
  for (const ModelTensor& tensor : model->tensors()) {
    std::vector<std::byte> rows(tensor.bytes);
    const absl::Status status = model->ReadRows(tensor, 0, tensor.row_count(), rows);
    if (status.ok()) continue;  // within the page that is left
    has_lost_one = true;
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(Concat(file, ": tensor ", tensor.name, " cannot be read at offset ")));
    EXPECT_TRUE(Message(status).ends_with(": the file has become shorter")) << status;
  }
  EXPECT_TRUE(has_lost_one);
}

TEST(ModelFile, AFileThatShrinksIsAnErrorThatNamesTensorAndPlace) {
  const ScratchDir scratch;
  const std::string directory = scratch.File("llama");
  fs::copy(ModelDirectory("llama"), directory);
  const std::string gguf = scratch.File("llama.gguf");
  OUTRIDER_CHECK_OK(
      Convert(**ModelFile::Open(directory), gguf, {}, [](uint64_t, std::string_view) {}));
  ExpectLost(gguf, gguf);
  ExpectLost(directory, directory + "/model.safetensors");
}

// What describes the model was copied when it was opened.
TEST(ModelFile, AFileThatIsEmptiedStillSaysWhatItIs) {
  const ScratchDir scratch;
  const std::string gguf = scratch.File("llama.gguf");
  OUTRIDER_CHECK_OK(Convert(**ModelFile::Open(ModelDirectory("llama")), gguf, {},
                            [](uint64_t, std::string_view) {}));
  const std::unique_ptr<ModelFile> model = OpenOrNull(gguf);
  const size_t token_count = model->ReadTokenizer()->tokens.size();
  fs::resize_file(gguf, 0);
  const absl::StatusOr<TokenizerSpec> spec = model->ReadTokenizer();
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->tokens.size(), token_count);
  EXPECT_EQ(model->hyperparameters().architecture, Architecture::kLlama);
}

TEST(ModelFile, HuggingFaceModelsCarryTheirTokenizer) {
  const std::unique_ptr<ModelFile> model = OpenOrNull(ModelDirectory("llama"));
  ASSERT_NE(model, nullptr);
  const absl::StatusOr<TokenizerSpec> spec = model->ReadTokenizer();
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->tokens.size(), model->hyperparameters().vocabulary_size);
  const std::unique_ptr<ModelFile> bare = OpenOrNull(ModelDirectory("t5"));
  ASSERT_NE(bare, nullptr);
  EXPECT_EQ(bare->ReadTokenizer().status().code(), absl::StatusCode::kNotFound);
}

TEST(ModelFile, TiedEmbeddingsHaveNoOutputMatrix) {
  EXPECT_EQ(OpenOrNull(ModelDirectory("qwen3"))->Find("output.weight"), nullptr);
  EXPECT_TRUE(OpenOrNull(ModelDirectory("qwen3"))->hyperparameters().tied_embeddings);
  EXPECT_FALSE(OpenOrNull(ModelDirectory("llama"))->hyperparameters().tied_embeddings);
}

TEST(ModelFile, WhatCannotBeOpenedGetsAHelpfulSentence) {
  const ScratchDir scratch;
  const auto message = [&](std::string_view path) {
    return std::string(Message(ModelFile::Open(std::string(path)).status()));
  };
  EXPECT_THAT(message(scratch.File("absent")), HasSubstr("there is no such file or directory"));
  EXPECT_THAT(message(scratch.path()), HasSubstr("has no config.json"));
  scratch.Write("b.gguf", "");
  scratch.Write("a.gguf", "");
  EXPECT_THAT(message(scratch.path()), HasSubstr("such as " + scratch.File("a.gguf")));
  fs::copy_file(ModelDirectory("llama/config.json"), scratch.File("config.json"));
  EXPECT_THAT(message(scratch.path()), HasSubstr("no *.safetensors"));
  scratch.Write("pytorch_model.bin", "");
  EXPECT_THAT(message(scratch.path()), HasSubstr("PyTorch pickles"));
  EXPECT_THAT(message(ModelDirectory("llama/model.safetensors")),
              HasSubstr("open its directory, " + ModelDirectory("llama")));
  EXPECT_FALSE(ModelFile::Open(scratch.File("pytorch_model.bin")).ok());
  EXPECT_FALSE(ModelFile::Open("/dev/null").ok());
}

}  // namespace
}  // namespace outrider
