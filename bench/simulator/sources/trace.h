// A recorded run: what a target chose, what a draft would have proposed, and what exits guessed.
//
// One line for each thing, words separated by spaces, '#' begins a comment:
//
//   outrider-trace 1                          first, always: the format's revision
//   vocabulary 32000
//   prompt 1 15043 29892
//   exits 0.5 0.75                            depths; left out: none
//   place 3186 draft 3186:0.81 920:0.07 exits 3186:0.6:0.7 3186:0.93:0.9
//   place 310 draft 278:0.4 310:0.31 exits 278:0.3 310:0.8
//
// A place is a token of the reply: the target's choice; what the draft proposes there, most
// probable first, with its confidences; and for each exit its choice, with the probability it gives
// it and its largest softmax there (the same, where it is left out).
//
// Beside the recorded path nobody knows what would have been said. There the target writes hashed
// text, and the draft is as right and as sure as at a recorded place picked by chance. What comes
// after the last place is beside the path too.
//
// Threads: constant once read.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/simulator/sources/sources.h"
#include "common/formats/tokenizers/tokenizer_spec.h"

namespace outrider {

struct ExitChoice {
  TokenId token;
  double probability;
  double largest_softmax;
};

struct TracePlace {
  TokenId token;
  std::vector<Guess> draft;
  std::vector<ExitChoice> exits;  // one for each depth
};

class Trace {
 public:
  // NotFound or InvalidArgument, naming file and line.
  static absl::StatusOr<Trace> Read(const std::string& path);
  // `name` stands for the file in errors.
  static absl::StatusOr<Trace> Parse(std::string_view text, std::string_view name);

  int32_t vocabulary_size() const { return vocabulary_size_; }
  std::span<const TokenId> prompt() const { return prompt_; }
  std::span<const double> exit_depths() const { return exit_depths_; }
  size_t place_count() const { return places_.size(); }

  // In which share of the places the target's choice has each rank of the draft's list.
  std::vector<double> RightByRank() const;

  // Null beside the recorded path.
  const TracePlace* Find(uint64_t hash, uint32_t length) const;
  // One picked by chance, for a place beside the path.
  const TracePlace& Similar(uint64_t hash) const { return places_[hash % places_.size()]; }

 private:
  friend class TraceReader;

  int32_t vocabulary_size_ = 0;
  std::vector<TokenId> prompt_;
  std::vector<double> exit_depths_;
  std::vector<TracePlace> places_;
  std::vector<uint64_t> hashes_;  // of what comes before each place
};

// The trace outlives them.
class TracedText final : public Text {
 public:
  explicit TracedText(const Trace& trace) : trace_(trace) {}

  int32_t vocabulary_size() const override { return trace_.vocabulary_size(); }
  TokenId After(const Place& place, const Chooser& chooser) const override;

 private:
  const Trace& trace_;
};

class TracedDrafts final : public Drafts {
 public:
  TracedDrafts(const Trace& trace, const Text& text, const Chooser& chooser)
      : trace_(trace), text_(text), chooser_(chooser) {}

  void Propose(const Place& place, uint32_t count, std::vector<Guess>& guesses) const override;

 private:
  const Trace& trace_;
  const Text& text_;
  const Chooser& chooser_;
};

class TracedExits final : public Exits {
 public:
  explicit TracedExits(const Trace& trace) : trace_(trace) {}

  std::span<const double> depths() const override { return trace_.exit_depths(); }
  // The walk down by the exit's own choices, as sure as of all of them together. Beside the path,
  // where its walk is wrong already, it chooses nothing that was drafted and is as sure of that as
  // somewhere on the path.
  Hint Guess(size_t index, const Place& root, std::span<const DraftedNode> nodes,
             const Outcome& outcome) const override;

 private:
  const Trace& trace_;
};

}  // namespace outrider
