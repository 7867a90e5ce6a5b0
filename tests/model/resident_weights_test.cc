#include "common/model/weights/resident_weights.h"

#include <fstream>
#include <functional>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/config.h"
#include "common/base/status.h"
#include "common/formats/containers/gguf_writer.h"
#include "common/formats/models/content_parts.h"
#include "common/formats/models/content_record.h"
#include "common/formats/models/convert.h"
#include "common/model/numerics_id.h"
#include "common/model/weights/type_speed.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/base/scratch_dir.h"
#include "tests/model/engine.h"
#include "tests/model/golden_logits.h"
#include "tests/model/random_model.h"
#include "tests/test_files.h"

namespace outrider {
namespace {

using ::testing::HasSubstr;

std::unique_ptr<ResidentWeights> LoadModel(const std::string& path, uint32_t thread_count,
                                           const LoadProgress& progress = nullptr) {
  const auto model = OrDie(ModelFile::Open(path));
  const auto pool = OrDie(ThreadPool::Create(thread_count));
  return OrDie(
      ResidentWeights::Load(*model, OrDie(ModelSpec::From(*model, path)), path, *pool, progress));
}

uint64_t HashOf(const std::string& path, uint32_t thread_count = 2) {
  return LoadModel(path, thread_count)->content_hash();
}

TEST(ResidentWeights, AreHashedWhateverReadsThem) {
  const ScratchDir dir;
  const std::string path = dir.File("model.gguf");
  WriteRandomModel(SmallModel("gpt2"), TensorType::kQ4_K, path);
  const uint64_t hash = HashOf(path, 1);
  EXPECT_EQ(HashOf(path, 2), hash);
  EXPECT_EQ(HashOf(path, 3), hash);

  // A model and its conversion, as stored, hold the same bytes.
  const std::string converted = dir.File("llama.gguf");
  OUTRIDER_CHECK_OK(Convert(*OrDie(ModelFile::Open(TestFile("models/llama"))), converted, {},
                            [](uint64_t, std::string_view) {}));
  EXPECT_EQ(HashOf(converted), HashOf(TestFile("models/llama")));
}

TEST(ResidentWeights, AreHashedAsAPlainReadHashesThem) {
  std::vector<GoldenModel> models(std::begin(kGoldenModels), std::end(kGoldenModels));
  models.push_back(kPackedModel);
  for (const GoldenModel& model : models) {
    SCOPED_TRACE(model.directory);
    const std::string path = TestFile(model.directory);
    EXPECT_EQ(OrDie(HashContent(*OrDie(ModelFile::Open(path)))), HashOf(path));
  }
}

absl::Status LoadStatus(const std::string& path) {
  const auto model = OrDie(ModelFile::Open(path));
  const auto pool = OrDie(ThreadPool::Create(1));
  const ModelSpec spec = OrDie(ModelSpec::From(*model, path));
  return ResidentWeights::Load(*model, spec, path, *pool, nullptr).status();
}

// Where a u64 of the metadata stands.
size_t ValueAt(const std::string& bytes, std::string_view key) {
  const size_t at = bytes.find(key);
  OUTRIDER_CHECK(at != std::string::npos, "the key is there");
  return at + key.size() + sizeof(uint32_t);
}

// Whatever it is converted from and to.
TEST(ContentRecord, SaysWhatAConvertedFileHolds) {
  const ScratchDir dir;
  const std::string path = dir.File("converted.gguf");
  for (const char* name : {"models/gpt2", "models/mixtral", "models/olmoe", "models/qwen2"}) {
    for (const std::optional<TensorType> type :
         {std::optional<TensorType>(), std::optional(TensorType::kQ8_0)}) {
      SCOPED_TRACE(name);
      OUTRIDER_CHECK_OK(Convert(*OrDie(ModelFile::Open(TestFile(name))), path, {.type = type},
                                [](uint64_t, std::string_view) {}));
      EXPECT_EQ(OrDie(ModelFile::Open(path))->RecordedContentHash(), HashOf(path));
    }
  }
  EXPECT_EQ(OrDie(ModelFile::Open(TestFile("models/gpt2")))->RecordedContentHash(), std::nullopt);
}

TEST(ContentRecord, OfAnotherFileIsNotBelieved) {
  const ScratchDir dir;
  const auto convert = [&](const char* name, const std::string& path) {
    OUTRIDER_CHECK_OK(Convert(*OrDie(ModelFile::Open(TestFile(name))), path, {},
                              [](uint64_t, std::string_view) {}));
  };
  // As a program does that copies metadata to a file whose tensors are of other types.
  const std::string path = dir.File("converted.gguf"), other = dir.File("other.gguf");
  convert("models/qwen2", path);
  convert("models/mixtral", other);
  const std::string bytes = Contents(other);
  std::string copied = Contents(path);
  for (const std::string_view key : {kContentHashKey, kContentTableKey}) {
    copied.replace(ValueAt(copied, key), 8, bytes, ValueAt(bytes, key), 8);
  }
  const std::string changed = dir.Write("changed.gguf", copied);
  EXPECT_EQ(OrDie(ModelFile::Open(changed))->RecordedContentHash(), std::nullopt);
  EXPECT_EQ(HashOf(changed), HashOf(path)) << "and so it is computed";

  // Nor is it passed on.
  const std::string again = dir.File("again.gguf");
  OUTRIDER_CHECK_OK(
      Convert(*OrDie(ModelFile::Open(changed)), again, {}, [](uint64_t, std::string_view) {}));
  EXPECT_EQ(OrDie(ModelFile::Open(again))->RecordedContentHash(), HashOf(path));
}

TEST(ContentRecord, ThatLiesIsFoundOutByWhoeverReadsTheWeights) {
  const ScratchDir dir;
  const std::string path = dir.File("converted.gguf");
  OUTRIDER_CHECK_OK(Convert(*OrDie(ModelFile::Open(TestFile("models/llama"))), path, {},
                            [](uint64_t, std::string_view) {}));
  OUTRIDER_CHECK_OK(LoadStatus(path));
  const auto expect_refusal = [&](const std::string& bytes) {
    const std::string changed = dir.Write("changed.gguf", bytes);
    EXPECT_NE(OrDie(ModelFile::Open(changed))->RecordedContentHash(), std::nullopt) << "believed";
    const absl::Status status = LoadStatus(changed);
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
    EXPECT_THAT(std::string(Message(status)), HasSubstr(changed + ": its weights hash to "));
    EXPECT_THAT(std::string(Message(status)), HasSubstr("its key outrider.content_hash says "));
    EXPECT_THAT(std::string(Message(status)), HasSubstr("run `outrider convert` on it"));
  };
  std::string lies = Contents(path);
  lies[ValueAt(lies, kContentHashKey)] ^= 1;
  expect_refusal(lies);
  std::string edited = Contents(path);
  edited[edited.size() / 2] ^= 1;  // a weight
  expect_refusal(edited);
}

TEST(ResidentWeights, EveryByteOfATensorCounts) {
  const ScratchDir dir;
  const std::string path = dir.File("model.gguf");
  WriteRandomModel(SmallModel("llama"), TensorType::kQ8_0, path);
  const uint64_t hash = HashOf(path);
  const std::string bytes = Contents(path);
  const auto model = OrDie(ModelFile::Open(path));
  for (const char* name :
       {"blk.1.ffn_down.weight", "token_embd.weight", "blk.0.attn_norm.weight"}) {
    const ModelTensor* const tensor = model->Find(name);
    for (const uint64_t at : {uint64_t{0}, tensor->bytes / 2, tensor->bytes - 1}) {
      SCOPED_TRACE(std::string(name) + " " + std::to_string(at));
      std::string changed = bytes;
      changed[tensor->place->offset + at] =
          static_cast<char>(changed[tensor->place->offset + at] ^ 1);
      EXPECT_NE(HashOf(dir.Write("changed.gguf", changed)), hash);
    }
  }
}

// Ids are written down: in exits files, in sessions that wait to be resumed. Those of a model stay.
TEST(ResidentWeights, IdsOfModelsStayWhatTheyWere) {
  struct Known {
    const char* directory;
    const char* numerics_id;
    uint64_t content_hash;
  };
  for (const Known& known : std::initializer_list<Known>{
           {"models/llama", "d3931a43ef5aa632", 0xc1e41828ed4d7463},
           {"models/llama_biased", "8c0f74e5aaf8f7f7", 0xad2179a038379800},
           {"logits/llama_linear", "d285d94d6a810bab", 0xfcc492ca2b402355},
           {"models/mistral", "c51ec5acb4d99a07", 0xcd7ca9b27decf004},
           {"logits/mistral_short_window", "a6d4362ed0062916", 0x08f0ad40394734b8},
           {"models/qwen2", "ec8aa3578686cb39", 0xe270189b765e2cca},
           {"models/qwen3", "aa6e6d61a2651548", 0xb8eb0dd099f878e1},
           {"models/gpt2", "016dbdf56ab53f9b", 0x153f0a5be4f66d56},
           {"logits/gpt2_untied", "0760a01f3a938473", 0x501167dbb7c46456},
       }) {
    SCOPED_TRACE(known.directory);
    const std::string path = TestFile(known.directory);
    EXPECT_EQ(HashOf(path), known.content_hash);
    const ModelSpec spec = OrDie(ModelSpec::From(*OrDie(ModelFile::Open(path)), path));
    EXPECT_EQ(NumericsId::Of(spec, known.content_hash, "cpu", "f16").ToString(), known.numerics_id);
  }
}

TEST(ResidentWeights, TheNumericsIdHasTheModelsNumbersToo) {
  const ModelSpec spec =
      OrDie(ModelSpec::From(*OrDie(ModelFile::Open(TestFile("models/llama"))), "llama"));
  const NumericsId id = NumericsId::Of(spec, 7, "cpu", "f16");
  EXPECT_EQ(NumericsId::Of(spec, 7, "cpu", "f16"), id);
  EXPECT_NE(NumericsId::Of(spec, 8, "cpu", "f16"), id);
  EXPECT_NE(NumericsId::Of(spec, 7, "cuda", "f16"), id);
  EXPECT_NE(NumericsId::Of(spec, 7, "cpu", "f32"), id);
  ModelSpec other = spec;
  other.name = "the same by another name";
  EXPECT_EQ(NumericsId::Of(other, 7, "cpu", "f16"), id);
  other.layers[1].attention()->rope.base *= 2;
  EXPECT_NE(NumericsId::Of(other, 7, "cpu", "f16"), id);
  other.layers[0].attention()->rope.base *= 2;
  EXPECT_NE(NumericsId::Of(other, 7, "cpu", "f16"), id);
  EXPECT_EQ(id.ToString().size(), 16u);
}

// A model with a rule more is another.
TEST(ResidentWeights, TheNumericsIdHasEveryScaleAndCap) {
  const ModelSpec spec =
      OrDie(ModelSpec::From(*OrDie(ModelFile::Open(TestFile("models/llama"))), "llama"));
  const std::function<void(ModelSpec&)> changes[] = {
      [](ModelSpec&) {},
      [](ModelSpec& other) { other.embedding_scale = 2; },
      [](ModelSpec& other) { other.residual_scale = 2; },
      [](ModelSpec& other) { other.logit_scale = 2; },
      [](ModelSpec& other) { other.logit_soft_cap = 2; },
      [](ModelSpec& other) { other.logit_soft_cap = 1; },
      [](ModelSpec& other) { other.layers[0].attention()->soft_cap = 2; },
      [](ModelSpec& other) { other.layers[1].attention()->soft_cap = 2; },
      [](ModelSpec& other) {
        for (LayerSpec& layer : other.layers) layer.attention()->soft_cap = 2;
      },
      [](ModelSpec& other) {
        other.layers[0].attention()->query_growth = {0.1f, 16};
      },
      [](ModelSpec& other) {
        for (LayerSpec& layer : other.layers) layer.attention()->query_growth = {0.1f, 16};
      },
      [](ModelSpec& other) {
        for (LayerSpec& layer : other.layers) layer.attention()->query_growth = {0.2f, 16};
      },
      [](ModelSpec& other) {
        for (LayerSpec& layer : other.layers) layer.attention()->query_growth = {0.1f, 17};
      },
      [](ModelSpec& other) {
        for (LayerSpec& layer : other.layers) layer.is_parallel = true;
      },
      [](ModelSpec& other) { other.layers[1].is_parallel = true; },
      [](ModelSpec& other) {
        for (LayerSpec& layer : other.layers) layer.attention()->head_norms = HeadNorms::kLayerEach;
      },
      [](ModelSpec& other) { other.layers[1].attention()->head_norms = HeadNorms::kLayerEach; },
      [](ModelSpec& other) { other.layers[1].attention()->window = 8; },
      [](ModelSpec& other) { other.layers[1].attention()->rope = {}; },
  };
  std::set<uint64_t> ids;
  for (const auto& change : changes) {
    ModelSpec other = spec;
    change(other);
    ids.insert(NumericsId::Of(other, 7, "cpu", "f16").value());
  }
  EXPECT_EQ(ids.size(), std::size(changes));
}

// A type that gets a kernel changes the bits, and so the ids, of models that have it: of no other.
TEST(ResidentWeights, TheNumericsIdHasTheVersionOfItsTypesRules) {
  const ScratchDir dir;
  const std::string path = dir.File("model.gguf");
  const auto version_of = [&](TensorType type) {
    WriteRandomModel(SmallModel("llama"), type, path);
    return OrDie(ModelSpec::From(*OrDie(ModelFile::Open(path)), path)).numerics_version;
  };
  for (const TensorType type : {TensorType::kF16, TensorType::kQ8_0, TensorType::kQ4_K}) {
    EXPECT_EQ(version_of(type), 1u) << Name(type);
  }
  for (const TensorType type : {TensorType::kQ5_0, TensorType::kQ2_K, TensorType::kMXFP4}) {
    EXPECT_EQ(version_of(type), 2u) << Name(type);
  }
  for (const char* family :
       {"gemma2", "gemma3", "phi3", "granite", "granitemoe", "cohere2", "qwen2moe"}) {
    WriteRandomModel(SmallModel(family), TensorType::kQ8_0, path);
    EXPECT_EQ(OrDie(ModelSpec::From(*OrDie(ModelFile::Open(path)), path)).numerics_version, 3u);
  }
  WriteRandomModel(SmallModel("ministral3"), TensorType::kQ8_0, path);
  EXPECT_EQ(OrDie(ModelSpec::From(*OrDie(ModelFile::Open(path)), path)).numerics_version, 4u);
  ModelSpec spec =
      OrDie(ModelSpec::From(*OrDie(ModelFile::Open(TestFile("models/llama"))), "llama"));
  const NumericsId before = NumericsId::Of(spec, 7, "cpu", "f16");
  spec.numerics_version = 2;
  EXPECT_NE(NumericsId::Of(spec, 7, "cpu", "f16"), before);
}

TEST(ResidentWeights, ProgressEndsAtTheTotal) {
  const ScratchDir dir;
  const std::string path = dir.File("model.gguf");
  WriteRandomModel(SmallModel("qwen3"), TensorType::kF16, path);
  uint64_t last = 0, total = 0;
  LoadModel(path, 2, [&](uint64_t done, uint64_t all, std::string_view tensor) {
    EXPECT_GT(done, last);
    EXPECT_FALSE(tensor.empty());
    last = done;
    total = all;
  });
  EXPECT_GT(total, 0u);
  EXPECT_EQ(last, total);
}

TEST(ResidentWeights, TiedEmbeddingsAreKeptOnce) {
  const ScratchDir dir;
  const std::string path = dir.File("model.gguf");
  WriteRandomModel(SmallModel("qwen3"), TensorType::kQ8_0, path);
  const auto weights = LoadModel(path, 1);
  EXPECT_EQ(weights->head().matrix.data, weights->entry().embeddings.data);
  EXPECT_EQ(weights->head().matrix.layout, WeightLayout::kPanels);
  WriteRandomModel(SmallModel("llama"), TensorType::kQ8_0, path);
  const auto untied = LoadModel(path, 1);
  EXPECT_EQ(untied->entry().embeddings.layout, WeightLayout::kRows);
  EXPECT_EQ(untied->head().matrix.layout, WeightLayout::kPanels);
}

TEST(ResidentWeights, ATypeThatCannotBeDecodedIsRefusedByName) {
  const ScratchDir dir;
  const Hyperparameters model = SmallModel("mistral");
  const std::string path = dir.File("model.gguf");
  // NVFP4 has blocks of 64 in 36 bytes, as two of Q4_0 have; the type of a tensor is all that
  // tells.
  WriteRandomModel(model, TensorType::kQ4_0, path);
  std::string bytes = Contents(path);
  const std::string name = "blk.1.attn_q.weight";
  const size_t at = bytes.find(name);
  ASSERT_NE(at, std::string::npos);
  bytes[at + name.size() + 4 + 2 * 8] = 40;  // after the number of dimensions and two of them
  const std::string changed = dir.Write("changed.gguf", bytes);
  const auto file = OrDie(ModelFile::Open(changed));
  const auto pool = OrDie(ThreadPool::Create(1));
  const absl::Status status =
      ResidentWeights::Load(*file, OrDie(ModelSpec::From(*file, changed)), changed, *pool, nullptr)
          .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << status;
  EXPECT_THAT(std::string(Message(status)), HasSubstr("tensor blk.1.attn_q.weight is NVFP4"));
}

TEST(ResidentWeights, ATypeWithoutAKernelIsKeptInRowsAndNamed) {
  const ScratchDir dir;
  const std::string path = dir.File("model.gguf");
  // IQ3_S has blocks of 256 in 110 bytes, as Q3_K has.
  WriteRandomModel(SmallModel("mistral"), TensorType::kQ3_K, path);
  EXPECT_EQ(SlowTypesNotice(*OrDie(ModelFile::Open(path)), path), "");
  std::string bytes = Contents(path);
  const std::string name = "blk.1.attn_q.weight";
  const size_t at = bytes.find(name);
  ASSERT_NE(at, std::string::npos);
  bytes[at + name.size() + 4 + 2 * 8] = 21;
  const std::string changed = dir.Write("changed.gguf", bytes);
  const auto file = OrDie(ModelFile::Open(changed));
  EXPECT_EQ(TypesWithoutKernels(*file), "IQ3_S");
  EXPECT_THAT(SlowTypesNotice(*file, "m.gguf"), HasSubstr("m.gguf: has matrices of IQ3_S"));
  const auto pool = OrDie(ThreadPool::Create(1));
  EXPECT_TRUE(
      ResidentWeights::Load(*file, OrDie(ModelSpec::From(*file, changed)), changed, *pool, nullptr)
          .ok());
}

uint64_t KibibytesOf(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(key)) return std::stoull(line.substr(key.size()));
  }
  return 0;
}

