// The laws of every engine (engine.h) whose layers hear an encoder: what a row comes to is a function
// of the tokens on its way and of what its sequence has heard.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/engine/engine_target.h"
#include "tests/engine/engine_contract.h"
#include "tests/model/hearing.h"

namespace outrider {
namespace {

using States = std::vector<float>;

constexpr uint32_t kHeardMax = 70;  // three pages

// Text that is seen as far as it goes, and through a window.
class Hearing : public EngineContract {
 protected:
  Hearing() { engine_ = LoadHearing({.sequence_count_max = 6, .encoder_length_max = kHeardMax}); }

  std::unique_ptr<Engine> LoadHearing(const EngineOptions& options) {
    return OrDie(MakeHearingEngine(path_, options, *pool_));
  }

  SequenceId OpenHearing(const States& states) {
    const SequenceId sequence = OrDie(engine_->Open());
    OUTRIDER_CHECK_OK(engine_->Hear(sequence, states));
    return sequence;
  }

  // After each token of a text that is read from its beginning, alone.
  std::vector<Logits> ReadHearing(const States& states, const Tokens& tokens) {
    const SequenceId sequence = OpenHearing(states);
    std::vector<Logits> logits = Read(*engine_, sequence, tokens);
    engine_->Close(sequence);
    return logits;
  }

