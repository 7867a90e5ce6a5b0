// Hugging Face checkpoints that differ from what transformers saves today: older, edited, broken.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/formats/containers/safetensors.h"
#include "common/formats/models/model_file.h"
#include "common/formats/tensors/dequantize.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/base/scratch_dir.h"
#include "tests/formats/gguf_bytes.h"
#include "tests/formats/tiny_models.h"

namespace outrider {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

void CopyModel(const std::string& model, const ScratchDir& scratch) {
  fs::copy(ModelDirectory(model), scratch.path(), fs::copy_options::recursive);
}

// The tensors of a directory, to be changed and written back.
class EditedTensors {
 public:
  explicit EditedTensors(const std::string& directory) : directory_(directory) {
    absl::StatusOr<SafetensorsSet> set = SafetensorsSet::Open(directory);
    EXPECT_TRUE(set.ok()) << set.status();
    for (const SafetensorsTensor& tensor : set->tensors()) {
      tensors_.push_back({tensor.name, tensor.dtype, tensor.shape, *set->ReadBytes(tensor)});
    }
  }

  struct Tensor {
    std::string name;
    std::string dtype;
    std::vector<uint64_t> shape;
    std::vector<std::byte> bytes;
    uint64_t hole_bytes = 0;  // after those, which no disk holds; of the last tensor
  };
  Tensor& at(std::string_view name) {
    for (Tensor& tensor : tensors_) {
      if (tensor.name == name) return tensor;
    }
    ADD_FAILURE() << "no tensor " << name;
    return tensors_[0];
  }
  void Remove(std::string_view name) {
    std::erase_if(tensors_, [&](const Tensor& tensor) { return tensor.name == name; });
  }
  void Add(Tensor tensor) { tensors_.push_back(std::move(tensor)); }
  template <typename NewName>
  void RenameAll(const NewName& new_name) {
    for (Tensor& tensor : tensors_) tensor.name = new_name(tensor.name);
  }

  // By hand, so that the file need not be one our own writer would agree to write.
  void WriteBack() const {
    nlohmann::json header = nlohmann::json::object();
    std::string data;
    for (const Tensor& tensor : tensors_) {
      const size_t begin = data.size();
      data.append(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size());
      header[tensor.name] = {{"dtype", tensor.dtype},
                             {"shape", tensor.shape},
                             {"data_offsets", {begin, data.size() + tensor.hole_bytes}}};
    }
    const std::string json = header.dump();
    const std::string path = directory_ + "/model.safetensors";
    std::ofstream(path, std::ios::binary) << Packed<uint64_t>(json.size()) << json << data;
    const uint64_t hole_bytes = tensors_.back().hole_bytes;
    if (hole_bytes > 0) fs::resize_file(path, fs::file_size(path) + hole_bytes);
  }

