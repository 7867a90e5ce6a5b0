#include "bench/simulator/sources/trace.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <optional>
#include <utility>

#include "bench/simulator/cli/parse.h"
#include "bench/simulator/sources/draft_skill.h"
#include "bench/simulator/world/chance.h"
#include "common/base/status.h"

namespace outrider {
namespace {

constexpr std::string_view kFirstLine = "outrider-trace 1";
constexpr double kTokenMax = 1 << 30;

std::vector<std::string_view> WordsOf(std::string_view line) {
  std::vector<std::string_view> words = SplitAt(line.substr(0, line.find('#')), ' ');
  std::erase(words, std::string_view());
  return words;
}

}  // namespace

// Takes a trace's lines one by one.
class TraceReader {
 public:
  absl::Status Take(std::string_view line) {
    const std::vector<std::string_view> words = WordsOf(line);
    if (words.empty()) return absl::OkStatus();
    const std::span<const std::string_view> rest = std::span(words).subspan(1);
    if (words[0] == "vocabulary") return TakeVocabulary(rest);
    if (trace_.vocabulary_size_ == 0) return InvalidArgument("'vocabulary' has to come first");
    if (words[0] == "prompt") return TakePrompt(rest);
    if (words[0] == "exits") return TakeExits(rest);
    if (words[0] == "place") return TakePlace(rest);
    return InvalidArgument("'", words[0], "' is none of vocabulary, prompt, exits, place");
  }

  absl::StatusOr<Trace> Finish() {
    if (trace_.prompt_.empty()) return InvalidArgument("there is no prompt");
    if (trace_.places_.empty()) return InvalidArgument("there are no places");
    uint64_t hash = 0;
    for (const TokenId token : trace_.prompt_) hash = TokenHistory::Extend(hash, token);
    for (const TracePlace& place : trace_.places_) {
      trace_.hashes_.push_back(hash);
      hash = TokenHistory::Extend(hash, place.token);
    }
    return std::move(trace_);
  }

 private:
  using Words = std::span<const std::string_view>;

  absl::Status TakeVocabulary(Words words) {
    const std::optional<double> size = words.size() == 1 ? ParseNumber(words[0]) : std::nullopt;
    if (!size || *size < 2 || *size > kTokenMax || *size != std::floor(*size)) {
      return InvalidArgument("the vocabulary is one number of tokens, 2 or more");
    }
    trace_.vocabulary_size_ = static_cast<int32_t>(*size);
    return absl::OkStatus();
  }

  absl::Status TakePrompt(Words words) {
    for (const std::string_view word : words) {
      OUTRIDER_ASSIGN_OR_RETURN(const TokenId token, TokenIn(word));
      trace_.prompt_.push_back(token);
    }
    return absl::OkStatus();
  }

  absl::Status TakeExits(Words words) {
    for (const std::string_view word : words) {
      const std::optional<double> depth = ParseNumber(word);
      const double before = trace_.exit_depths_.empty() ? 0 : trace_.exit_depths_.back();
      if (!depth || *depth <= before || *depth >= 1) {
        return InvalidArgument("the depths of exits rise between 0 and 1");
      }
      trace_.exit_depths_.push_back(*depth);
    }
    return absl::OkStatus();
  }

  absl::Status TakePlace(Words words) {
    if (words.empty()) return InvalidArgument("a place begins with the target's token");
    OUTRIDER_ASSIGN_OR_RETURN(const TokenId token, TokenIn(words[0]));
    TracePlace place{token, {}, {}};
    std::string_view whose;
    for (const std::string_view word : words.subspan(1)) {
      if (word == "draft" || word == "exits") {
        whose = word;
      } else if (whose.empty()) {
        return InvalidArgument("'", word, "' stands before 'draft' and 'exits'");
      } else if (whose == "draft") {
        OUTRIDER_ASSIGN_OR_RETURN(const Guess guess, GuessIn(word));
        place.draft.push_back(guess);
      } else {
        OUTRIDER_ASSIGN_OR_RETURN(const ExitChoice choice, ChoiceIn(word));
        place.exits.push_back(choice);
      }
    }
    OUTRIDER_RETURN_IF_ERROR(Check(place));
    trace_.places_.push_back(std::move(place));
    return absl::OkStatus();
  }

