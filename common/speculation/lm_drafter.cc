#include "common/speculation/lm_drafter.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "common/base/check.h"
#include "common/base/status.h"

namespace outrider {
namespace {

// Rows whose logits are kept at once.
constexpr uint32_t kLogitRowsMax = 32;

uint32_t PagesFor(uint32_t positions) {
  return (positions + kChunk - 1) / kChunk;
}

absl::Status CheckOptions(const ModelSpec& spec, const LmDrafterOptions& options) {
  if (options.context_length > spec.context_length) {
    return InvalidArgument("a context of ", options.context_length, " tokens is more than the ",
                           spec.context_length, " ", spec.name, " was made for");
  }
  if (options.node_count_max == 0 || options.row_count_max == 0) {
    return InvalidArgument("a drafter needs room for one node and one row at least, and was given ",
                           options.node_count_max, " and ", options.row_count_max);
  }
  return absl::OkStatus();
}

LmDrafterOptions WithContext(LmDrafterOptions options, const ModelSpec& spec) {
  if (options.context_length == 0) options.context_length = spec.context_length;
  return options;
}

}  // namespace

absl::StatusOr<std::unique_ptr<LmDrafter>> LmDrafter::Create(
    const ModelSpec& spec, WeightStore& weights, const Chooser& chooser,
    const LmDrafterOptions& options, const Kernels& kernels, ThreadPool& pool) {
  OUTRIDER_RETURN_IF_ERROR(CheckOptions(spec, options));
  std::unique_ptr<LmDrafter> drafter(
      new LmDrafter(spec, chooser, WithContext(options, spec), pool));
  OUTRIDER_RETURN_IF_ERROR(drafter->TakeMemory(weights, kernels));
  return drafter;
}

LmDrafter::LmDrafter(const ModelSpec& spec, const Chooser& chooser, const LmDrafterOptions& options,
                     ThreadPool& pool)
    : spec_(spec), chooser_(chooser), options_(options), pool_(pool) {}

absl::Status LmDrafter::TakeMemory(WeightStore& weights, const Kernels& kernels) {
  const auto& [context_length, node_count_max, row_count_max] = options_;
  OUTRIDER_ASSIGN_OR_RETURN(
      cache_, KvCache::Create(spec_, PagesFor(context_length) + PagesFor(node_count_max)));
  kv_ = std::make_unique<KvSequence>(*cache_, context_length, node_count_max);
  const uint32_t logit_row_count = std::min(row_count_max, kLogitRowsMax);
  OUTRIDER_ASSIGN_OR_RETURN(transformer_,
                            Transformer::Create(spec_, weights, cache_->layout(), kernels, pool_,
                                                row_count_max, logit_row_count));
  OUTRIDER_ASSIGN_OR_RETURN(
      Batch batch, Batch::Create(row_count_max, context_length, spec_.window, node_count_max));
  batch_ = std::make_unique<Batch>(std::move(batch));

  tokens_.reserve(context_length);
  root_ranked_.reserve(Confidence::kRankedMax);
  slots_.resize(node_count_max);
  for (Slot& slot : slots_) slot.ranked.reserve(Confidence::kRankedMax);
  wishes_.reserve(node_count_max);
  pending_.reserve(row_count_max);
  path_.reserve(node_count_max);
  logit_rows_.reserve(logit_row_count);
  ranking_.reserve(logit_row_count);
  probabilities_.reserve(Confidence::kRankedMax);
  list_.reserve(Confidence::kRankedMax);
  const auto vocabulary_size = static_cast<uint32_t>(chooser_.vocabulary_size());
  for (uint32_t i = 0; i < pool_.thread_count(); ++i) {
    // Not emplace_back(): clang 14 cannot make an aggregate of parentheses.
    workers_.push_back({ChooserScratch(chooser_.vocabulary_size()), {}, {}});
    Worker& worker = workers_.back();
    worker.path.reserve(node_count_max);
    if (spec_.vocabulary_size < vocabulary_size) {
      worker.logits.resize(vocabulary_size, -std::numeric_limits<float>::infinity());
    }
  }
  return absl::OkStatus();
}

absl::Status LmDrafter::Propose(const TokenHistory& committed, std::span<const DraftedNode> nodes,
                                std::span<const Context> contexts, Proposals& proposals) {
  proposals.Clear(contexts.size(), contexts.size() * Confidence::kRankedMax);
  OUTRIDER_RETURN_IF_ERROR(Check(committed, nodes, contexts));
  OUTRIDER_RETURN_IF_ERROR(Follow(committed));
  if (!CanRead(committed)) {
    for (size_t i = 0; i < contexts.size(); ++i) proposals.Add({});
    return absl::OkStatus();
  }
  OUTRIDER_RETURN_IF_ERROR(MakeWishes(committed, nodes, contexts));
  OUTRIDER_RETURN_IF_ERROR(Compute(committed, nodes));
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
  uint32_t at = kRoot;
  while (at != kNone && tokens_.size() < text.size()) {
    const TokenId next = text[tokens_.size()];
    if (tokens_.size() >= committed.reply_begin()) Learn(RankedOf(at), next);
    at = FindChild(at, next);
    if (at == kNone) break;
    kv_->CommitScratch(at);
    tokens_.push_back(next);
  }
  if (at != kRoot) MoveRoot(at);
  // A root that is only the end of a text cut short was never ranked as one.
  if (tokens_.size() == text.size() && root_ranked_.empty()) Forget(text.size() - 1);
  return absl::OkStatus();
}

bool LmDrafter::CanRead(const TokenHistory& committed) const {
  return committed.size() <= options_.context_length &&
         std::ranges::all_of(committed.tokens().subspan(tokens_.size()), [&](TokenId token) {
           return static_cast<uint32_t>(token) < spec_.vocabulary_size;
         });
}

absl::Status LmDrafter::ReserveFor(const TokenHistory& committed) {
  const size_t end = std::min<size_t>(committed.size(), options_.context_length);
  return kv_->Reserve(static_cast<uint32_t>(end - tokens_.size()), options_.node_count_max);
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

// All but the first `length` tokens, and everything drafted.
void LmDrafter::Forget(size_t length) {
  for (Slot& slot : slots_) Free(slot);
  root_ranked_.clear();
  kv_->Truncate(static_cast<uint32_t>(length));
  tokens_.resize(length);
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
                          static_cast<uint32_t>(node.token) < spec_.vocabulary_size &&
                          committed.size() - 1 + depth < options_.context_length;
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
  return ResourceExhausted(spec_.name, " as a drafter keeps ", slots_.size(),
                           " nodes, and has no room for ", slot_count, " more");
}

// The rest of the text, and every node that is needed.
absl::Status LmDrafter::Compute(const TokenHistory& committed, std::span<const DraftedNode> nodes) {
  OUTRIDER_RETURN_IF_ERROR(ReserveFor(committed));
  const size_t end = committed.size();
  if (end - tokens_.size() > options_.row_count_max) {
    OUTRIDER_RETURN_IF_ERROR(ReadChunks(committed, end - 1, nullptr));
  }
  if (tokens_.size() < end) {
    AddChain(committed.tokens().subspan(tokens_.size()));
    pending_.push_back({batch_->row_count() - 1, kRoot});
  }
  for (uint32_t i = 0; i < nodes.size(); ++i) {
    Wish& wish = wishes_[i];
    if (!wish.needed || wish.slot != kNone) continue;
    const auto& [token, parent] = nodes[i];
    const uint32_t above = parent == kRoot ? kRoot : wishes_[parent].slot;
    wish.slot = FindChild(above, token);  // the sketch may have it twice
    if (wish.slot != kNone) continue;
    if (batch_->free_row_count() == 0) OUTRIDER_RETURN_IF_ERROR(Run(committed));
    wish.slot = AddNode(above, token);
  }
  return Run(committed);
}

absl::Status LmDrafter::ReadChunks(const TokenHistory& committed, size_t end,
                                   const PromptProgress& progress) {
  const size_t begin = tokens_.size();
  while (tokens_.size() < end) {
    const size_t count = std::min<size_t>(end - tokens_.size(), options_.row_count_max);
    AddChain(committed.tokens().subspan(tokens_.size(), count));
    OUTRIDER_RETURN_IF_ERROR(Run(committed));
    const size_t done = tokens_.size() - begin;
    if (progress && !progress(static_cast<uint32_t>(done), static_cast<uint32_t>(end - begin)) &&
        tokens_.size() < end) {
      return absl::CancelledError("the prompt was not read to its end");
    }
  }
  return absl::OkStatus();
}

void LmDrafter::AddChain(std::span<const TokenId> tokens) {
  batch_->AddChain(*kv_, tokens);
  kv_->Advance(static_cast<uint32_t>(tokens.size()));
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
}

uint32_t LmDrafter::AddNode(uint32_t parent, TokenId token) {
  const auto unused = std::ranges::find(slots_, false, &Slot::used);
  OUTRIDER_CHECK(unused != slots_.end(), "room has been made for every new node");
  const auto slot = static_cast<uint32_t>(unused - slots_.begin());
  unused->used = true;
  unused->token = token;
  unused->parent = parent;
  path_.clear();
  for (uint32_t above = parent; above != kRoot; above = slots_[above].parent) {
    path_.push_back(above);
  }
  std::ranges::reverse(path_);
  pending_.push_back({batch_->AddNode(*kv_, path_, slot, token), slot});
  return slot;
}

// --- computing ---

absl::Status LmDrafter::Run(const TokenHistory& committed) {
  if (batch_->row_count() == 0) return absl::OkStatus();
  absl::Status status = transformer_->Forward(*batch_, nullptr);
  row_count_ += batch_->row_count();
  const size_t band_max = transformer_->logit_row_count_max();
  for (size_t begin = 0; begin < pending_.size() && status.ok(); begin += band_max) {
    const size_t count = std::min(band_max, pending_.size() - begin);
    status = Rank(committed, std::span(pending_).subspan(begin, count));
  }
  if (!status.ok()) {
    const auto in_place = std::ranges::count_if(
        batch_->rows(), [&](const Batch::Row& row) { return row.position < kv_->length(); });
    Forget(tokens_.size() - static_cast<size_t>(in_place));
  }
  batch_->Clear();
  pending_.clear();
  return status;
}

absl::Status LmDrafter::Rank(const TokenHistory& committed, std::span<const PendingRow> band) {
  logit_rows_.clear();
  for (const PendingRow& pending : band) logit_rows_.push_back(pending.row);
  const LogitRows logits = transformer_->Project(logit_rows_);
  ranking_.assign(band.size(), absl::OkStatus());
  pool_.ParallelRanges(band.size(), [&](size_t begin, size_t end, uint32_t worker) {
    for (size_t i = begin; i < end; ++i) {
      ranking_[i] =
          RankRow(committed, band[i].slot, logits.row(static_cast<uint32_t>(i)), workers_[worker]);
    }
  });
  for (const absl::Status& status : ranking_) {
    if (!status.ok()) return FailedPrecondition(spec_.name, ": ", Message(status));
  }
  return absl::OkStatus();
}

absl::Status LmDrafter::RankRow(const TokenHistory& committed, uint32_t slot,
                                std::span<const float> logits, Worker& worker) {
  worker.path.clear();
  for (uint32_t at = slot; at != kRoot; at = slots_[at].parent) {
    worker.path.push_back(slots_[at].token);
  }
  std::ranges::reverse(worker.path);
  const NodeHistory history = {committed, worker.path};
  if (worker.logits.empty()) {
    logits = logits.first(static_cast<size_t>(chooser_.vocabulary_size()));
  } else {
    std::ranges::copy(logits, worker.logits.begin());
    logits = worker.logits;
  }
  return chooser_.Rank(logits, static_cast<uint32_t>(history.size()), history,
                       Confidence::kRankedMax, worker.scratch, RankedOf(slot));
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
