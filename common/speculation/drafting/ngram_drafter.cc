#include "common/speculation/drafting/ngram_drafter.h"

#include <algorithm>
#include <bit>

#include "common/base/status.h"

namespace outrider {
namespace {

constexpr double kRecordKept = 1 - 1.0 / 100;  // of a record, at every observation

// Before anything is known: four observations, of which so many were right.
constexpr double kPriorCount = 4;
double PriorRight(uint32_t length, size_t rank) {
  const double first = kPriorCount * length / (length + 3.0);
  return rank == 0 ? first : (kPriorCount - first) / 4;
}

}  // namespace

NgramDrafter::NgramDrafter(uint32_t capacity) : capacity_(capacity) {
  tokens_.reserve(capacity);
  previous_.reserve(capacity);
  latest_.assign(std::bit_ceil(std::max(capacity, 2u)), kNone);
  matches_.reserve(kChildrenMax + 1);
  path_.reserve(capacity);
  list_.reserve(kChildrenMax);
  for (uint32_t length = 0; length <= kMatchMax; ++length) {
    for (size_t rank = 0; rank < kChildrenMax; ++rank) {
      records_[length][rank] = {PriorRight(length, rank), kPriorCount};
    }
  }
}

absl::Status NgramDrafter::Propose(const TokenHistory& committed,
                                   std::span<const DraftedNode> nodes,
                                   std::span<const Context> contexts, Proposals& proposals,
                                   const Cancellation& /*cancellation*/) {
  proposals.Clear(contexts.size(), contexts.size() * kChildrenMax);
  OUTRIDER_RETURN_IF_ERROR(CheckRequest(nodes, contexts, committed.vocabulary_size()));
  Follow(committed);
  for (const Context& context : contexts) {
    path_.clear();
    for (uint32_t node = context.node; node != DraftedNode::kRoot; node = nodes[node].parent) {
      path_.push_back(nodes[node].token);
    }
    std::ranges::reverse(path_);
    matches_.clear();
    if (committed.size() <= capacity_) FindMatches({tokens_, path_});
    ListMatches(context.child_count);
    proposals.Add(list_);
  }
  return absl::OkStatus();
}

// --- the text ---

void NgramDrafter::Follow(const TokenHistory& committed) {
  const std::span<const TokenId> text = committed.tokens();
  const auto unlike = std::ranges::mismatch(tokens_, text).in1;
  Truncate(static_cast<size_t>(unlike - tokens_.begin()));
  while (tokens_.size() < std::min<size_t>(text.size(), capacity_)) {
    const TokenId token = text[tokens_.size()];
    if (tokens_.size() >= committed.reply_begin()) Learn(token);
    Append(token);
  }
}

// What would have been proposed here, against what came.
void NgramDrafter::Learn(TokenId token) {
  FindMatches({tokens_, {}});
  for (size_t rank = 0; rank < matches_.size(); ++rank) {
    Record& record = records_[matches_[rank].length][rank];
    record.right = record.right * kRecordKept + (matches_[rank].next == token ? 1 : 0);
    record.count = record.count * kRecordKept + 1;
  }
}

void NgramDrafter::Append(TokenId token) {
  tokens_.push_back(token);
  previous_.push_back(kNone);
  if (tokens_.size() < kMatchMin) return;
  uint32_t& latest = latest_[BucketOf({tokens_, {}}, tokens_.size())];
  previous_.back() = latest;
  latest = static_cast<uint32_t>(tokens_.size());
}

void NgramDrafter::Truncate(size_t length) {
  while (tokens_.size() > length) {
    if (tokens_.size() >= kMatchMin) {
      latest_[BucketOf({tokens_, {}}, tokens_.size())] = previous_.back();
    }
    tokens_.pop_back();
    previous_.pop_back();
  }
}

// --- matches ---

void NgramDrafter::FindMatches(const Text& text) {
  matches_.clear();
  if (text.size() < kMatchMin) return;
  uint32_t looked_at = 0;
  // Endings within the path, which no index holds, and then the indexed ones, latest first.
  for (size_t place = text.size() - 1; place > text.committed.size(); --place) {
    if (++looked_at > kPlacesMax) return;
    Consider(text, place);
  }
  for (uint32_t place = latest_[BucketOf(text, text.size())]; place != kNone;
       place = previous_[place - 1]) {
    if (place == text.size()) continue;  // the text's own ending
    if (++looked_at > kPlacesMax) return;
    Consider(text, place);
  }
}

// A place is the index of the token that followed.
void NgramDrafter::Consider(const Text& text, size_t place) {
  uint32_t length = 0;
  while (length < std::min<size_t>(kMatchMax, place) &&
         text[place - 1 - length] == text[text.size() - 1 - length]) {
    ++length;
  }
  if (length < kMatchMin) return;
  const TokenId next = text[place];
  const auto known = std::ranges::find(matches_, next, &Match::next);
  if (known != matches_.end()) {
    if (known->length >= length) return;
    matches_.erase(known);
  }
  const auto shorter =
      std::ranges::find_if(matches_, [&](const Match& match) { return match.length < length; });
  matches_.insert(shorter, {next, length});
  if (matches_.size() > kChildrenMax) matches_.pop_back();
}

size_t NgramDrafter::BucketOf(const Text& text, size_t end) const {
  uint64_t hash = 0;
  for (size_t i = end - kMatchMin; i < end; ++i) {
    hash = (hash ^ static_cast<uint32_t>(text[i])) * 0x9e3779b97f4a7c15;
    hash ^= hash >> 32;
  }
  return static_cast<size_t>(hash) & (latest_.size() - 1);
}

// Their records, made to fall and to leave each other room: one token comes next.
void NgramDrafter::ListMatches(size_t count) {
  list_.clear();
  double before = 1;
  double left = 1;
  for (size_t rank = 0; rank < std::min(matches_.size(), count); ++rank) {
    const auto& [right, seen] = records_[matches_[rank].length][rank];
    const double confidence = std::min({right / seen, before, left});
    list_.push_back({matches_[rank].next, confidence});
    before = confidence;
    left -= confidence;
  }
}

}  // namespace outrider
