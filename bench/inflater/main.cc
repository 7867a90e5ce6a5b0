// inflate: a small model's text at a large model's price.
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>

#include "CLI/CLI.hpp"
#include "bench/inflater/inflate.h"
#include "common/base/program.h"
#include "common/base/progress_bar.h"
#include "common/base/status.h"
#include "common/base/thread_pool.h"
#include "common/base/units.h"
#include "common/formats/models/exits_file.h"
#include "common/formats/models/model_file.h"
#include "common/model/model_spec.h"
#include "common/model/weights/resident_weights.h"

namespace outrider {
namespace {

struct Flags {
  std::string model;
  std::string out;
  std::string like;
  std::string type;
  std::string exits;
  std::string exits_out;
  InflateOptions shape;  // what was asked for besides
};

constexpr const char* kFooter =
    "What is added is zeros, so the large model says what the small one says, word for word, "
    "while\n"
    "its passes, its memory and its reads from flash are those of its size. Norms are rescaled "
    "for\n"
    "the width they gain; added layers write nothing; heads keep their length.\n\n"
    "  inflate demo-target.gguf --out target-1b.gguf --like 1b --type q4_0\n"
    "  inflate demo-draft.gguf --out draft-100m.gguf --width 768 --layers 12 --feed-forward 2048\n"
    "  inflate demo-target.gguf --out target-8b.gguf --like 8b --type q4_k\n\n"
    "--like takes the shape of Llama 3.2 1B, TinyLlama (1.1b), Llama 3.2 3B or Llama 3 8B, with "
    "as\n"
    "many heads of the model's own length as fill the attention; the other flags change it "
    "further.\n"
    "The vocabulary stays. Logits equal the small model's but for rounding in norms; with --type\n"
    "they are those of the small model quantised so. Models of layer norms (GPT-2), experts or\n"
    "encoders do not grow. Exits grow with their target: --exits reads those of the small one, "
    "and\n"
    "--exits-out writes them for the large (which needs it in memory for a moment).";

InflateOptions Resolve(const Flags& flags, InflateOptions options) {
  const auto take = [](uint32_t asked, uint32_t& number) {
    if (asked > 0) number = asked;
  };
  take(flags.shape.embedding_length, options.embedding_length);
  take(flags.shape.block_count, options.block_count);
  take(flags.shape.head_count, options.head_count);
  take(flags.shape.kv_head_count, options.kv_head_count);
  take(flags.shape.feed_forward_length, options.feed_forward_length);
  if (!flags.type.empty()) options.type = TensorTypeFromName(flags.type);
  return options;
}

// What exits know weights by. It takes the model's size in memory for a moment.
absl::StatusOr<uint64_t> HashOf(const std::string& path) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<ModelFile> model, ModelFile::Open(path));
  OUTRIDER_ASSIGN_OR_RETURN(const ModelSpec spec, ModelSpec::From(*model, path));
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<ThreadPool> pool, ThreadPool::Create(1));
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<ResidentWeights> weights,
                            ResidentWeights::Load(*model, spec, path, *pool, nullptr));
  return weights->content_hash();
}

absl::Status GrowExits(const Flags& flags, const ModelFile& model, const InflateOptions& options) {
  OUTRIDER_ASSIGN_OR_RETURN(const TrainedExits exits, ReadExits(flags.exits));
  OUTRIDER_ASSIGN_OR_RETURN(const uint64_t old_hash, HashOf(flags.model));
  if (exits.target.content_hash != old_hash) {
    return InvalidArgument(flags.exits, ": was trained for other weights than those of ",
                           flags.model, ", for ", exits.target.name);
  }
  OUTRIDER_ASSIGN_OR_RETURN(const uint64_t new_hash, HashOf(flags.out));
  OUTRIDER_ASSIGN_OR_RETURN(const TrainedExits grown, InflateExits(exits, flags.exits, model,
                                                                   flags.model, options, new_hash));
  return WriteExits(grown, flags.exits_out);
}

absl::Status Run(const Flags& flags) {
  if (flags.exits.empty() != flags.exits_out.empty()) {
    return InvalidArgument("--exits and --exits-out go together: what to read and what to write");
  }
  std::error_code ignored;
  if (std::filesystem::equivalent(flags.model, flags.out, ignored)) {
    return InvalidArgument(flags.out, ": is the model to grow; choose another --out");
  }
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<ModelFile> model, ModelFile::Open(flags.model));
  InflateOptions like;
  if (!flags.like.empty()) {
    OUTRIDER_ASSIGN_OR_RETURN(like, ShapeLike(flags.like, *model, flags.model));
  }
  const InflateOptions options = Resolve(flags, like);
  OUTRIDER_ASSIGN_OR_RETURN(const uint64_t bytes, InflatedBytes(*model, flags.model, options));
  ProgressBar bar("inflating", bytes);
  OUTRIDER_RETURN_IF_ERROR(
      Inflate(*model, flags.model, flags.out, options,
              [&bar](uint64_t done, std::string_view tensor) { bar.Advance(done, tensor); }));
  bar.Finish();
  std::printf("%s: %s (was %s)\n", flags.out.c_str(), HumanBytes(bytes).c_str(),
              HumanBytes(model->file_bytes()).c_str());
  if (!flags.exits.empty()) return GrowExits(flags, *model, options);
  return absl::OkStatus();
}

}  // namespace
}  // namespace outrider

int main(int argc, char** argv) {
  CLI::App app("Grow a model to a larger shape that says the same", "inflate");
  outrider::Flags flags;
  app.footer(outrider::kFooter);
  app.add_option("model", flags.model, "A .gguf file or a Hugging Face directory")->required();
  app.add_option("--out", flags.out, "Where to write the GGUF file")->required();
  app.add_option("--like", flags.like, "A whole shape: 1b, 1.1b, 3b or 8b");
  app.add_option("--width", flags.shape.embedding_length, "Dimensions of the residual stream");
  app.add_option("--layers", flags.shape.block_count, "Layers; old ones stay evenly spread");
  app.add_option("--heads", flags.shape.head_count, "Query heads, of the length they have");
  app.add_option("--kv-heads", flags.shape.kv_head_count, "Key heads");
  app.add_option("--feed-forward", flags.shape.feed_forward_length, "Its inner dimensions");
  app.add_option("--type", flags.type,
                 "f32, f16, bf16, q8_0, q6_k, q5_k, q4_k, q4_0 or iq4_xs; without it tensors keep "
                 "their types")
      ->check(
          CLI::IsMember({"f32", "f16", "bf16", "q8_0", "q6_k", "q5_k", "q4_k", "q4_0", "iq4_xs"},
                        CLI::ignore_case));
  app.add_option("--exits", flags.exits, "Exit heads of the model, to grow with it");
  app.add_option("--exits-out", flags.exits_out, "Where to write those");
  return outrider::RunProgram(app, argc, argv, [&] { return outrider::Run(flags); });
}
