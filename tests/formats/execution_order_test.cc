#include "common/formats/models/execution_order.h"

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace outrider {
namespace {

using ::testing::ElementsAreArray;

std::vector<std::string> Ordered(const std::vector<std::string>& names) {
  std::vector<ModelTensor> tensors;
  for (const std::string& name : names) {
    tensors.push_back(
        {.name = name, .type = TensorType::kF32, .dims = {1}, .bytes = 4, .place = {}});
  }
  std::vector<std::string> ordered;
  for (const ModelTensor* tensor : ExecutionOrder(tensors)) ordered.push_back(tensor->name);
  return ordered;
}

std::vector<std::string> Shuffled(std::vector<std::string> names) {
  std::ranges::shuffle(names, std::mt19937(20));
  return names;
}

TEST(ExecutionOrder, IsTheOrderOfTheForwardPass) {
  const std::vector<std::string> llama = {"rope_freqs.weight",        "token_embd.weight",
                                          "blk.0.attn_norm.weight",   "blk.0.attn_q.weight",
                                          "blk.0.attn_k.weight",      "blk.0.attn_v.weight",
                                          "blk.0.attn_output.weight", "blk.0.ffn_norm.weight",
                                          "blk.0.ffn_gate.weight",    "blk.0.ffn_up.weight",
                                          "blk.0.ffn_down.weight",    "blk.1.attn_norm.weight",
                                          "blk.2.attn_norm.weight",   "blk.10.attn_norm.weight",
                                          "output_norm.weight",       "output.weight"};
  EXPECT_THAT(Ordered(Shuffled(llama)), ElementsAreArray(llama));
}

TEST(ExecutionOrder, PutsTheEncoderBeforeTheDecoder) {
  const std::vector<std::string> t5 = {
      "token_embd.weight",         "enc.blk.0.attn_q.weight", "enc.blk.1.ffn_down.weight",
      "enc.output_norm.weight",    "dec.blk.0.attn_q.weight", "dec.blk.0.cross_attn_q.weight",
      "dec.blk.0.ffn_down.weight", "dec.output_norm.weight",  "output.weight"};
  EXPECT_THAT(Ordered(Shuffled(t5)), ElementsAreArray(t5));
}

TEST(ExecutionOrder, KeepsWhatItDoesNotKnowAtTheEndAndInPlace) {
  EXPECT_THAT(Ordered({"zebra.weight", "blk.x.attn_q.weight", "output.weight",
                       "blk.99999999999999999999.y", "apple"}),
              ElementsAreArray({"output.weight", "zebra.weight", "blk.x.attn_q.weight",
                                "blk.99999999999999999999.y", "apple"}));
}

}  // namespace
}  // namespace outrider
