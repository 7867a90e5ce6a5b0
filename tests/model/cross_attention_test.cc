// Layers that hear an encoder, and layers of different windows. No model that runs today has them,
// so both are put into one of random weights: against a plain reading of the formulas in double
// precision, and to the bit against the same rows read one after another.
#include <bit>
#include <cmath>
#include <cstdint>
#include <memory>
#include <numbers>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "common/kernels/weight_matrix.h"
#include "gtest/gtest.h"
#include "tests/base/scratch_dir.h"
#include "tests/model/engine.h"
#include "tests/model/hearing.h"
#include "tests/model/random_model.h"

namespace outrider {
namespace {

constexpr uint32_t kEncoderMax = 75;

using Logits = std::vector<std::vector<float>>;
using Doubles = std::vector<double>;

// --- the formulas, in double precision ---

Doubles Multiply(const Linear& linear, const Doubles& x) {
  Doubles y(linear.matrix.outputs);
  std::vector<float> row(linear.matrix.inputs);
  for (uint32_t n = 0; n < y.size(); ++n) {
    DecodeRow(linear.matrix, n, row);
    for (size_t i = 0; i < row.size(); ++i) y[n] += double{row[i]} * x[i];
    if (!linear.bias.empty()) y[n] += double{linear.bias[n]};
  }
  return y;
}

Doubles Normalize(std::span<const float> weight, const Doubles& x, double epsilon) {
  double sum = 0;
  for (const double value : x) sum += value * value;
  Doubles y(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    y[i] = x[i] / std::sqrt(sum / static_cast<double>(x.size()) + epsilon) * double{weight[i]};
  }
  return y;
}

void Add(Doubles& x, const Doubles& y) {
  for (size_t i = 0; i < x.size(); ++i) x[i] += y[i];
}

// Neighbouring numbers are pairs, and turn.
void Turn(Doubles& heads, uint32_t length, const Rope& rope, double position) {
  for (size_t head = 0; head < heads.size(); head += length) {
    for (uint32_t pair = 0; pair < rope.dimension_count / 2; ++pair) {
      const double angle =
          position / std::pow(double{rope.base}, 2.0 * pair / rope.dimension_count);
      double& a = heads[head + 2 * pair];
      double& b = heads[head + 2 * pair + 1];
      const double turned = a * std::cos(angle) - b * std::sin(angle);
      b = a * std::sin(angle) + b * std::cos(angle);
      a = turned;
    }
  }
}

template <typename Shape>
Doubles AttendTo(const Shape& shape, const Doubles& query, std::span<const Doubles> keys,
                 std::span<const Doubles> values) {
  Doubles out(size_t{shape.head_count} * shape.value_length);
  for (uint32_t head = 0; head < shape.head_count; ++head) {
    const uint32_t kv_head = head / (shape.head_count / shape.kv_head_count);
    Doubles weights;
    double sum = 0;
    for (const Doubles& key : keys) {
      double score = 0;
      for (uint32_t i = 0; i < shape.key_length; ++i) {
        score += query[head * shape.key_length + i] * key[kv_head * shape.key_length + i];
      }
      sum += weights.emplace_back(std::exp(double{shape.scale} * score));
    }
    for (size_t k = 0; k < keys.size(); ++k) {
      for (uint32_t i = 0; i < shape.value_length; ++i) {
        out[head * shape.value_length + i] +=
            weights[k] / sum * values[k][kv_head * shape.value_length + i];
      }
    }
  }
  return out;
}

std::vector<Doubles> PlainLogits(LoadedModel& model, std::span<const TokenId> tokens,
                                 std::span<const float> encoder) {
  const double epsilon = double{model.spec.norm_epsilon};
  const HeadWeights& head = model.weights->head();
  std::vector<Doubles> hidden, heard;
  for (const TokenId token : tokens) {
    std::vector<float> row(kHearingWidth);
    DecodeRow(model.weights->entry().embeddings, static_cast<uint32_t>(token), row);
    hidden.emplace_back(row.begin(), row.end());
  }
  for (size_t at = 0; at < encoder.size(); at += kHearingWidth) {
    const auto row = encoder.subspan(at, kHearingWidth);
    heard.emplace_back(row.begin(), row.end());
  }
  for (uint32_t n = 0; n < model.spec.layer_count(); ++n) {
    const LayerSpec& layer = model.spec.layers[n];
    const AttentionSpec& shape = *layer.attention();
    const LayerWeights weights = *OrDie(model.wrapped->Acquire(LayerKey{n}));
    std::vector<Doubles> keys, values;
    for (size_t i = 0; i < hidden.size(); ++i) {
      const Doubles x = Normalize(weights.mixer_norms.before.weight, hidden[i], epsilon);
      Doubles query = Multiply(weights.attention.query, x);
      keys.push_back(Multiply(weights.attention.key, x));
      values.push_back(Multiply(weights.attention.value, x));
      Turn(query, shape.key_length, shape.rope, static_cast<double>(i));
      Turn(keys.back(), shape.key_length, shape.rope, static_cast<double>(i));
      const size_t seen = std::min<size_t>(i + 1, shape.window.value_or(UINT32_MAX));
      Add(hidden[i],
          Multiply(weights.attention.output, AttendTo(shape, query, std::span(keys).last(seen),
                                                      std::span(values).last(seen))));
    }
    std::vector<Doubles> heard_keys, heard_values;
    for (const Doubles& e : heard) {
      heard_keys.push_back(Multiply(weights.cross_attention.key, e));
      heard_values.push_back(Multiply(weights.cross_attention.value, e));
    }
    for (Doubles& row : hidden) {
      if (layer.cross_attention) {
        const Doubles x = Normalize(weights.cross_attention_norms.before.weight, row, epsilon);
        Add(row,
            Multiply(weights.cross_attention.output,
                     AttendTo(*layer.cross_attention, Multiply(weights.cross_attention.query, x),
                              heard_keys, heard_values)));
      }
      const Doubles x = Normalize(weights.feed_forward_norms.before.weight, row, epsilon);
      const Doubles gate = Multiply(weights.feed_forward.gate, x);
      Doubles up = Multiply(weights.feed_forward.up, x);
      for (size_t i = 0; i < up.size(); ++i) up[i] *= gate[i] / (1 + std::exp(-gate[i]));
      Add(row, Multiply(weights.feed_forward.down, up));
    }
  }
  std::vector<Doubles> logits;
  for (const Doubles& row : hidden) {
    logits.push_back(Multiply({head.matrix, {}}, Normalize(head.norm.weight, row, epsilon)));
  }
  return logits;
}

// --- the model ---

std::vector<uint32_t> Bits(const std::vector<float>& row) {
  std::vector<uint32_t> bits;
  for (const float value : row) bits.push_back(std::bit_cast<uint32_t>(value));
  return bits;
}

void ExpectSameBits(const Logits& actual, const Logits& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    EXPECT_TRUE(Bits(actual[i]) == Bits(expected[i])) << "row " << i;
  }
}

class CrossAttentionTest : public testing::Test {
 protected:
  CrossAttentionTest() { WriteRandomModel(SmallModel("mistral"), TensorType::kF32, path_); }