 private:
  std::string directory_;
  std::vector<Tensor> tensors_;
};

// How transformers has spelled the decoder of a model that looks at images.
struct Spelling {
  std::string_view of_decoder;  // in place of "model."
  std::string_view of_head;     // in front of "lm_head."
  std::string_view of_images;   // in front of their part
};
constexpr Spelling kSpellings[] = {{"language_model.model.", "language_model.", ""},
                                   {"model.language_model.", "", "model."}};

// Makes the decoder in `scratch` one that looks at images.
void GiveEyes(const ScratchDir& scratch, const std::string& model_type, const Spelling& spelling) {
  EditedTensors edited(scratch.path());
  edited.RenameAll([&](const std::string& name) {
    constexpr std::string_view kModel = "model.";
    const bool is_head = name.starts_with("lm_head.");
    return is_head ? Concat(spelling.of_head, name)
                   : Concat(spelling.of_decoder, name.substr(kModel.size()));
  });
  for (const char* part : {"vision_tower.patch_conv.weight", "multi_modal_projector.norm.weight"}) {
    edited.Add({Concat(spelling.of_images, part), "U8", {3}, std::vector<std::byte>(3)});
  }
  edited.WriteBack();
  const std::string path = scratch.File("config.json");
  nlohmann::json text = nlohmann::json::parse(ReadFile(path));
  const nlohmann::json whole = {{"model_type", model_type},
                                {"text_config", std::move(text)},
                                {"vision_config", {{"hidden_size", 16}}}};
  scratch.Write("config.json", whole.dump());
}

TEST(HfModel, OfAModelThatLooksAtImagesTheDecoderIsWhatItWouldBeAlone) {
  for (const auto& [model_type, decoder] :
       {std::pair{"gemma3", "gemma3"}, {"mistral3", "ministral3"}}) {
    const std::string directory = TestFile(Concat("logits/", decoder));
    const std::unique_ptr<ModelFile> alone = OpenOrNull(directory);
    ASSERT_NE(alone, nullptr);
    EXPECT_TRUE(alone->Notices().empty());
    for (const Spelling& spelling : kSpellings) {
      SCOPED_TRACE(Concat(decoder, ", ", spelling.of_decoder));
      const ScratchDir scratch;
      fs::copy(directory, scratch.path(), fs::copy_options::recursive);
      GiveEyes(scratch, model_type, spelling);
      const std::unique_ptr<ModelFile> seeing = OpenOrNull(scratch.path());
      ASSERT_NE(seeing, nullptr);
      Hyperparameters expected = alone->hyperparameters();
      expected.name = seeing->hyperparameters().name;
      EXPECT_EQ(seeing->hyperparameters(), expected);
      ASSERT_EQ(seeing->tensors().size(), alone->tensors().size());
      for (const ModelTensor& tensor : alone->tensors()) {
        const ModelTensor* const same = seeing->Find(tensor.name);
        ASSERT_NE(same, nullptr) << tensor.name;
        EXPECT_EQ(ReadAll(*seeing, *same), ReadAll(*alone, tensor)) << tensor.name;
      }
      EXPECT_EQ(seeing->Notices(),
                std::vector{Concat(scratch.path(),
                                   ": was made to look at images too; only what it "
                                   "does with text is used here")});
    }
  }
}

// What config.json says about tying, the tensors overrule.
TEST(HfModel, AStoredCopyOfTheEmbeddingsIsNoOutputMatrixAndAnythingElseIs) {
  const ScratchDir scratch;
  CopyModel("qwen3", scratch);
  EditedTensors edited(scratch.path());
  EditedTensors::Tensor head = edited.at("model.embed_tokens.weight");
  head.name = "lm_head.weight";
  edited.Add(head);
  edited.WriteBack();
  EXPECT_EQ(OpenOrNull(scratch.path())->Find("output.weight"), nullptr);

  edited.at("lm_head.weight").bytes[5] ^= std::byte{1};
  edited.WriteBack();
  const std::unique_ptr<ModelFile> untied = OpenOrNull(scratch.path());
  ASSERT_NE(untied, nullptr);
  EXPECT_NE(untied->Find("output.weight"), nullptr);
  EXPECT_FALSE(untied->hyperparameters().tied_embeddings);

  edited.Remove("model.embed_tokens.weight");  // of shared tensors, a writer may keep either name
  edited.WriteBack();
  const std::unique_ptr<ModelFile> renamed = OpenOrNull(scratch.path());
  ASSERT_NE(renamed, nullptr);
  EXPECT_NE(renamed->Find("token_embd.weight"), nullptr);
  EXPECT_TRUE(renamed->hyperparameters().tied_embeddings);
}

TEST(HfModel, PrefixesAndBuffersOfOldCheckpointsDoNotMatter) {
  const ScratchDir scratch;
  CopyModel("gpt2", scratch);
  EditedTensors edited(scratch.path());
  const std::unique_ptr<ModelFile> original = OpenOrNull(ModelDirectory("gpt2"));
  ASSERT_NE(original, nullptr);
  edited.at("transformer.wte.weight").name = "wte.weight";
  edited.at("transformer.h.1.attn.c_attn.weight").name = "h.1.attn.c_attn.weight";
  edited.Add({"h.0.attn.bias", "U8", {1, 1, 2, 2}, std::vector<std::byte>(4)});
  edited.Add({"h.0.attn.masked_bias", "F32", {}, std::vector<std::byte>(4)});
  edited.WriteBack();
  const std::unique_ptr<ModelFile> model = OpenOrNull(scratch.path());
  ASSERT_NE(model, nullptr);
  ASSERT_EQ(model->tensors().size(), original->tensors().size());
  for (size_t i = 0; i < model->tensors().size(); ++i) {
    EXPECT_EQ(model->tensors()[i].name, original->tensors()[i].name);
    EXPECT_TRUE(ReadAll(*model, model->tensors()[i]) == ReadAll(*original, original->tensors()[i]));
  }
}

std::vector<float> Values(const ModelFile& model, const ModelTensor& tensor) {
  std::vector<float> values(tensor.row_count() * tensor.dims[0]);
  EXPECT_TRUE(Dequantize(tensor.type, ReadAll(model, tensor), values).ok()) << tensor.name;
  return values;
}

// gpt-oss as it is published, and as transformers saves the same model in floats.
TEST(HfModel, PackedExpertsAreThoseThatWerePacked) {
  const std::unique_ptr<ModelFile> packed = OpenOrNull(TestFile("logits/gpt_oss_packed"));
  const std::unique_ptr<ModelFile> saved = OpenOrNull(TestFile("logits/gpt_oss_saved"));
  ASSERT_TRUE(packed != nullptr && saved != nullptr);
  ASSERT_EQ(packed->tensors().size(), saved->tensors().size());
  int in_mxfp4 = 0;
  for (const ModelTensor& tensor : packed->tensors()) {
    const ModelTensor* const same = saved->Find(tensor.name);
    ASSERT_NE(same, nullptr) << tensor.name;
    EXPECT_EQ(tensor.dims, same->dims) << tensor.name;
    EXPECT_EQ(Values(*packed, tensor), Values(*saved, *same)) << tensor.name;
    in_mxfp4 += tensor.type == TensorType::kMXFP4 ? 1 : 0;
  }
  EXPECT_EQ(in_mxfp4, 2 * 3);  // blocks; gate, up and down
}

TEST(HfModel, ALostByteOfScalesIsToldFromOneOfTheirBlocks) {
  const ScratchDir scratch;
  fs::copy(TestFile("logits/gpt_oss_packed"), scratch.path(), fs::copy_options::recursive);
  const std::string experts = "model.layers.1.mlp.experts.";
  constexpr uint64_t kApart = 128 << 10;  // some pages, of any size
  for (const std::string name : {"down_proj_scales", "down_proj_blocks"}) {
    EditedTensors edited(scratch.path());
    const EditedTensors::Tensor last = edited.at(experts + name);
    edited.Remove(last.name);
    edited.Remove("rotary_emb.inv_freq");
    edited.Add({"rotary_emb.inv_freq", "U8", {kApart}, std::vector<std::byte>(kApart)});
    edited.Add(last);
    edited.WriteBack();
    const std::unique_ptr<ModelFile> model = OpenOrNull(scratch.path());
    ASSERT_NE(model, nullptr);
    const std::string file = scratch.File("model.safetensors");
    const uint64_t whole = fs::file_size(file);
    const ModelTensor& tensor = *model->Find("blk.1.ffn_down_exps.weight");
    std::vector<std::byte> bytes(tensor.bytes);
    fs::resize_file(file, whole - last.bytes.size() - kApart / 2);
    EXPECT_EQ(model->ReadRows(tensor, 0, tensor.row_count(), bytes),
              DataLoss(file, ": tensor ", tensor.name, " cannot be read at offset ",
                       whole - last.bytes.size(), ": the file has become shorter"));
    fs::resize_file(file, whole);
  }
}

// A row at a time, as whoever loads an expert wants them.
TEST(HfModel, RowsOfPackedExpertsAreThoseOfAllTogether) {
  for (const char* directory : {"logits/gpt_oss_packed", "logits/gpt_oss_saved"}) {
    const std::unique_ptr<ModelFile> model = OpenOrNull(TestFile(directory));
    ASSERT_NE(model, nullptr);
    for (const char* name : {"blk.1.ffn_up_exps.weight", "blk.1.ffn_down_exps.weight"}) {
      const ModelTensor& tensor = *model->Find(name);
      const std::vector<std::byte> all = ReadAll(*model, tensor);
      const size_t row_bytes = all.size() / tensor.row_count();
      std::vector<std::byte> row(row_bytes);
      for (uint64_t i = 0; i < tensor.row_count(); ++i) {
        ASSERT_TRUE(model->ReadRows(tensor, i, 1, row).ok());
        EXPECT_TRUE(std::ranges::equal(row, std::span(all).subspan(i * row_bytes, row_bytes)));
      }
    }
  }
}

// MXFP4's blocks, their scales, and gate and up by turns.
TEST(HfModel, PackedExpertsThatDoNotFitAreNamed) {
  const ScratchDir scratch;
  fs::copy(TestFile("logits/gpt_oss_packed"), scratch.path(), fs::copy_options::recursive);
  const EditedTensors original(scratch.path());
  const auto refusal = [&](auto&& edit) {
    EditedTensors edited = original;
    edit(edited);
    edited.WriteBack();
    const absl::Status status = ModelFile::Open(scratch.path()).status();
    return std::string(Message(status));
  };
  const std::string experts = "model.layers.1.mlp.experts.";
  EXPECT_THAT(refusal([&](EditedTensors& t) { t.Remove(experts + "down_proj_scales"); }),
              HasSubstr(experts + "down_proj_blocks but none of its scales"));
  EXPECT_THAT(refusal([&](EditedTensors& t) { t.at(experts + "down_proj_blocks").dtype = "I8"; }),
              HasSubstr("down_proj_blocks is of type I8; MXFP4's blocks are U8"));
  EXPECT_THAT(refusal([&](EditedTensors& t) {
                EditedTensors::Tensor& scales = t.at(experts + "down_proj_scales");
                scales.shape = {scales.bytes.size()};
              }),
              HasSubstr("which are no blocks of 16 bytes and a scale each"));
  EXPECT_THAT(refusal([&](EditedTensors& t) {
                std::vector<uint64_t>& shape = t.at(experts + "gate_up_proj_bias").shape;
                std::swap(shape[0], shape[1]);  // five experts
              }),
              HasSubstr("its rows are no gate's"));
  EXPECT_THAT(refusal([&](EditedTensors& t) {
                t.Add({experts + "0.gate_proj.weight", "F32", {1, 1}, std::vector<std::byte>(4)});
              }),
              HasSubstr("are both blk.1.ffn_gate_exps.weight"));
  EXPECT_THAT(refusal([&](EditedTensors& t) { t.Remove(experts + "gate_up_proj_blocks"); }),
              HasSubstr(experts + "gate_up_proj_scales but none of its blocks"));
  EXPECT_THAT(refusal([&](EditedTensors& t) {
                EditedTensors::Tensor again = t.at(experts + "down_proj_scales");
                again.name = again.name.substr(std::string("model.").size());
                t.Add(again);
              }),
              HasSubstr(experts + "down_proj_scales and layers.1.mlp.experts.down_proj_scales are "
                                  "both scales of blk.1.ffn_down_exps.weight"));
  EXPECT_THAT(refusal([&](EditedTensors& t) {
                EditedTensors::Tensor& floats = t.at(experts + "down_proj_blocks");
                floats = {experts + "down_proj", "F32", {1}, std::vector<std::byte>(4)};
              }),
              HasSubstr(experts + "down_proj_scales holds scales of MXFP4's blocks, but " +
                        experts + "down_proj is F32"));
}

// As files of the family call them, packed and not.
TEST(HfModel, AMissingExpertOfGptOssIsNamed) {
  const auto refusal = [](const std::string& model, const std::vector<std::string>& missing) {
    const ScratchDir scratch;
    fs::copy(TestFile("logits/" + model), scratch.path(), fs::copy_options::recursive);
    EditedTensors edited(scratch.path());
    for (const std::string& name : missing) edited.Remove(name);
    edited.WriteBack();
    return std::string(Message(ModelFile::Open(scratch.path()).status()));
  };
  const std::string block = "model.layers.1.", experts = block + "mlp.experts.";
  const auto blocks = [&](const std::string& name) {
    return std::vector<std::string>{experts + name + "_blocks", experts + name + "_scales"};
  };
  const std::string none = "has no tensor ";
  EXPECT_THAT(refusal("gpt_oss_packed", blocks("gate_up_proj")),
              HasSubstr(none + experts + "gate_up_proj_blocks (blk.1.ffn_gate_exps.weight)"));
  EXPECT_THAT(refusal("gpt_oss_packed", blocks("down_proj")),
              HasSubstr(none + experts + "down_proj_blocks (blk.1.ffn_down_exps.weight)"));
  EXPECT_THAT(refusal("gpt_oss_saved", {experts + "gate_up_proj"}),
              HasSubstr(none + experts + "gate_up_proj (blk.1.ffn_gate_exps.weight)"));
  EXPECT_THAT(refusal("gpt_oss_saved", {experts + "down_proj"}),
              HasSubstr(none + experts + "down_proj (blk.1.ffn_down_exps.weight)"));
  EXPECT_THAT(refusal("gpt_oss_saved", {experts + "gate_up_proj_bias"}),
              HasSubstr(none + experts + "gate_up_proj_bias (blk.1.ffn_gate_exps.bias)"));
  EXPECT_THAT(refusal("gpt_oss_saved", {block + "self_attn.sinks"}),
              HasSubstr(none + block + "self_attn.sinks (blk.1.attn_sinks.weight)"));
  EXPECT_THAT(refusal("gpt_oss_saved", {block + "mlp.router.bias"}),
              HasSubstr(none + block + "mlp.router.bias (blk.1.ffn_gate_inp.bias)"));
}

// Of nothing a file can hold any number.
TEST(HfModel, ExpertsWithoutBytesAreRefusedHoweverManyTheyAre) {
  const ScratchDir scratch;
  CopyModel("qwen3_moe", scratch);
  EditedTensors edited(scratch.path());
  edited.Add({"model.layers.1.mlp.experts.gate_up_proj", "F32", {uint64_t{1} << 60, 2, 0}, {}});
  edited.WriteBack();
  const absl::Status status = ModelFile::Open(scratch.path()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
}

// What is made of a tensor in memory is made when its shape is known to be the model's: a file with a
// hole says to hold what no memory does.
TEST(HfModel, WhatAFileSaysToHoldIsNotReadBeforeItFits) {
  constexpr uint64_t kElements = 50'000'000'000;  // of two bytes
  const auto refusal = [](const std::string& model, const std::string& name,
                          std::vector<uint64_t> shape) {
    const ScratchDir scratch;
    fs::copy(TestFile(model), scratch.path(), fs::copy_options::recursive);
    EditedTensors edited(scratch.path());
    edited.Remove(name);
    edited.Add({name, "BF16", std::move(shape), {}, 2 * kElements});
    edited.WriteBack();
    return std::string(Message(ModelFile::Open(scratch.path()).status()));
  };
  const std::string experts = "model.layers.1.mlp.experts.";
  const std::string packed = "logits/gpt_oss_packed", saved = "logits/gpt_oss_saved";
  EXPECT_THAT(refusal(packed, experts + "down_proj_bias", {5, kElements / 5}),
              HasSubstr("(blk.1.ffn_down_exps.bias) is [10000000000, 5], expected [32, 5]"));
  EXPECT_THAT(refusal(packed, experts + "gate_up_proj_bias", {5, kElements / 5}),
              HasSubstr("(blk.1.ffn_gate_exps.bias) is [5000000000, 5], expected [64, 5]"));
  EXPECT_THAT(refusal("logits/gemma", "model.norm.weight", {kElements}),
              HasSubstr("(output_norm.weight) is [50000000000], expected [32]"));
  EXPECT_THAT(refusal(saved, experts + "gate_up_proj", {kElements / 2, 2, 1}),
              HasSubstr("is [25000000000, 2, 1], but the model has 5 experts"));
  EXPECT_THAT(refusal("models/qwen3_moe", experts + "gate_up_proj", {kElements / 2, 2, 1}),
              HasSubstr("is [25000000000, 2, 1], but the model has"));
}

TEST(HfModel, ATensorThatDoesNotFitIsNamed) {
  const ScratchDir scratch;
  CopyModel("llama", scratch);
  const EditedTensors original(scratch.path());
  const auto refusal = [&](auto&& edit) {
    EditedTensors edited = original;
    edit(edited);
    edited.WriteBack();
    return ModelFile::Open(scratch.path()).status();
  };
  const std::string at = scratch.path();

  EXPECT_EQ(refusal([](EditedTensors& t) { t.Remove("model.layers.1.self_attn.k_proj.weight"); }),
            NotFound(at,
                     ": has no tensor model.layers.1.self_attn.k_proj.weight "
                     "(blk.1.attn_k.weight), expected one of [64, 32]"));
  EXPECT_EQ(refusal([](EditedTensors& t) { t.Remove("lm_head.weight"); }),
            NotFound(at,
                     ": has no tensor lm_head.weight (output.weight), expected one of "
                     "[64, 384]"));
  EXPECT_EQ(refusal([](EditedTensors& t) {
              t.at("model.norm.weight").shape = {8, 8};
            }),
            InvalidArgument(at,
                            ": tensor model.norm.weight (output_norm.weight) is [8, 8], "
                            "expected [64]"));
  EXPECT_EQ(refusal([](EditedTensors& t) {
              t.Add({"model.layers.0.self_attn.sinks", "F32", {1}, std::vector<std::byte>(4)});
            }),
            Unimplemented(at,
                          ": tensor model.layers.0.self_attn.sinks is none of a llama "
                          "model's"));
  EXPECT_EQ(refusal([](EditedTensors& t) {
              EditedTensors::Tensor third = t.at("model.layers.1.input_layernorm.weight");
              third.name = "model.layers.2.input_layernorm.weight";
              t.Add(third);
            }),
            InvalidArgument(at,
                            ": tensor model.layers.2.input_layernorm.weight "
                            "(blk.2.attn_norm.weight) is none of a llama model's"));
  EXPECT_EQ(refusal([](EditedTensors& t) {
              EditedTensors::Tensor again = t.at("model.norm.weight");
              again.name = "norm.weight";
              t.Add(again);
            }).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(refusal([](EditedTensors& t) {
              EditedTensors::Tensor& norm = t.at("model.norm.weight");
              norm.dtype = "F8_E4M3";
              norm.bytes.resize(64);
            }),
            Unimplemented(at,
                          ": tensor model.norm.weight is of type F8_E4M3; F32, F16 and BF16 "
                          "can be read"));
}

TEST(HfModel, AnExpertThatIsMissingOrDifferentIsNamed) {
  const ScratchDir scratch;
  CopyModel("mixtral", scratch);
  const EditedTensors original(scratch.path());
  EditedTensors missing = original;
  missing.Remove("model.layers.1.block_sparse_moe.experts.1.w2.weight");
  missing.WriteBack();
  EXPECT_EQ(ModelFile::Open(scratch.path()).status(),
            NotFound(scratch.path(),
                     ": has tensor model.layers.1.block_sparse_moe.experts.2.w2."
                     "weight but none of expert 1 for blk.1.ffn_down_exps.weight"));
  EditedTensors last_missing = original;
  last_missing.Remove("model.layers.1.block_sparse_moe.experts.2.w2.weight");
  last_missing.WriteBack();
  EXPECT_THAT(std::string(Message(ModelFile::Open(scratch.path()).status())),
              HasSubstr("is [48, 32, 2], expected [48, 32, 3]"));
  EditedTensors different = original;
  std::swap(different.at("model.layers.0.block_sparse_moe.experts.1.w1.weight").shape[0],
            different.at("model.layers.0.block_sparse_moe.experts.1.w1.weight").shape[1]);
  different.WriteBack();
  EXPECT_THAT(std::string(Message(ModelFile::Open(scratch.path()).status())),
              HasSubstr("experts.1.w1.weight is BF16 [32, 48], expert 0's is BF16 [48, 32]"));
}

// StableLM 2 12B has a tensor for each head.
TEST(HfModel, ANormOfAHeadThatIsMissingOrDifferentIsNamed) {
  const auto refusal = [](auto&& edit) {
    const ScratchDir scratch;
    fs::copy(TestFile("logits/stablelm2"), scratch.path(), fs::copy_options::recursive);
    EditedTensors edited(scratch.path());
    edit(edited);
    edited.WriteBack();
    return std::string(Message(ModelFile::Open(scratch.path()).status()));
  };
  const std::string norms = "model.layers.1.self_attn.q_layernorm.norms.";
  EXPECT_THAT(refusal([&](EditedTensors& t) { t.Remove(norms + "1.weight"); }),
              HasSubstr(norms + "2.weight but none of head 1 for blk.1.attn_q_norm.weight"));
  EXPECT_THAT(
      refusal([&](EditedTensors& t) { t.Remove(norms + "3.weight"); }),
      HasSubstr(norms + "0.weight (blk.1.attn_q_norm.weight) is [12, 3], expected [12, 4]"));
  EXPECT_THAT(refusal([&](EditedTensors& t) {
                for (const char* const head : {"0", "1", "2", "3"}) {
                  t.Remove(Concat(norms, head, ".weight"));
                }
              }),
              HasSubstr("has no tensor " + norms + "0.weight (blk.1.attn_q_norm.weight)"));
  EXPECT_THAT(refusal([&](EditedTensors& t) {
                t.at(norms + "2.weight").shape = {3, 4};
              }),
              HasSubstr("norms.2.weight is F32 [3, 4], head 0's is F32 [12]"));
  EXPECT_THAT(refusal([&](EditedTensors& t) { t.at(norms + "0.weight").name = norms + "0.bias"; }),
              HasSubstr("none of head 0"));
}

}  // namespace
}  // namespace outrider
