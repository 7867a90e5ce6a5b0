#include "common/speculation/drafting/lm_drafter.h"

#include <algorithm>
#include <optional>

#include "common/base/check.h"
#include "common/base/status.h"

namespace outrider {

absl::StatusOr<std::unique_ptr<LmDrafter>> LmDrafter::Create(Engine& engine,
                                                             const Chooser& chooser) {
  if (engine.info().node_count_max == 0) {
    return InvalidArgument(engine.info().model_name,
                           " as a drafter needs room for one node at least, and was given none");
  }
  OUTRIDER_ASSIGN_OR_RETURN(const SequenceId sequence, engine.Open());
  return std::unique_ptr<LmDrafter>(new LmDrafter(engine, sequence, chooser));
}

LmDrafter::LmDrafter(Engine& engine, SequenceId sequence, const Chooser& chooser)
    : engine_(engine),
      info_(engine.info()),
      sequence_(sequence),
      chooser_(chooser),
      slots_(info_.node_count_max) {
  tokens_.reserve(info_.context_length);
  root_ranked_.reserve(Confidence::kRankedMax);
  for (Slot& slot : slots_) slot.ranked.reserve(Confidence::kRankedMax);
  wishes_.reserve(info_.node_count_max);
  path_.reserve(info_.node_count_max);
  probabilities_.reserve(Confidence::kRankedMax);
  list_.reserve(Confidence::kRankedMax);
  nodes_.reserve(info_.row_count_max);
  rankings_.reserve(info_.row_count_max);
  ancestors_.reserve(size_t{info_.row_count_max} * info_.node_count_max);
}

LmDrafter::~LmDrafter() {
  engine_.Close(sequence_);
}

absl::Status LmDrafter::Propose(const TokenHistory& committed, std::span<const DraftedNode> nodes,
                                std::span<const Context> contexts, Proposals& proposals,
                                const Cancellation& cancellation) {
  proposals.Clear(contexts.size(), contexts.size() * Confidence::kRankedMax);
  OUTRIDER_RETURN_IF_ERROR(Check(committed, nodes, contexts));
  OUTRIDER_RETURN_IF_ERROR(Follow(committed));
  if (!CanRead(committed)) {
    for (size_t i = 0; i < contexts.size(); ++i) proposals.Add({});
    return absl::OkStatus();
  }
  OUTRIDER_RETURN_IF_ERROR(MakeWishes(committed, nodes, contexts));
  OUTRIDER_RETURN_IF_ERROR(Compute(committed, nodes, cancellation));
  for (const Context& context : contexts) Answer(context, proposals);
  return absl::OkStatus();
}

absl::Status LmDrafter::Read(const TokenHistory& committed, const PromptProgress& progress) {
  if (committed.size() == 0) return absl::OkStatus();
  OUTRIDER_RETURN_IF_ERROR(Check(committed, {}, {}));
  OUTRIDER_RETURN_IF_ERROR(Follow(committed));
  if (!CanRead(committed)) return absl::OkStatus();
  OUTRIDER_RETURN_IF_ERROR(ReserveFor(committed));
  return ReadChunks(committed, committed.size() - 1, progress);
}

absl::Status LmDrafter::Check(const TokenHistory& committed, std::span<const DraftedNode> nodes,
                              std::span<const Context> contexts) const {
  if (committed.vocabulary_size() != chooser_.vocabulary_size()) {
    return InvalidArgument("the history is of a vocabulary of ", committed.vocabulary_size(),
                           " tokens, and the chooser of ", chooser_.vocabulary_size());
  }
  if (chooser_.options().penalizes() && !committed.counts_tokens()) {
    return InvalidArgument("the chooser penalises tokens, and the history does not count them");
  }
  if (committed.size() == 0) {
    return InvalidArgument("nothing is committed, so there is no root to draft below");
  }
  return CheckRequest(nodes, contexts, chooser_.vocabulary_size());
}

// --- following the text ---

// Forgets what is not committed after all, and goes down the trie along what has been committed.
absl::Status LmDrafter::Follow(const TokenHistory& committed) {
  const std::span<const TokenId> text = committed.tokens();
  const auto unlike = std::ranges::mismatch(tokens_, text).in1;
  if (unlike != tokens_.end()) Forget(static_cast<size_t>(unlike - tokens_.begin()));
  // Penalties count the reply's tokens: candidates ranked for another reply are not this one's.
  if (chooser_.options().penalizes() && committed.reply_begin() != reply_begin_) {
    Forget(std::min(tokens_.size(), text.size() - 1));
  }
  reply_begin_ = committed.reply_begin();
  OUTRIDER_RETURN_IF_ERROR(ReserveFor(committed));
  path_.clear();
  uint32_t at = kRoot;
  while (at != kNone && tokens_.size() < text.size()) {
    const TokenId next = text[tokens_.size()];
    if (tokens_.size() >= committed.reply_begin()) Learn(RankedOf(at), next);
    at = FindChild(at, next);
    if (at == kNone) break;
    path_.push_back(at);
    tokens_.push_back(next);
  }
  if (!path_.empty()) engine_.Commit(sequence_, 0, path_);
  if (at != kRoot) MoveRoot(at);
  // A root that is only the end of a text cut short was never ranked as one.
  if (tokens_.size() == text.size() && root_ranked_.empty()) Forget(text.size() - 1);
  return absl::OkStatus();
}

bool LmDrafter::CanRead(const TokenHistory& committed) const {
  return committed.size() <= info_.context_length &&
         std::ranges::all_of(committed.tokens().subspan(tokens_.size()), [&](TokenId token) {
           return static_cast<uint32_t>(token) < info_.vocabulary_size;
         });
}

absl::Status LmDrafter::ReserveFor(const TokenHistory& committed) {
  const size_t end = std::min<size_t>(committed.size(), info_.context_length);
  return engine_.Reserve(sequence_, static_cast<uint32_t>(end - tokens_.size()),
                         info_.node_count_max);
}

void LmDrafter::Learn(const std::vector<Ranked>& ranked, TokenId chosen) {
  if (ranked.empty()) return;
  const auto at = std::ranges::find(ranked, chosen, &Ranked::token);
  const auto rank = static_cast<size_t>(at - ranked.begin());
  confidence_.Learn(ranked, at == ranked.end() ? std::nullopt : std::optional(rank));
}

// `slot` is committed, and what is below it is below the root now; kNone keeps nothing.
void LmDrafter::MoveRoot(uint32_t slot) {
  root_ranked_.clear();
  if (slot != kNone) root_ranked_.swap(slots_[slot].ranked);
  for (uint32_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].used && !IsBelow(i, slot)) Free(slots_[i]);
  }
  for (Slot& other : slots_) {
    if (other.used && other.parent == slot) other.parent = kRoot;
  }
}

