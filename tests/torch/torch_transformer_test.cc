// Two programs that share no arithmetic, ours and libtorch, come to the same logits.
#include "common/torch/torch_transformer.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>

#include <random>

#include "common/formats/models/tensor_layout.h"
#include "common/text/tokenizer_source.h"
#include "common/torch/torch_attention.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/base/scratch_dir.h"
#include "tests/model/golden_logits.h"
#include "tests/model/random_model.h"
#include "tests/model/stories.h"
#include "tests/torch/torch_model.h"

namespace outrider {
namespace {

using ::testing::HasSubstr;
using Rows = std::vector<std::vector<float>>;

std::vector<TokenId> RandomTokens(size_t count, uint32_t vocabulary, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<TokenId> tokens(count);
  for (TokenId& token : tokens) token = static_cast<TokenId>(random() % vocabulary);
  return tokens;
}

void ExpectNear(const Rows& rows, const Rows& expected, double tolerance) {
  ASSERT_EQ(rows.size(), expected.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    ASSERT_EQ(rows[i].size(), expected[i].size());
    EXPECT_LE(Distance(rows[i], expected[i]), tolerance) << "row " << i;
  }
}

// Over all rows together, and loosely over each: now and then a key that lies between two halves is
// rounded up by one program and down by the other, which the few rows that look at it notice.
void ExpectNearButForHalves(const Rows& rows, const Rows& expected, double tolerance) {
  ExpectNear(rows, expected, 1e-3);
  std::vector<float> all, all_expected;
  for (const auto& row : rows) all.insert(all.end(), row.begin(), row.end());
  for (const auto& row : expected) all_expected.insert(all_expected.end(), row.begin(), row.end());
  EXPECT_LE(Distance(all, all_expected), tolerance);
}

// Every layer's output, and the logits, with keys and values rounded to halves as the core's cache
// has them.
struct Halves {
  std::vector<Rows> layers;
  Rows logits;
};

Halves ComputeWithHalves(const TorchTransformer& model, std::span<const TokenId> tokens) {
  const c10::InferenceMode inference;
  const at::Tensor positions = at::arange(static_cast<int64_t>(tokens.size()));
  const at::Tensor distance = positions.unsqueeze(1).sub(positions);
  const auto attend = [&](uint32_t layer, const at::Tensor& query, const at::Tensor& key,
                          const at::Tensor& value) {
    const AttentionSpec& shape = *model.spec().layers[layer].attention();
    at::Tensor hidden = distance.lt(0);
    if (shape.window) hidden = hidden.logical_or(distance.ge(int64_t{*shape.window}));
    return Attend(query, key.to(at::kHalf).to(at::kFloat), value.to(at::kHalf).to(at::kFloat),
                  shape.scale, hidden.unsqueeze(0));
  };
  Halves result;
  const auto observe = [&](uint32_t, const at::Tensor& x) { result.layers.push_back(RowsOf(x)); };
  result.logits = RowsOf(
      model.Head(model.Layers(model.Embed(TokenRow(tokens)), positions, attend, nullptr, observe)));
  return result;
}

Rows Compute(const TorchTransformer& model, std::span<const TokenId> tokens) {
  const c10::InferenceMode inference;
  return RowsOf(model.Forward(TokenRow(tokens), {}).logits);
}

// The hidden states the core lets others see.
class Recorder final : public LayerObserver {
 public:
  void AfterLayer(uint32_t, LayerView& view) override {
    Rows& rows = layers.emplace_back();
    for (size_t i = 0; i < view.rows().size(); ++i) {
      rows.emplace_back(view.hidden(i).begin(), view.hidden(i).end());
    }
  }
  std::vector<Rows> layers;
};

void ExpectAgreement(const std::string& path, std::span<const TokenId> tokens,
                     double tolerance = 1e-4) {
  LoadedModel engine(path, {.row_count_max = 160});
  const auto sequence = engine.NewSequence();
  OUTRIDER_CHECK_OK(sequence->Reserve(static_cast<uint32_t>(tokens.size()), 0));
  engine.batch.AddChain(*sequence, tokens);
  Recorder recorder;
  OUTRIDER_CHECK_OK(engine.transformer->Forward(engine.batch, &recorder));
  const Halves torch = ComputeWithHalves(LoadTorch(path), tokens);
  ExpectNearButForHalves(torch.logits, engine.Logits(), tolerance);
  ASSERT_EQ(recorder.layers.size() + 1, torch.layers.size()) << "all but the last";
  for (size_t layer = 0; layer < recorder.layers.size(); ++layer) {
    SCOPED_TRACE(layer);
    ExpectNearButForHalves(torch.layers[layer], recorder.layers[layer], tolerance);
  }
}

// --- the same numbers as others ---

class TorchLogits : public testing::TestWithParam<GoldenModel> {};

TEST_P(TorchLogits, AreThoseOfTransformers) {
  const Golden golden = ReadGolden(GetParam().name);
  const Rows logits = Compute(LoadTorch(TestFile(GetParam().directory)), golden.tokens);
  Rows asked;
  for (const uint32_t position : golden.positions) asked.push_back(logits[position]);
  ExpectNear(asked, golden.exact, 1e-4);
}

TEST_P(TorchLogits, AreThoseOfTheCore) {
  const Golden golden = ReadGolden(GetParam().name);
  ExpectAgreement(TestFile(GetParam().directory), golden.tokens, GetParam().tolerance);
}

// Else no exits file would fit both.
TEST_P(TorchLogits, AreOfTheSameContent) {
  const std::string path = TestFile(GetParam().directory);
  EXPECT_EQ(LoadTorch(path).content_hash(), LoadedModel(path).weights->content_hash());
}

INSTANTIATE_TEST_SUITE_P(Models, TorchLogits, testing::ValuesIn(TorchModels()),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(TorchTransformer, WhatTheCoreAloneComputesIsRefusedByItsPart) {
  for (const GoldenModel& model : TorchModels(/*computed=*/false)) {
    SCOPED_TRACE(model.name);
    const std::string path = TestFile(model.directory);
    const absl::Status status =
        TorchTransformer::Load(*OrDie(ModelFile::Open(path)), path, at::kCPU).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << status;
    EXPECT_THAT(Message(status), HasSubstr("cannot be computed on libtorch yet"));
  }
}

TEST(TorchTransformer, AgreesWithTheCoreOnStories) {
  ExpectAgreement(Stories(), RandomTokens(150, 512, 1));
}

// The models that are shipped, on their own text.
TEST(TorchTransformer, AgreesWithTheCoreOnTheDemonstrationModels) {
  for (const char* model : {"target.gguf", "draft.gguf"}) {
    SCOPED_TRACE(model);
    const std::string path = TestFile(Concat("../../deploy/demo-models/", model));
    const std::unique_ptr<Tokenizer> tokenizer = OrDie(OpenTokenizer(path));
    const std::vector<TokenId> tokens = tokenizer->Encode(
        "Once upon a time there was a little girl who lived with her mother in a house by the sea. "
        "Every morning she went down to the water to see whether the boats had come home.");
    ASSERT_GT(tokens.size(), 30);
    ExpectAgreement(path, tokens);
  }
}

TEST(TorchTransformer, AgreesWithTheCoreOnWiderModels) {
  const ScratchDir dir;
  const std::string path = dir.File("model.gguf");
  const auto check = [&](const char* family, TensorType type) {
    SCOPED_TRACE(family + std::string(Name(type)));
    WriteRandomModel(SmallModel(family), type, path);
    ExpectAgreement(path, RandomTokens(100, 200, 2));
  };
  for (const char* family : {"llama", "mistral", "qwen2", "qwen3", "gpt2"}) {
    check(family, TensorType::kF32);
  }
  check("llama", TensorType::kF16);
  check("llama", TensorType::kBF16);
  Hyperparameters norms = SmallModel("stablelm2");
  norms.parallel_blocks = false;
  WriteRandomModel(norms, TensorType::kF32, path);
  ExpectAgreement(path, RandomTokens(100, 200, 2));
}

// --- documents ---

TEST(TorchTransformer, APackedRowIsItsDocumentsApart) {
  const ScratchDir dir;
  const std::string path = dir.File("model.gguf");
  for (const char* family : {"llama", "mistral", "gpt2"}) {
    SCOPED_TRACE(family);
    WriteRandomModel(SmallModel(family), TensorType::kF32, path);
    const TorchTransformer model = LoadTorch(path);
    const c10::InferenceMode inference;
    // Rows of 70 tokens: documents of 30, 39 and 1, then one of 70; numbered as they come.
    const std::vector<TokenId> tokens = RandomTokens(140, 200, 3);
    const std::vector<int64_t> lengths = {30, 39, 1, 70};
    std::vector<at::Tensor> numbers;
    Rows apart;
    int64_t at = 0;
    for (const int64_t length : lengths) {
      numbers.push_back(at::full({length}, static_cast<int64_t>(numbers.size()), at::kLong));
      for (auto& row : Compute(model, std::span(tokens).subspan(at, length))) apart.push_back(row);
      at += length;
    }
    const at::Tensor packed = TokenRow(tokens).view({2, 70});
    const TorchOutput output = model.Forward(packed, {.documents = at::cat(numbers).view({2, 70})});
    // What differs is how a product of more rows is cut up.
    ExpectNear(RowsOf(output.logits), apart, 1e-5);
  }
}

// --- hidden states ---

TEST(TorchTransformer, HandsOutTheHiddenStatesAskedFor) {
  const TorchTransformer model = LoadTorch(Stories());
  const c10::InferenceMode inference;
  const at::Tensor tokens = TokenRow(RandomTokens(20, 512, 4));
  const uint32_t last = model.spec().layer_count() - 1;
  const TorchOutput output = model.Forward(tokens, {.hidden_layers = {1, last}});
  ASSERT_EQ(output.hidden.size(), 2u);
  EXPECT_TRUE(model.Head(output.hidden[1]).equal(output.logits));
  EXPECT_FALSE(output.hidden[0].equal(output.hidden[1]));
}

// --- parameters ---

TEST(TorchTransformer, ParametersAreTheFilesTensorsByName) {
  const std::string path = TestFile("models/gpt2");
  const TorchTransformer model = LoadTorch(path);
  const auto file = OrDie(ModelFile::Open(path));
  EXPECT_EQ(model.parameters().size(), file->tensors().size());
  EXPECT_EQ(model.parameters().front().name, "token_embd.weight");
  for (const NamedParameter& parameter : model.parameters()) {
    const ModelTensor* const tensor = file->Find(parameter.name);
    ASSERT_NE(tensor, nullptr) << parameter.name;
    EXPECT_EQ(parameter.value.scalar_type(), at::kFloat);
    EXPECT_EQ(parameter.value.sizes().vec(),
              std::vector<int64_t>(tensor->dims.rbegin(), tensor->dims.rend()));
  }
}

TEST(TorchTransformer, ComputesWithWhatIsPutInAParametersPlace) {
  TorchTransformer model = LoadTorch(Stories());
  const std::vector<TokenId> tokens = RandomTokens(9, 512, 5);
  const Rows before = Compute(model, tokens);
  TorchTransformer moved = std::move(model);
  EXPECT_EQ(Compute(moved, tokens), before);
  for (NamedParameter& parameter : moved.parameters()) {
    if (parameter.name == "output_norm.weight") parameter.value = parameter.value * 2.0f;
  }
  Rows twice = before;
  for (auto& row : twice) {
    for (float& logit : row) logit *= 2.0f;
  }
  EXPECT_EQ(Compute(moved, tokens), twice);
}

TEST(TorchTransformer, ANewModelIsAFunctionOfItsSeed) {
  Hyperparameters shape = SmallModel("qwen2");
  const auto make = [&](uint64_t seed) {
    return OrDie(TorchTransformer::Initialise(shape, seed, at::kCPU));
  };
  const TorchTransformer model = make(1), same = make(1), other = make(2);
  std::vector<ExpectedTensor> layout = TensorLayout(shape);
  std::erase_if(layout, [](const ExpectedTensor& tensor) { return !tensor.required; });
  ASSERT_EQ(model.parameters().size(), layout.size());
  for (size_t i = 0; i < layout.size(); ++i) {
    const auto& [name, value] = model.parameters()[i];
    EXPECT_EQ(name, layout[i].name);
    EXPECT_TRUE(value.equal(same.parameters()[i].value));
    EXPECT_EQ(value.dim() == 2, !value.equal(other.parameters()[i].value)) << name;
  }
  // An untrained model expects nothing in particular: its loss is that of a guess.
  const Rows logits = Compute(model, RandomTokens(30, 200, 6));
  for (const auto& row : logits) {
    double sum = 0;
    for (const float logit : row) sum += std::exp(static_cast<double>(logit));
    EXPECT_NEAR(std::log(sum), std::log(200.0), 0.2);
  }
  shape = SmallModel("llama");
  const absl::Status status = TorchTransformer::Initialise(shape, 1, at::kCPU).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(Message(status)), HasSubstr("rope_freqs.weight has 0 factors"));
}

// --- bad input ---

TEST(TorchTransformer, WhatTheCoreDoesNotRunIsRefused) {
  const std::string path = TestFile("models/t5");
  const absl::Status status =
      TorchTransformer::Load(*OrDie(ModelFile::Open(path)), path, at::kCPU).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << status;
  EXPECT_THAT(std::string(Message(status)), HasSubstr("models/t5: running a model of encoder"));
}

TEST(TorchTransformer, ADeviceThatIsNotThereIsAStatus) {
  const auto file = OrDie(ModelFile::Open(Stories()));
  const at::Device nowhere(at::kCUDA, 99);
  const absl::Status status = TorchTransformer::Load(*file, "a.gguf", nowhere).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_THAT(std::string(Message(status)), HasSubstr("a.gguf: libtorch: "));
}

}  // namespace
}  // namespace outrider