  // The first layer hears the encoder and sees all of its text, the second one sees five rows.
  static LoadedModelOptions Options() {
    return {
        .row_count_max = 64,
        .encoder_length_max = kEncoderMax,
        .change_spec =
            [](ModelSpec& spec) {
              spec.layers[0].cross_attention = kHearing;
              spec.layers[0].attention()->window = std::nullopt;
              spec.layers[1].attention()->window = 5;
            },
        .wrap_weights = [](WeightStore& store) { return std::make_unique<HearingStore>(store); }};
  }

  static std::unique_ptr<SequenceMemory> Hearing(LoadedModel& model,
                                                 const std::vector<float>& states) {
    std::unique_ptr<SequenceMemory> sequence = model.NewSequence();
    OUTRIDER_CHECK_OK(
        sequence->ReserveEncoder(static_cast<uint32_t>(states.size() / kHearingWidth)));
    OUTRIDER_CHECK_OK(model.transformer->WriteEncoder(states, *sequence));
    return sequence;
  }

  static std::vector<TokenId> SomeTokens(uint32_t count, uint32_t seed) {
    std::mt19937 random(seed);
    std::vector<TokenId> tokens(count);
    for (TokenId& token : tokens) token = static_cast<TokenId>(random() % 200);
    return tokens;
  }

  // One token after another, alone.
  static Logits Plainly(LoadedModel& model, const std::vector<float>& states,
                        std::span<const TokenId> tokens) {
    const auto sequence = Hearing(model, states);
    Logits logits;
    for (const TokenId& token : tokens) {
      logits.push_back(std::move(model.Read(*sequence, {&token, 1})[0]));
    }
    return logits;
  }