bool LmDrafter::IsBelow(uint32_t slot, uint32_t above) const {
  do {
    slot = slots_[slot].parent;
  } while (slot != kRoot && slot != above);
  return slot == above;
}

// All but the first `length` tokens at most, and everything drafted.
void LmDrafter::Forget(size_t length) {
  for (Slot& slot : slots_) Free(slot);
  root_ranked_.clear();
  const uint32_t computed = engine_.Length(sequence_);
  tokens_.resize(engine_.Truncate(sequence_, std::min(computed, static_cast<uint32_t>(length))));
}

void LmDrafter::Free(Slot& slot) {
  slot.used = false;
  slot.ranked.clear();
}

// --- what there is to compute ---

absl::Status LmDrafter::MakeWishes(const TokenHistory& committed,
                                   std::span<const DraftedNode> nodes,
                                   std::span<const Context> contexts) {
  static constexpr Wish kRootWish = {.depth = 0, .possible = true, .needed = true, .slot = kRoot};
  wishes_.clear();
  for (Slot& slot : slots_) slot.wanted = false;
  for (const DraftedNode& node : nodes) {
    const Wish& above = node.parent == kRoot ? kRootWish : wishes_[node.parent];
    const uint32_t depth = above.depth + 1;
    const bool possible = above.possible &&
                          static_cast<uint32_t>(node.token) < info_.vocabulary_size &&
                          committed.size() - 1 + depth < info_.context_length;
    const uint32_t slot = above.slot == kNone ? kNone : FindChild(above.slot, node.token);
    if (slot != kNone) slots_[slot].wanted = true;
    wishes_.push_back({depth, possible, false, slot});
  }
  size_t missing = 0;
  for (const Context& context : contexts) {
    if (context.node == kRoot || !wishes_[context.node].possible) continue;
    for (uint32_t i = context.node; i != kRoot && !wishes_[i].needed; i = nodes[i].parent) {
      wishes_[i].needed = true;
      if (wishes_[i].slot == kNone) ++missing;
    }
  }
  return MakeRoom(missing);
}

absl::Status LmDrafter::MakeRoom(size_t slot_count) {
  const auto free = [&] {
    return static_cast<size_t>(std::ranges::count(slots_, false, &Slot::used));
  };
  if (slot_count <= free()) return absl::OkStatus();
  for (Slot& slot : slots_) {
    if (!slot.wanted) Free(slot);
  }
  if (slot_count <= free()) return absl::OkStatus();
  return ResourceExhausted(info_.model_name, " as a drafter keeps ", slots_.size(),
                           " nodes, and has no room for ", slot_count, " more");
}

// The rest of the text, and every node that is needed.
absl::Status LmDrafter::Compute(const TokenHistory& committed, std::span<const DraftedNode> nodes,
                                const Cancellation& cancellation) {
  OUTRIDER_RETURN_IF_ERROR(ReserveFor(committed));
  const size_t end = committed.size();
  if (end - tokens_.size() > info_.row_count_max) {
    OUTRIDER_RETURN_IF_ERROR(ReadChunks(committed, end - 1, [&cancellation](uint32_t, uint32_t) {
      return !cancellation.cancelled();
    }));
  }
  if (tokens_.size() < end) {
    AddChain(committed.tokens().subspan(tokens_.size()));
    AddRanking(committed, static_cast<uint32_t>(chain_.size()) - 1, kRoot);
  }
  for (uint32_t i = 0; i < nodes.size(); ++i) {
    Wish& wish = wishes_[i];
    if (!wish.needed || wish.slot != kNone) continue;
    const auto& [token, parent] = nodes[i];
    const uint32_t above = parent == kRoot ? kRoot : wishes_[parent].slot;
    wish.slot = FindChild(above, token);  // the sketch may have it twice
    if (wish.slot != kNone) continue;
    if (free_row_count() == 0) OUTRIDER_RETURN_IF_ERROR(Run());
    wish.slot = AddNode(committed, above, token);
  }
  return Run();
}