  absl::Status Check(const TracePlace& place) const {
    if (place.exits.size() != trace_.exit_depths_.size()) {
      return InvalidArgument("there are ", trace_.exit_depths_.size(), " exits, the place has ",
                             place.exits.size());
    }
    for (size_t i = 1; i < place.draft.size(); ++i) {
      if (place.draft[i].probability > place.draft[i - 1].probability) {
        return InvalidArgument("the draft's tokens are not the most probable first");
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<TokenId> TokenIn(std::string_view word) const {
    const std::optional<double> token = ParseNumber(word);
    if (!token || *token < 0 || *token >= trace_.vocabulary_size_ || *token != std::floor(*token)) {
      return InvalidArgument("'", word, "' is no token of the vocabulary of ",
                             trace_.vocabulary_size_);
    }
    return static_cast<TokenId>(*token);
  }

  absl::StatusOr<Guess> GuessIn(std::string_view word) const {
    const size_t colon = word.find(':');
    OUTRIDER_ASSIGN_OR_RETURN(const TokenId token, TokenIn(word.substr(0, colon)));
    const std::optional<double> probability =
        colon == word.npos ? std::nullopt : ParseNumber(word.substr(colon + 1));
    if (!probability || *probability < 0 || *probability > 1) {
      return InvalidArgument("'", word, "' is no guess: it is written TOKEN:PROBABILITY");
    }
    return Guess{token, *probability};
  }

  absl::StatusOr<ExitChoice> ChoiceIn(std::string_view word) const {
    const size_t colon = word.rfind(':');
    if (colon == word.find(':')) {
      OUTRIDER_ASSIGN_OR_RETURN(const Guess guess, GuessIn(word));
      return ExitChoice{guess.token, guess.probability, guess.probability};
    }
    OUTRIDER_ASSIGN_OR_RETURN(const Guess guess, GuessIn(word.substr(0, colon)));
    const std::optional<double> softmax = ParseNumber(word.substr(colon + 1));
    if (!softmax || *softmax < 0 || *softmax > 1) {
      return InvalidArgument("'", word,
                             "' is no exit's choice: it is written TOKEN:PROBABILITY:SOFTMAX");
    }
    return ExitChoice{guess.token, guess.probability, *softmax};
  }

  Trace trace_;
};

absl::StatusOr<Trace> Trace::Read(const std::string& path) {
  std::ifstream file(path);
  if (!file) return NotFound(path, ": cannot be read");
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  return Parse(text, path);
}

absl::StatusOr<Trace> Trace::Parse(std::string_view text, std::string_view name) {
  const std::vector<std::string_view> lines = SplitAt(text, '\n');
  if (lines[0] != kFirstLine) {
    return InvalidArgument(name, ":1: a trace begins with '", kFirstLine, "'");
  }
  TraceReader reader;
  for (size_t i = 1; i < lines.size(); ++i) {
    OUTRIDER_RETURN_IF_ERROR(Annotate(reader.Take(lines[i]), Concat(name, ":", i + 1)));
  }
  absl::StatusOr<Trace> trace = reader.Finish();
  if (!trace.ok()) return Annotate(trace.status(), name);
  return trace;
}

std::vector<double> Trace::RightByRank() const {
  std::vector<double> right;
  for (const TracePlace& place : places_) {
    right.resize(std::max(right.size(), place.draft.size()));
    const auto found = std::ranges::find(place.draft, place.token, &Guess::token);
    if (found == place.draft.end()) continue;
    right[static_cast<size_t>(found - place.draft.begin())] +=
        1.0 / static_cast<double>(places_.size());
  }
  return right;
}

const TracePlace* Trace::Find(uint64_t hash, uint32_t length) const {
  if (length < prompt_.size()) return nullptr;
  const size_t index = length - prompt_.size();
  return index < places_.size() && hashes_[index] == hash ? &places_[index] : nullptr;
}

TokenId TracedText::After(const Place& place, const Chooser&) const {
  const TracePlace* recorded = trace_.Find(place.hash, place.length());
  if (recorded != nullptr) return recorded->token;
  return static_cast<TokenId>(
      Draw(place.hash).Below(static_cast<uint64_t>(trace_.vocabulary_size())));
}

void TracedDrafts::Propose(const Place& place, uint32_t count, std::vector<Guess>& guesses) const {
  const TracePlace* recorded = trace_.Find(place.hash, place.length());
  guesses = (recorded != nullptr ? *recorded : trace_.Similar(place.hash)).draft;
  if (guesses.size() > count) guesses.resize(count);
  if (recorded != nullptr) return;
  // Other tokens, right where those were right.
  const TokenId truth_there = trace_.Similar(place.hash).token;
  const TokenId truth = text_.After(place, chooser_);
  Draw draw(1, place.hash);
  for (size_t i = 0; i < guesses.size(); ++i) {
    const bool is_right = guesses[i].token == truth_there;
    guesses[i].token =
        is_right ? truth
                 : WrongToken(draw, truth, trace_.vocabulary_size(), std::span(guesses).first(i));
  }
}

Exits::Hint TracedExits::Guess(size_t index, const Place& root, std::span<const DraftedNode> nodes,
                               const Outcome&) const {
  double probability = 1;
  double largest_softmax = 1;
  std::vector<TokenId> path;
  const auto choose = [&](uint32_t, std::span<const TokenId> above) -> absl::StatusOr<TokenId> {
    uint64_t hash = root.hash;
    for (const TokenId token : above) hash = TokenHistory::Extend(hash, token);
    const TracePlace* place =
        trace_.Find(hash, root.length() + static_cast<uint32_t>(above.size()));
    const ExitChoice& choice = (place != nullptr ? *place : trace_.Similar(hash)).exits[index];
    probability *= choice.probability;
    largest_softmax = choice.largest_softmax;
    if (place != nullptr) return choice.token;
    return static_cast<TokenId>(hash % static_cast<uint64_t>(trace_.vocabulary_size()));
  };
  const Outcome outcome = *WalkDown(nodes, path, choose);
  return {outcome, probability, largest_softmax};
}

}  // namespace outrider
