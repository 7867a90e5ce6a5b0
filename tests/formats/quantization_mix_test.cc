#include "common/formats/models/quantization_mix.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace outrider {
namespace {

ModelTensor Tensor(const std::string& name, std::vector<uint64_t> dims) {
  return {.name = name, .type = TensorType::kF32, .dims = std::move(dims), .bytes = 0, .place = {}};
}

Hyperparameters Llama(uint32_t block_count) {
  Hyperparameters numbers;
  numbers.block_count = block_count;
  return numbers;
}

TEST(MixedType, VectorsRoutersAndPositionsStayF32) {
  const Hyperparameters numbers = Llama(4);
  for (const TensorType wanted : {TensorType::kF16, TensorType::kQ8_0, TensorType::kQ4_K}) {
    EXPECT_EQ(MixedType(Tensor("blk.0.attn_norm.weight", {256}), numbers, wanted),
              TensorType::kF32);
    EXPECT_EQ(MixedType(Tensor("blk.0.attn_q.bias", {256}), numbers, wanted), TensorType::kF32);
    EXPECT_EQ(MixedType(Tensor("blk.0.ffn_gate_inp.weight", {256, 8}), numbers, wanted),
              TensorType::kF32);
    EXPECT_EQ(MixedType(Tensor("position_embd.weight", {256, 64}), numbers, wanted),
              TensorType::kF32);
    EXPECT_EQ(MixedType(Tensor("enc.blk.0.attn_rel_b.weight", {8, 32}), numbers, wanted),
              TensorType::kF32);
  }
}

TEST(MixedType, TheOutputMatrixGetsSixBits) {
  Hyperparameters numbers = Llama(4);
  for (const TensorType wanted :
       {TensorType::kQ4_0, TensorType::kQ4_K, TensorType::kQ5_K, TensorType::kIQ4_XS}) {
    EXPECT_EQ(MixedType(Tensor("output.weight", {256, 512}), numbers, wanted), TensorType::kQ6_K);
    EXPECT_EQ(MixedType(Tensor("token_embd.weight", {256, 512}), numbers, wanted), wanted);
  }
  numbers.tied_embeddings = true;
  EXPECT_EQ(MixedType(Tensor("token_embd.weight", {256, 512}), numbers, TensorType::kQ4_0),
            TensorType::kQ6_K);
  EXPECT_EQ(MixedType(Tensor("token_embd.weight", {256, 512}), numbers, TensorType::kQ8_0),
            TensorType::kQ8_0);
}

// llama.cpp's rule for Q4_K_M and Q5_K_M, written out for 32 blocks: 16 of them.
TEST(MixedType, HalfTheBlocksGetMoreBitsWhereItPays) {
  const Hyperparameters numbers = Llama(32);
  for (const TensorType wanted : {TensorType::kQ4_K, TensorType::kQ5_K}) {
    std::vector<uint32_t> more;
    for (uint32_t block = 0; block < 32; ++block) {
      const std::string prefix = "blk." + std::to_string(block);
      const TensorType down =
          MixedType(Tensor(prefix + ".ffn_down.weight", {256, 256}), numbers, wanted);
      EXPECT_EQ(MixedType(Tensor(prefix + ".attn_v.weight", {256, 256}), numbers, wanted), down);
      EXPECT_EQ(MixedType(Tensor(prefix + ".attn_qkv.weight", {256, 768}), numbers, wanted), down);
      EXPECT_EQ(MixedType(Tensor(prefix + ".ffn_up.weight", {256, 256}), numbers, wanted), wanted);
      if (down == TensorType::kQ6_K) more.push_back(block);
    }
    EXPECT_EQ(more,
              (std::vector<uint32_t>{0, 1, 2, 3, 6, 9, 12, 15, 18, 21, 24, 27, 28, 29, 30, 31}));
  }
}

TEST(MixedType, ValuesOfTheLargestModelsGetFiveBitsWhereTheyGetNotSix) {
  const auto values_of = [](const Hyperparameters& numbers, const char* block) {
    return MixedType(Tensor(std::string(block) + ".attn_v.weight", {256, 256}), numbers,
                     TensorType::kQ4_K);
  };
  Hyperparameters large = Llama(80);
  large.head_count.assign(80, 64);
  large.head_count_kv.assign(80, 8);
  EXPECT_EQ(values_of(large, "blk.0"), TensorType::kQ6_K);
  EXPECT_EQ(values_of(large, "blk.10"), TensorType::kQ5_K);
  EXPECT_EQ(values_of(large, "blk.12"), TensorType::kQ6_K);
  EXPECT_EQ(MixedType(Tensor("blk.10.ffn_down.weight", {256, 256}), large, TensorType::kQ4_K),
            TensorType::kQ4_K);
  EXPECT_EQ(MixedType(Tensor("blk.10.attn_k.weight", {256, 256}), large, TensorType::kQ4_K),
            TensorType::kQ4_K);
  large.head_count_kv = large.head_count;  // Llama 1's 65B
  EXPECT_EQ(values_of(large, "blk.10"), TensorType::kQ4_K);
  large.architecture = Architecture::kQwen2;
  EXPECT_EQ(values_of(large, "blk.10"), TensorType::kQ5_K);
  large.architecture = Architecture::kGemma2;
  EXPECT_EQ(values_of(large, "blk.10"), TensorType::kQ4_K);
}

// Without an importance matrix: the first eighth of the down projections, and values that four
// queries or more share.
TEST(MixedType, SomeOfIQ4XSGetsFiveBits) {
  Hyperparameters numbers = Llama(32);
  const auto type_of = [&](const std::string& name) {
    return MixedType(Tensor(name, {256, 256}), numbers, TensorType::kIQ4_XS);
  };
  EXPECT_EQ(type_of("blk.3.ffn_down.weight"), TensorType::kQ5_K);
  EXPECT_EQ(type_of("blk.4.ffn_down.weight"), TensorType::kIQ4_XS);
  numbers.head_count.assign(32, 32);
  numbers.head_count_kv.assign(32, 16);
  EXPECT_EQ(type_of("blk.3.attn_v.weight"), TensorType::kIQ4_XS);
  numbers.head_count_kv.assign(32, 8);
  EXPECT_EQ(type_of("blk.3.attn_v.weight"), TensorType::kQ5_K);
  EXPECT_EQ(type_of("blk.3.attn_k.weight"), TensorType::kIQ4_XS);
}

TEST(MixedType, WhatEightExpertsShareGetsMoreBits) {
  Hyperparameters numbers = Llama(32);
  numbers.experts.count = 8;
  for (const TensorType wanted : {TensorType::kQ4_K, TensorType::kIQ4_XS}) {
    EXPECT_EQ(MixedType(Tensor("blk.5.attn_k.weight", {256, 256}), numbers, wanted),
              TensorType::kQ8_0);
    EXPECT_EQ(MixedType(Tensor("blk.5.attn_output.weight", {256, 256}), numbers, wanted),
              TensorType::kQ5_K);
  }
}

TEST(MixedType, ShortRowsFallBackToATypeThatFits) {
  const Hyperparameters numbers = Llama(4);
  EXPECT_EQ(MixedType(Tensor("blk.1.attn_q.weight", {96, 8}), numbers, TensorType::kQ4_K),
            TensorType::kQ5_0);
  EXPECT_EQ(MixedType(Tensor("blk.1.attn_q.weight", {96, 8}), numbers, TensorType::kQ5_K),
            TensorType::kQ5_1);
  EXPECT_EQ(MixedType(Tensor("blk.1.attn_q.weight", {96, 8}), numbers, TensorType::kQ6_K),
            TensorType::kQ8_0);
  EXPECT_EQ(MixedType(Tensor("blk.1.attn_q.weight", {96, 8}), numbers, TensorType::kIQ4_XS),
            TensorType::kIQ4_NL);
  EXPECT_EQ(MixedType(Tensor("blk.1.attn_q.weight", {100, 8}), numbers, TensorType::kQ4_K),
            TensorType::kF16);
  EXPECT_EQ(MixedType(Tensor("blk.1.attn_q.weight", {100, 8}), numbers, TensorType::kQ8_0),
            TensorType::kF16);
  EXPECT_EQ(MixedType(Tensor("blk.1.attn_q.weight", {100, 8}), numbers, TensorType::kBF16),
            TensorType::kBF16);
}

}  // namespace
}  // namespace outrider