absl::Status LmDrafter::ReadChunks(const TokenHistory& committed, size_t end,
                                   const PromptProgress& progress) {
  const size_t begin = tokens_.size();
  while (tokens_.size() < end) {
    const size_t count = std::min<size_t>(end - tokens_.size(), info_.row_count_max);
    AddChain(committed.tokens().subspan(tokens_.size(), count));
    OUTRIDER_RETURN_IF_ERROR(Run());
    const size_t done = tokens_.size() - begin;
    if (progress && !progress(static_cast<uint32_t>(done), static_cast<uint32_t>(end - begin)) &&
        tokens_.size() < end) {
      return absl::CancelledError("the prompt was not read to its end");
    }
  }
  return absl::OkStatus();
}

// --- computing ---

uint32_t LmDrafter::free_row_count() const {
  return info_.row_count_max - static_cast<uint32_t>(chain_.size() + nodes_.size());
}

void LmDrafter::AddChain(std::span<const TokenId> tokens) {
  chain_ = tokens;
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
}

uint32_t LmDrafter::AddNode(const TokenHistory& committed, uint32_t parent, TokenId token) {
  const auto unused = std::ranges::find(slots_, false, &Slot::used);
  OUTRIDER_CHECK(unused != slots_.end(), "room has been made for every new node");
  const auto slot = static_cast<uint32_t>(unused - slots_.begin());
  unused->used = true;
  unused->token = token;
  unused->parent = parent;
  AddRanking(committed, static_cast<uint32_t>(chain_.size() + nodes_.size()), slot);
  nodes_.push_back({token, parent == kRoot ? EngineNode::kChain : parent, slot});
  return slot;
}

void LmDrafter::AddRanking(const TokenHistory& committed, uint32_t row, uint32_t slot) {
  const auto first = static_cast<ptrdiff_t>(ancestors_.size());
  for (uint32_t at = slot; at != kRoot; at = slots_[at].parent) {
    ancestors_.push_back(slots_[at].token);
  }
  std::reverse(ancestors_.begin() + first, ancestors_.end());
  rankings_.push_back({.row = row,
                       .chooser = &chooser_,
                       .history = &committed,
                       .ancestors = {ancestors_.begin() + first, ancestors_.end()},
                       .count = Confidence::kRankedMax,
                       .ranked = &RankedOf(slot)});
}

absl::Status LmDrafter::Run() {
  if (chain_.empty() && nodes_.empty()) return absl::OkStatus();
  const absl::Status status = RunRows();
  if (!status.ok()) Forget(tokens_.size() - chain_.size());
  chain_ = {};
  nodes_.clear();
  rankings_.clear();
  ancestors_.clear();
  return status;
}

absl::Status LmDrafter::RunRows() {
  const RunPart part = {.sequence = sequence_, .chain = chain_, .nodes = nodes_};
  EngineRun run = {.parts = {&part, 1}, .rankings = rankings_};
  OUTRIDER_RETURN_IF_ERROR(engine_.Run(run));
  row_count_ += part.row_count();
  for (const Ranking& ranking : rankings_) OUTRIDER_RETURN_IF_ERROR(ranking.status);
  engine_.Commit(sequence_, static_cast<uint32_t>(chain_.size()), {});
  return absl::OkStatus();
}

void LmDrafter::Answer(const Context& context, Proposals& proposals) {
  const uint32_t slot = context.node == kRoot ? kRoot : wishes_[context.node].slot;
  list_.clear();
  if (slot != kNone) {
    const std::vector<Ranked>& ranked = RankedOf(slot);
    probabilities_.resize(ranked.size());
    confidence_.Of(ranked, probabilities_);
    for (size_t i = 0; i < std::min<size_t>(ranked.size(), context.child_count); ++i) {
      list_.push_back({ranked[i].token, probabilities_[i]});
    }
  }
  proposals.Add(list_);
}

// --- the trie ---

uint32_t LmDrafter::FindChild(uint32_t parent, TokenId token) const {
  const auto child = std::ranges::find_if(slots_, [&](const Slot& slot) {
    return slot.used && slot.parent == parent && slot.token == token;
  });
  return child == slots_.end() ? kNone : static_cast<uint32_t>(child - slots_.begin());
}

std::vector<Ranked>& LmDrafter::RankedOf(uint32_t slot) {
  return slot == kRoot ? root_ranked_ : slots_[slot].ranked;
}

}  // namespace outrider
