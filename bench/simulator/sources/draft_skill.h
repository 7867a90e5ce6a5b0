// How well a synthetic drafter drafts: at each rank of its list, how often the target's choice is
// there, and how sure it says it is.
//
//   DraftSkill::Parse("0.70,0.12,0.05,0.03,0.02")       right at rank 0 in 70 % of places
//   DraftSkill::Parse("0.5@0.95,0.02;0.5@0.45,0.2,0.1") easy and hard places, half of each
//   DraftSkill::Parse("perfect"), "good", "bad", "adversarial", "none"
//
// Whether a place is easy or hard, and which rank the truth has there, hang on the tokens before
// it: asked again, it answers the same, as a model does. It knows whether a place is easy or hard,
// and its confidences are calibrated; all but the adversary's, which is as sure as a drafter can be
// and always wrong.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/simulator/sources/sources.h"
#include "bench/simulator/world/chance.h"
#include "common/formats/tokenizers/tokenizer_spec.h"

namespace outrider {

// A token that is neither the truth nor among those taken.
TokenId WrongToken(Draw& draw, TokenId truth, int32_t vocabulary_size,
                   std::span<const Guess> taken);

class DraftSkill {
 public:
  // Of some share of all places.
  struct Kind {
    double share;
    std::vector<double> right;    // by rank, how often the truth is there
    std::vector<double> claimed;  // by rank, what the drafter says
  };

  // InvalidArgument unless every list holds probabilities with a sum of at most 1.
  static absl::StatusOr<DraftSkill> Parse(std::string_view text);

  // Makes this drafter a clairvoyant: it proposes the truth where its list holds it, and nothing
  // else. No policy can do better with the same list, whatever it grows.
  DraftSkill Clairvoyant() const;

  // Up to `count` guesses at the place with this hash, where the target chooses `truth`; the most
  // probable first. Replaces what `guesses` held.
  void Propose(uint64_t seed, uint64_t hash, TokenId truth, int32_t vocabulary_size, uint32_t count,
               std::vector<Guess>& guesses) const;

 private:
  explicit DraftSkill(std::vector<Kind> kinds) : kinds_(std::move(kinds)) {}

  const Kind& KindAt(double uniform) const;

  std::vector<Kind> kinds_;  // shares sum to 1
  bool clairvoyant_ = false;
};

// As Parse() takes it, right at the first rank so often; of the rest its others take four tenths, 17, 10
// and 7 hundredths, as those of "good" do.
std::string SkillLikeGood(double first);

// Drafts of a text by a drafter of some skill, which draws the noise that the target draws.
class SkilledDrafts final : public Drafts {
 public:
  // All outlive it. `seed` tells drafters of the same skill apart.
  SkilledDrafts(const DraftSkill& skill, uint64_t seed, const Text& text, const Chooser& chooser)
      : skill_(&skill), seed_(seed), text_(text), chooser_(chooser) {}

  void Propose(const Place& place, uint32_t count, std::vector<Guess>& guesses) const override {
    skill_->Propose(seed_, place.hash, text_.After(place, chooser_), text_.vocabulary_size(), count,
                    guesses);
  }

  void Become(const DraftSkill& skill) { skill_ = &skill; }

 private:
  const DraftSkill* skill_;
  const uint64_t seed_;
  const Text& text_;
  const Chooser& chooser_;
};

}  // namespace outrider