  // Pages of what has been heard.
  uint32_t HeldPages(const Engine& engine) const {
    const Ledger& ledger = engine.ledger();
    const uint32_t group = ledger.group_count() - 1;
    OUTRIDER_CHECK(ledger.group(group).pages_each == 3, "an encoder's pages are the last group");
    return ledger.held_count(group);
  }
};

INSTANTIATE_TEST_SUITE_P(Families, Hearing, testing::Values("qwen3", "mistral"),
                         [](const auto& family) { return std::string(family.param); });

// The smallest change of a row by what is heard.
float LeastChange(const std::vector<Logits>& a, const std::vector<Logits>& b) {
  float least = std::numeric_limits<float>::infinity();
  for (size_t row = 0; row < a.size(); ++row) {
    float most = 0;
    for (size_t i = 0; i < a[row].size(); ++i)
      most = std::max(most, std::abs(a[row][i] - b[row][i]));
    least = std::min(least, most);
  }
  return least;
}

// In pieces, for encoders of less than a page, of whole pages and of more.
TEST_P(Hearing, RowsOneAtATimeAreRowsTogether) {
  EXPECT_EQ(engine_->info().encoder_length_max, kHeardMax);
  const Tokens text = RandomTokens(45, 1);
  std::vector<std::vector<Logits>> of_encoders;
  for (const uint32_t heard : {1u, 31u, 64u, kHeardMax}) {
    const States states = EncoderStates(heard, heard);
    const std::vector<Logits> together = ReadHearing(states, text);
    for (const size_t chunk : {1, 7}) {
      const SequenceId sequence = OpenHearing(states);
      std::vector<Logits> pieces;
      for (size_t first = 0; first < text.size(); first += chunk) {
        const auto end = std::min(text.size(), first + chunk);
        for (Logits& logits :
             Read(*engine_, sequence, Tokens(text.begin() + first, text.begin() + end))) {
          pieces.push_back(std::move(logits));
        }
      }
      ExpectSame(pieces, together, Concat(heard, " heard, in chunks of ", chunk));
      engine_->Close(sequence);
    }
    for (const std::vector<Logits>& other : of_encoders) {
      EXPECT_TRUE(LeastChange(together, other) > 0.1f) << "every row hears its encoder";
    }
    of_encoders.push_back(together);
  }
}

// Rows of an encoder that are more than a run's go into the model in several pieces.
TEST_P(Hearing, WhatIsHeardDoesNotDependOnTheRowsOfARun) {
  const States states = EncoderStates(kHeardMax, 2);
  const Tokens text = RandomTokens(9, 3);
  const auto narrow =
      LoadHearing({.node_count_max = 4, .row_count_max = 9, .encoder_length_max = kHeardMax});
  const SequenceId sequence = OrDie(narrow->Open());
  OUTRIDER_CHECK_OK(narrow->Hear(sequence, states));
  ExpectSame(Read(*narrow, sequence, text), ReadHearing(states, text), "nine rows at a time");
}

TEST_P(Hearing, ATreeIsTheChainsDownToItsNodes) {
  const States states = EncoderStates(40, 4);
  const Tokens prompt = RandomTokens(38, 5);
  const Bush bush = MakeBush(20, 6);
  const SequenceId sequence = OpenHearing(states);
  Read(*engine_, sequence, Tokens(prompt.begin(), prompt.end() - 1));
  OUTRIDER_CHECK_OK(engine_->Reserve(sequence, 2, 20));
  const Tokens root = {prompt.back()};
  const std::vector<Logits> rows =
      Run(*engine_, {{.sequence = sequence, .chain = root, .nodes = bush.nodes}});
  for (size_t i = 0; i < bush.nodes.size(); ++i) {
    const Tokens path = bush.PathTo(bush.nodes[i].slot);
    ExpectSame(rows[1 + i], ReadHearing(states, Joined(prompt, path)).back(), Concat("node ", i));
  }
  // And what is committed of it goes on hearing.
  const uint32_t slot = bush.nodes.front().slot;
  engine_->Commit(sequence, 1, {&slot, 1});
  const Tokens text = Joined(Joined(prompt, bush.PathTo(slot)), {9});
  ExpectSame(Read(*engine_, sequence, {9})[0], ReadHearing(states, text).back(), "what follows");
}

// The same text below other encoders: prompts, and trees below what has been read.
TEST_P(Hearing, SequencesInOneRunHearTheirOwn) {
  const Tokens read = RandomTokens(33, 7), chain = RandomTokens(6, 8);
  const Bush bush = MakeBush(8, 9);
  const std::vector<States> encoders = {EncoderStates(50, 10), EncoderStates(3, 11),
                                        EncoderStates(kHeardMax, 12)};
  const auto run = [&](const std::vector<uint32_t>& which) {
    std::vector<SequenceId> sequences;
    std::vector<RunPart> parts;
    for (const uint32_t i : which) {
      sequences.push_back(OpenHearing(encoders[i]));
      Read(*engine_, sequences.back(), read);
      OUTRIDER_CHECK_OK(engine_->Reserve(sequences.back(), 6, 8));
      parts.push_back({.sequence = sequences.back(), .chain = chain, .nodes = bush.nodes});
    }
    std::vector<Logits> rows = Run(*engine_, parts);
    for (const SequenceId sequence : sequences) engine_->Close(sequence);
    return rows;
  };
  std::vector<Logits> alone;
  for (const uint32_t i : {1u, 0u, 2u}) {
    for (Logits& logits : run({i})) alone.push_back(std::move(logits));
  }
  ExpectSame(run({1, 0, 2}), alone, "together");
}

TEST_P(Hearing, AForkHasHeardWhatItsOriginHas) {
  const States states = EncoderStates(45, 13);
  const Tokens prompt = RandomTokens(45, 14);
  const SequenceId sequence = OpenHearing(states);
  const SequenceId early = OrDie(engine_->Fork(sequence, 0));
  Read(*engine_, sequence, prompt);
  const SequenceId fork = OrDie(engine_->Fork(sequence, 45));
  Read(*engine_, sequence, {1, 2, 3});
  ExpectSame(Read(*engine_, fork, {4, 5})[1], ReadHearing(states, Joined(prompt, {4, 5})).back(),
             "the fork");
  engine_->Close(sequence);
  // Who opens now may get the memory of those who have gone, and hears something else.
  const SequenceId other = OpenHearing(EncoderStates(kHeardMax, 15));
  ExpectSame(Read(*engine_, fork, {9})[0], ReadHearing(states, Joined(prompt, {4, 5, 9})).back(),
             "the fork alone");
  ExpectSame(Read(*engine_, early, prompt), ReadHearing(states, prompt), "a fork before any row");
  ExpectSame(Read(*engine_, other, prompt), ReadHearing(EncoderStates(kHeardMax, 15), prompt),
             "whoever came later");
}

TEST_P(Hearing, WhatIsTruncatedHasStillHeard) {
  const States states = EncoderStates(33, 16);
  const Tokens prompt = RandomTokens(40, 17);
  const SequenceId sequence = OpenHearing(states);
  Read(*engine_, sequence, prompt);
  for (const uint32_t length : {30u, 1u, 0u}) {
    const uint32_t left = engine_->Truncate(sequence, length);
    const Tokens kept(prompt.begin(), prompt.begin() + length);
    const Tokens rest = Joined(Tokens(kept.begin() + left, kept.end()), {77});
    ExpectSame(Read(*engine_, sequence, rest).back(),
               ReadHearing(states, Joined(kept, {77})).back(), Concat("cut to ", length));
    engine_->Truncate(sequence, std::min(length, engine_->Length(sequence)));
  }
}

// --- memory ---

TEST_P(Hearing, PagesAreHeldAsLongAsSomebodyHasHeardThem) {
  const SequenceId sequence = OrDie(engine_->Open());
  OUTRIDER_CHECK_OK(engine_->Reserve(sequence, 40, 8));
  EXPECT_EQ(HeldPages(*engine_), 0u);
  const uint32_t free_cell_pages = engine_->ledger().free_count(0);
  OUTRIDER_CHECK_OK(engine_->Hear(sequence, EncoderStates(33, 18)));
  EXPECT_EQ(HeldPages(*engine_), 2u);
  EXPECT_EQ(engine_->ledger().free_count(0), free_cell_pages) << "what was reserved stays so";
  const Tokens prompt = RandomTokens(40, 19);
  const std::vector<Logits> rows = Run(*engine_, {{.sequence = sequence, .chain = prompt}});
  ExpectSame(rows, ReadHearing(EncoderStates(33, 18), prompt), "room from before is there still");
  engine_->Commit(sequence, 40, {});
  const SequenceId fork = OrDie(engine_->Fork(sequence, 40));
  const SequenceId other = OpenHearing(EncoderStates(kHeardMax, 20));
  EXPECT_EQ(HeldPages(*engine_), 5u) << "a fork shares";
  engine_->Truncate(sequence, 0);
  EXPECT_EQ(HeldPages(*engine_), 5u);
  engine_->Close(sequence);
  EXPECT_EQ(HeldPages(*engine_), 5u) << "the fork has them still";
  engine_->Close(fork);
  EXPECT_EQ(HeldPages(*engine_), 3u);
  engine_->Close(other);
  for (uint32_t group = 0; group < engine_->ledger().group_count(); ++group) {
    EXPECT_EQ(engine_->ledger().free_count(group), engine_->ledger().group(group).page_count);
  }
}

TEST_P(Hearing, WhoFindsNoRoomToHearIsToldAndNothingHasChanged) {
  const EngineOptions options = {
      .sequence_count_max = 12, .node_count_max = 32, .encoder_length_max = kHeardMax};
  EngineOptions budget = options;
  budget.kv_bytes = 1;
  const absl::Status small = MakeHearingEngine(path_, budget, *pool_).status();
  ExpectRefusal(small, absl::StatusCode::kInvalidArgument, "is too small; the least is ");
  const std::string sentence(Message(small));
  budget.kv_bytes = 4 * std::stoull(sentence.substr(sentence.rfind(' ')));
  engine_ = LoadHearing(budget);
  const Tokens prompt = RandomTokens(20, 21);
  const std::vector<Logits> alone = ReadHearing(EncoderStates(1, 22), prompt);

  std::vector<SequenceId> heard;
  absl::Status status;
  while (status.ok() && heard.size() < 11) {
    heard.push_back(OrDie(engine_->Open()));
    OUTRIDER_CHECK_OK(engine_->Reserve(heard.back(), 1, 0));
    status = engine_->Hear(heard.back(), EncoderStates(kHeardMax, 23));
  }
  ExpectRefusal(status, absl::StatusCode::kResourceExhausted, "pages free and 3 are needed");
  const SequenceId refused = heard.back();
  EXPECT_EQ(HeldPages(*engine_), 3 * (heard.size() - 1));
  const std::vector<Logits> before = Read(*engine_, heard.front(), {1});
  engine_->Close(heard[1]);
  ExpectSame(before, ReadHearing(EncoderStates(kHeardMax, 23), {1}), "who had heard before");
  OUTRIDER_CHECK_OK(engine_->Hear(refused, EncoderStates(1, 22)));
  ExpectSame(Read(*engine_, refused, prompt), alone, "hears when there is room");
}

// --- callers who contradict themselves, or the model ---

TEST_P(Hearing, ItIsSaidHowMuchMayBeHeard) {
  ExpectRefusal(MakeHearingEngine(path_, {}, *pool_).status(), absl::StatusCode::kInvalidArgument,
                "hear an encoder; say how many rows of it a sequence may hear");
  ExpectRefusal(MakeContractEngine(path_, {.encoder_length_max = 8}, *pool_).status(),
                absl::StatusCode::kInvalidArgument,
                "hears an encoder; allow no rows of one, not 8");
  EXPECT_EQ(OrDie(MakeContractEngine(path_, {}, *pool_))->info().encoder_length_max, 0u);
}

TEST_P(Hearing, ATargetCannotBeToldYet) {
  ExpectRefusal(EngineTarget::Create(std::move(engine_)).status(), absl::StatusCode::kUnimplemented,
                "no target can be told what it says");
}

class HearingDeathTest : public Hearing {
 protected:
  // The child starts anew instead of inheriting threads it does not have.
  HearingDeathTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }

