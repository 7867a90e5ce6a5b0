// outrider-adapters train-tokenizer: text to a byte-level BPE vocabulary.
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "CLI/CLI.hpp"
#include "adapters/cli/command.h"
#include "adapters/text/bpe_trainer.h"
#include "adapters/text/text_file.h"
#include "common/base/atomic_file.h"
#include "common/base/status.h"
#include "common/formats/containers/gguf_writer.h"
#include "common/formats/tokenizers/tokenizer_files.h"

namespace outrider {
namespace {

struct Flags {
  std::vector<std::string> texts;
  std::vector<std::string> outs;
  size_t tokens = 4096;
};

std::filesystem::path Extension(const std::string& path) {
  return std::filesystem::path(path).extension();
}

// Before the work, not after it.
absl::Status CheckOutputs(const Flags& flags) {
  for (const std::string& out : flags.outs) {
    if (Extension(out) != ".json" && Extension(out) != ".gguf") {
      return InvalidArgument(out, ": --out must end in .json (Hugging Face) or .gguf");
    }
    OUTRIDER_RETURN_IF_ERROR(AtomicFile::Create(out).status());
  }
  return absl::OkStatus();
}

absl::Status WriteJson(const TokenizerSpec& spec, const std::string& path) {
  OUTRIDER_ASSIGN_OR_RETURN(const TokenizerJson json, TokenizerToJson(spec));
  OUTRIDER_RETURN_IF_ERROR(WriteAtomically(path, json.tokenizer));
  const auto config = std::filesystem::path(path).replace_filename("tokenizer_config.json");
  return WriteAtomically(config.string(), json.config);
}

// A vocabulary without a model, as llama.cpp's ggml-vocab-*.gguf are.
absl::Status WriteGguf(const TokenizerSpec& spec, const std::string& path) {
  GgufWriter writer;
  writer.AddString("general.architecture", "llama");
  writer.AddString("general.name", std::filesystem::path(path).stem().string());
  AddTokenizerMetadata(spec, writer);
  OUTRIDER_RETURN_IF_ERROR(writer.Begin(path));
  return writer.Commit();
}

absl::Status TrainTokenizer(const Flags& flags) {
  OUTRIDER_RETURN_IF_ERROR(CheckOutputs(flags));
  BpeTrainer trainer;
  size_t document_count = 0;
  size_t text_bytes = 0;
  for (const std::string& path : flags.texts) {
    OUTRIDER_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path));
    const std::vector<std::string_view> documents = Documents(text);
    if (documents.empty()) return InvalidArgument(path, ": holds no text");
    for (const std::string_view document : documents) {
      trainer.Add(document);
      text_bytes += document.size();
    }
    document_count += documents.size();
  }
  OUTRIDER_ASSIGN_OR_RETURN(const TokenizerSpec spec, trainer.Train(flags.tokens));
  for (const std::string& out : flags.outs) {
    OUTRIDER_RETURN_IF_ERROR(Extension(out) == ".json" ? WriteJson(spec, out)
                                                       : WriteGguf(spec, out));
  }
  std::printf("%zu tokens and %zu merges from %zu documents, %zu bytes\n", spec.tokens.size(),
              spec.merges.size(), document_count, text_bytes);
  return absl::OkStatus();
}

}  // namespace

void AddTrainTokenizerCommand(CLI::App& app, CommandBody& chosen) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command =
      app.add_subcommand("train-tokenizer", "Learn a byte-level BPE vocabulary from text");
  command->footer(
      "The same text gives the same tokenizer, whatever the machine. Token 0 is <|endoftext|>, "
      "which begins and ends every text; every byte is a token, so no text is unknown.\n"
      "Beside a tokenizer.json goes tokenizer_config.json, which names the special tokens.\n"
      "  outrider-adapters train-tokenizer books.txt.gz --tokens 4096 --out tokenizer.gguf");
  command->add_option("texts", flags->texts, "Text files, plain or gzip'd")->required();
  command
      ->add_option("--tokens", flags->tokens,
                   "How many tokens the vocabulary has, with bytes and <|endoftext|>")
      ->capture_default_str()
      ->envname("OUTRIDER_TOKENS");
  command
      ->add_option("--out", flags->outs,
                   "Where to write: .json for Hugging Face's form, .gguf for GGUF; may be repeated")
      ->required()
      ->envname("OUTRIDER_OUT");
  command->callback([flags, &chosen] { chosen = [flags] { return TrainTokenizer(*flags); }; });
}

}  // namespace outrider
