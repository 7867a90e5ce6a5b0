// outrider tokenize, outrider detokenize: a model's tokenizer by hand.
#include <cstdio>
#include <iostream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "client/cli/command.h"
#include "common/base/status.h"
#include "common/text/tokenizer_source.h"
#include "nlohmann/json.hpp"

namespace outrider {
namespace {

struct TokenizeFlags {
  std::string model;
  std::optional<std::string> text;
  bool no_bos = false;
  bool plain = false;
  bool pieces = false;
};

struct DetokenizeFlags {
  std::string model;
  std::vector<TokenId> ids;
  bool special = false;
};

std::string ReadStandardInput() {
  return std::string(std::istreambuf_iterator<char>(std::cin), {});
}

void Print(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
}

std::string Quoted(std::string_view bytes) {
  return nlohmann::json(std::string(bytes))
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

absl::Status Tokenize(const TokenizeFlags& flags) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<Tokenizer> tokenizer, OpenTokenizer(flags.model));
  const std::string text = flags.text ? *flags.text : ReadStandardInput();
  const std::vector<TokenId> ids =
      tokenizer->Encode(text, {.add_special = !flags.no_bos, .parse_special = !flags.plain});
  std::string out;
  for (const TokenId id : ids) {
    if (flags.pieces) {
      out += Concat(id, "\t", Quoted(tokenizer->TokenBytes(id)), "\n");
    } else {
      out += Concat(out.empty() ? "" : " ", id);
    }
  }
  Print(flags.pieces ? out : out + "\n");
  return absl::OkStatus();
}

absl::StatusOr<std::vector<TokenId>> ReadIds(std::istream& input) {
  std::vector<TokenId> ids;
  for (std::string word; input >> word;) {
    TokenId id = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), id);
    if (error != std::errc() || end != word.data() + word.size()) {
      return InvalidArgument("standard input: \"", word, "\" is not a token id");
    }
    ids.push_back(id);
  }
  return ids;
}

absl::Status Detokenize(const DetokenizeFlags& flags) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<Tokenizer> tokenizer, OpenTokenizer(flags.model));
  std::vector<TokenId> ids = flags.ids;
  if (ids.empty()) {
    OUTRIDER_ASSIGN_OR_RETURN(ids, ReadIds(std::cin));
  }
  for (const TokenId id : ids) {
    if (id < 0 || id >= tokenizer->vocabulary_size()) {
      return InvalidArgument("token ", id, " is outside the vocabulary of ", flags.model,
                             ", which has ", tokenizer->vocabulary_size(), " tokens");
    }
  }
  Print(tokenizer->Decode(ids, /*skip_special=*/!flags.special) + "\n");
  return absl::OkStatus();
}

constexpr char kModelHelp[] =
    "A .gguf file, a Hugging Face directory, tokenizer.json or tokenizer.model";

}  // namespace

void AddTokenizeCommand(CLI::App& app, CommandBody& chosen) {
  auto flags = std::make_shared<TokenizeFlags>();
  CLI::App* command = app.add_subcommand("tokenize", "Turn text into a model's token ids");
  command->footer(
      "  outrider tokenize model.gguf \"Once upon a time\"\n"
      "  outrider tokenize model.gguf --pieces < story.txt");
  command->add_option("model", flags->model, kModelHelp)->required();
  command->add_option("text", flags->text, "The text; standard input when absent");
  command
      ->add_flag("--pieces", flags->pieces, "One token a line: id, tab, its bytes as a JSON string")
      ->envname("OUTRIDER_PIECES");
  command
      ->add_flag("--no-bos", flags->no_bos,
                 "Add no begin or end token, even if the model asks for one")
      ->envname("OUTRIDER_NO_BOS");
  command
      ->add_flag("--plain", flags->plain,
                 "Special tokens spelled out in the text are just characters (for untrusted text)")
      ->envname("OUTRIDER_PLAIN");
  command->callback([flags, &chosen] { chosen = [flags] { return Tokenize(*flags); }; });
}

void AddDetokenizeCommand(CLI::App& app, CommandBody& chosen) {
  auto flags = std::make_shared<DetokenizeFlags>();
  CLI::App* command = app.add_subcommand("detokenize", "Turn a model's token ids back into text");
  command->footer(
      "  outrider detokenize model.gguf 9038 2501 263 931\n"
      "  outrider tokenize model.gguf \"Hello\" | outrider detokenize model.gguf");
  command->add_option("model", flags->model, kModelHelp)->required();
  command->add_option("ids", flags->ids, "Token ids; standard input when absent");
  command->add_flag("--special", flags->special, "Print special tokens too")
      ->envname("OUTRIDER_SPECIAL");
  command->callback([flags, &chosen] { chosen = [flags] { return Detokenize(*flags); }; });
}

}  // namespace outrider
