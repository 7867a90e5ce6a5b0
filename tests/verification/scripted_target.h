// A target whose text is a function of its last tokens, written down in a line, and which holds its
// callers to the contract of target.h more strictly than a real one could: a pass whose history is
// not exactly the tokens it has been given stops the process, and so does a sequence that there are no
// pages for: it keeps one for every kPageTokens tokens, shares whole ones with its forks, and has
// those of a pass's nodes beside them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/engine/target.h"
#include "common/tokens/outcome.h"

namespace outrider {

// What follows these tokens: a letter that depends on the last four of them and how many there are.
inline TokenId ScriptedNext(std::span<const TokenId> before, std::span<const TokenId> path = {}) {
  uint64_t mixed = before.size() + path.size();
  for (size_t back = 1; back <= 4; ++back) {
    const size_t total = before.size() + path.size();
    if (back > total) break;
    const size_t at = total - back;
    const TokenId token = at < before.size() ? before[at] : path[at - before.size()];
    mixed = (mixed ^ static_cast<uint64_t>(token)) * 0x9e3779b97f4a7c15;
    mixed ^= mixed >> 29;
  }
  return 'a' + static_cast<TokenId>(mixed % 26);
}

// What the target alone writes after `prompt`.
inline std::vector<TokenId> ScriptedText(std::vector<TokenId> prompt, size_t count) {
  std::vector<TokenId> text;
  for (; text.size() < count; prompt.push_back(text.back())) {
    text.push_back(ScriptedNext(prompt));
  }
  return text;
}

class ScriptedTarget final : public Target {
 public:
  struct Times {
    Duration pass = std::chrono::milliseconds(20);
    Duration row = std::chrono::microseconds(50);
    Duration prompt_token = std::chrono::milliseconds(1);
  };

  ScriptedTarget(const TargetInfo& info, const Times& times, FakeClock& clock)
      : info_(info), times_(times), clock_(clock) {}

  const TargetInfo& info() const override { return info_; }

  absl::StatusOr<SequenceId> CreateSequence() override {
    OUTRIDER_CHECK(sequences_.size() < info_.sequence_count_max, "sequences are rationed");
    const SequenceId id{++last_id_};
    sequences_[id] = {};
    return id;
  }

  absl::StatusOr<SequenceId> Fork(SequenceId id, uint32_t length) override {
    OUTRIDER_CHECK(info_.forks_share_pages, "forks are for targets that share pages");
    OUTRIDER_CHECK(length % kPageTokens == 1, "pages are shared whole, and the root is computed");
    const Sequence& sequence = sequences_.at(id);
    OUTRIDER_CHECK(length <= sequence.computed_count, "a fork has what is computed");
    const SequenceId fork = *CreateSequence();
    Sequence& forked = sequences_.at(fork);
    forked.tokens.assign(sequence.tokens.begin(), sequence.tokens.begin() + length);
    forked.pages.assign(sequence.pages.begin(), sequence.pages.begin() + length / kPageTokens);
    forked.computed_count = length;
    return fork;
  }

  absl::Status Close(SequenceId id) override {
    OUTRIDER_CHECK(sequences_.erase(id) == 1, "a sequence is closed once");
    return absl::OkStatus();
  }

  absl::StatusOr<uint32_t> Truncate(SequenceId id, uint32_t length) override {
    Sequence& sequence = sequences_.at(id);
    OUTRIDER_CHECK(length <= sequence.tokens.size(), "nothing is forgotten that was not there");
    sequence.tokens.resize(length);
    sequence.computed_count = std::min(sequence.computed_count, length);
    sequence.pass.reset();
    // The page of the root is written again.
    const size_t kept = length > 0 ? (length - 1) / kPageTokens : 0;
    sequence.pages.resize(std::min(sequence.pages.size(), kept));
    return length > 0 ? length - 1 : 0;
  }

  absl::StatusOr<uint32_t> Length(SequenceId id) const override {
    return static_cast<uint32_t>(sequences_.at(id).tokens.size());
  }