// The peak of resident memory, file pages included, while a model is loaded.
TEST(ResidentWeights, LoadingNeverHoldsTheModelTwice) {
#if defined(ABSL_HAVE_ADDRESS_SANITIZER) || defined(ABSL_HAVE_THREAD_SANITIZER)
  GTEST_SKIP() << "a sanitizer's own memory would be counted";
#endif
  const ScratchDir dir;
  Hyperparameters model = SmallModel("llama");
  model.block_count = 4;
  model.head_count.assign(4, 4);
  model.head_count_kv.assign(4, 2);
  model.embedding_length = 1024;
  model.feed_forward_length = 4096;
  model.vocabulary_size = 20000;  // one tensor that is a third of all
  const std::string path = dir.File("model.gguf");
  WriteRandomModel(model, TensorType::kQ8_0, path);
  const uint64_t file_kib = std::filesystem::file_size(path) / 1024;
  ASSERT_GT(file_kib, 80u * 1024);

  std::ofstream("/proc/self/clear_refs") << "5";  // the peak starts again from here
  const uint64_t before_kib = KibibytesOf("VmRSS:");
  if (KibibytesOf("VmHWM:") > before_kib + 1024) GTEST_SKIP() << "the peak cannot be reset here";
  const auto weights = LoadModel(path, 2);
  const uint64_t peak_kib = KibibytesOf("VmHWM:") - before_kib;
  EXPECT_GE(KibibytesOf("VmRSS:") - before_kib, file_kib * 9 / 10) << "it is all in memory";
  EXPECT_LE(peak_kib, file_kib * 11 / 10);
  RecordProperty("peak_over_file_percent", static_cast<int>(100 * peak_kib / file_kib));
}

}  // namespace
}  // namespace outrider