  const ScratchDir dir_;
  const std::string path_ = dir_.File("model.gguf");
};

// Keys and values are halves: each is off by up to 2^-12 of itself, and what a layer adds to the
// stream by as much and a score's share of it; two layers of that reach logits of up to four as
// some thousandths. What is heard, and what a window hides, changes them by hundreds of times that.
TEST_F(CrossAttentionTest, IsWhatTheFormulasSay) {
  LoadedModel model(path_, Options());
  for (const uint32_t cells : {1u, 31u, 32u, 33u, kEncoderMax}) {
    SCOPED_TRACE(cells);
    const std::vector<float> states = EncoderStates(cells, 20 + cells);
    const std::vector<TokenId> tokens = SomeTokens(12, cells);
    const Logits logits = model.Read(*Hearing(model, states), tokens);
    const std::vector<Doubles> expected = PlainLogits(model, tokens, states);
    std::vector<float> others = states;
    for (float& state : others) state = -state;
    const Logits otherwise = model.Read(*Hearing(model, others), tokens);
    for (size_t row = 0; row < logits.size(); ++row) {
      double miss = 0, change = 0;
      for (size_t i = 0; i < logits[row].size(); ++i) {
        miss = std::max(miss, std::abs(double{logits[row][i]} - expected[row][i]));
        change = std::max(change, std::abs(double{logits[row][i]} - double{otherwise[row][i]}));
      }
      EXPECT_TRUE(miss <= 0.01) << "row " << row << ": " << miss;
      EXPECT_TRUE(change >= 0.3) << "row " << row << ": " << change;
    }
  }
}

// In chunks, as trees, beside another sequence with another encoder, in a fork.
TEST_F(CrossAttentionTest, RowsTogetherAreRowsOneByOne) {
  LoadedModel model(path_, Options());
  const std::vector<float> states = EncoderStates(40, 1), other_states = EncoderStates(7, 2);
  const std::vector<TokenId> text = SomeTokens(40, 3), other_text = SomeTokens(21, 4);
  const Logits expected = Plainly(model, states, text);
  const Logits other_expected = Plainly(model, other_states, other_text);

  const auto sequence = Hearing(model, states), other = Hearing(model, other_states);
  Logits chunks = model.Read(*sequence, std::span(text).first(9));
  for (auto& row : model.Read(*sequence, std::span(text).subspan(9, 24))) {
    chunks.push_back(std::move(row));
  }
  ExpectSameBits(chunks, Logits(expected.begin(), expected.begin() + 33));

  // text[33..36] as nodes of a tree, among others, while the other sequence reads its prompt.
  const std::vector<DraftedNode> nodes = {{text[34], DraftedNode::kRoot},
                                          {7, DraftedNode::kRoot},
                                          {text[35], 0},
                                          {8, 1},
                                          {text[36], 2}};
  OUTRIDER_CHECK_OK(other->Reserve(21, 0));
  OUTRIDER_CHECK_OK(sequence->Reserve(4, 5));
  model.batch.Clear();
  model.batch.AddChain(*other, other_text);
  model.batch.AddChain(*sequence, {&text[33], 1});
  model.AddNodes(*sequence, nodes);
  OUTRIDER_CHECK_OK(model.transformer->Forward(model.batch, nullptr));
  Logits together = model.Logits();
  ExpectSameBits(Logits(together.begin(), together.begin() + 21), other_expected);
  ExpectSameBits({together[21], together[22], together[24], together[26]},
                 Logits(expected.begin() + 33, expected.begin() + 37));

  sequence->Commit(1, {{0, 2, 4}});
  const auto fork = model.NewSequence();
  OUTRIDER_CHECK_OK(fork->ForkFrom(*sequence, sequence->length()));
  sequence->Clear();
  ExpectSameBits(model.Read(*fork, std::span(text).subspan(37)),
                 Logits(expected.begin() + 37, expected.end()));
}

TEST_F(CrossAttentionTest, ThreadsAndInstructionSetsChangeNothing) {
  const std::vector<float> states = EncoderStates(33, 5);
  const std::vector<TokenId> text = SomeTokens(10, 6);
  Logits expected;
  for (const Isa isa : SupportedIsas()) {
    for (const uint32_t threads : {1, 3}) {
      LoadedModelOptions options = Options();
      options.isa = isa;
      options.thread_count = threads;
      LoadedModel model(path_, options);
      const Logits logits = model.Read(*Hearing(model, states), text);
      if (expected.empty()) expected = logits;
      ExpectSameBits(logits, expected);
    }
  }
}

}  // namespace
}  // namespace outrider