  // The child's, which dies and would leave its files behind.
  Engine& Doomed() {
    std::filesystem::remove_all(dir_.path());
    return *engine_;
  }
};

INSTANTIATE_TEST_SUITE_P(Families, HearingDeathTest, testing::Values("mistral"),
                         [](const auto& family) { return std::string(family.param); });

TEST_P(HearingDeathTest, StopsWhoContradictsHimself) {
  const States states = EncoderStates(3, 24);
  const SequenceId sequence = OrDie(engine_->Open());
  EXPECT_DEATH(Read(Doomed(), sequence, {1}), "hears its encoder before its rows do");
  EXPECT_DEATH(Doomed().Hear(sequence, {}).IgnoreError(), "an encoder says a row at least");
  EXPECT_DEATH(Doomed().Hear(sequence, std::span(states).first(300)).IgnoreError(),
               "and whole ones");
  EXPECT_DEATH(Doomed().Hear(sequence, EncoderStates(kHeardMax + 1, 25)).IgnoreError(),
               "the caller knows how much may be heard");
  OUTRIDER_CHECK_OK(engine_->Hear(sequence, states));
  EXPECT_DEATH(Doomed().Hear(sequence, states).IgnoreError(), "hears one encoder, once");
  const SequenceId fork = OrDie(engine_->Fork(sequence, 0));
  EXPECT_DEATH(Doomed().Hear(fork, states).IgnoreError(), "hears one encoder, once");
}

}  // namespace
}  // namespace outrider