  void Run(std::span<Reading> readings, std::span<const Pass> passes,
           std::span<PassResult> results) override {
    for (Reading& reading : readings) {
      const bool has_pass = std::ranges::any_of(
          passes, [&](const Pass& pass) { return pass.sequence == reading.sequence; });
      Read(reading, has_pass);
      reading.status = absl::OkStatus();
    }
    if (!passes.empty()) clock_.Advance(times_.pass);
    for (size_t i = 0; i < passes.size(); ++i) {
      clock_.Advance(times_.row * (1 + passes[i].nodes.size()));
      results[i] = RunOne(passes[i]);
      if (fails_next_pass) results[i].status = FailedPrecondition("the machine is on fire");
      fails_next_pass = false;
    }
  }

  absl::Status Commit(SequenceId id, const Outcome& outcome) override {
    Sequence& sequence = sequences_.at(id);
    OUTRIDER_CHECK(sequence.pass.has_value(), "what is committed is of the last pass");
    std::vector<TokenId> path;
    for (uint32_t node = outcome.node; node != DraftedNode::kRoot;) {
      const DraftedNode& drafted = sequence.pass->at(node);
      path.push_back(drafted.token);
      node = drafted.parent;
    }
    sequence.tokens.insert(sequence.tokens.end(), path.rbegin(), path.rend());
    sequence.tokens.push_back(outcome.next);
    sequence.computed_count = static_cast<uint32_t>(sequence.tokens.size());
    sequence.pass.reset();
    TakePages(sequence);
    return absl::OkStatus();
  }

  size_t sequence_count() const { return sequences_.size(); }
  bool fails_next_pass = false;

 private:
  struct Sequence {
    std::vector<TokenId> tokens;
    uint32_t computed_count = 0;  // of them, with the root; what a pass computes waits for a commit
    std::vector<std::shared_ptr<const int>> pages;
    std::optional<std::vector<DraftedNode>> pass;
  };

  // Has a page of its own for all tokens that lie in none, and looks at how many there are in all.
  void TakePages(Sequence& sequence) const {
    while (sequence.pages.size() < PagesFor(sequence.tokens.size())) {
      sequence.pages.push_back(std::make_shared<const int>(0));
    }
    if (info_.page_groups.empty()) return;
    std::set<const int*> pages;
    uint64_t count = 0;
    for (const auto& [id, each] : sequences_) {
      for (const auto& page : each.pages) pages.insert(page.get());
      if (each.pass) count += PagesFor(each.pass->size());
    }
    OUTRIDER_CHECK(count + pages.size() <= info_.page_groups[0].page_count, "pages are rationed");
  }

  void Read(const Reading& reading, bool has_pass) {
    Sequence& sequence = sequences_.at(reading.sequence);
    sequence.tokens.insert(sequence.tokens.end(), reading.tokens.begin(), reading.tokens.end());
    sequence.pass.reset();
    OUTRIDER_CHECK(sequence.tokens.size() <= info_.context_length, "a prompt fits");
    if (!has_pass) sequence.computed_count = static_cast<uint32_t>(sequence.tokens.size());
    TakePages(sequence);
    clock_.Advance(times_.prompt_token * reading.tokens.size());
  }

  PassResult RunOne(const Pass& pass) {
    Sequence& sequence = sequences_.at(pass.sequence);
    const std::span<const TokenId> history = pass.history->tokens();
    OUTRIDER_CHECK(std::ranges::equal(history, sequence.tokens), "the target has what it is told");
    OUTRIDER_CHECK(!history.empty() && history.size() <= info_.context_length, "a root fits");
    OUTRIDER_CHECK(pass.nodes.size() <= info_.node_count_max, "a pass fits");
    std::vector<uint32_t> depths;
    for (const DraftedNode& node : pass.nodes) {
      const bool below_root = node.parent == DraftedNode::kRoot;
      OUTRIDER_CHECK(below_root || node.parent < depths.size(), "parents come first");
      depths.push_back(below_root ? 1 : depths[node.parent] + 1);
      OUTRIDER_CHECK(history.size() - 1 + depths.back() < info_.context_length, "a node fits");
    }
    sequence.pass.emplace(pass.nodes.begin(), pass.nodes.end());
    TakePages(sequence);
    std::vector<TokenId> path;
    const auto choose = [&](uint32_t, std::span<const TokenId> below) -> absl::StatusOr<TokenId> {
      return ScriptedNext(history, below);
    };
    return {absl::OkStatus(), *WalkDown(pass.nodes, path, choose)};
  }

  const TargetInfo info_;
  const Times times_;
  FakeClock& clock_;
  std::map<SequenceId, Sequence> sequences_;
  uint64_t last_id_ = 0;
};

}  // namespace outrider
