#include "common/model/weights/streaming/streaming_weights.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <variant>

#include "common/base/buffer.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/read_behind.h"
#include "common/base/read_threads.h"
#include "common/base/status.h"
#include "common/formats/models/content_parts.h"
#include "common/kernels/weight_matrix.h"
#include "common/model/weights/load_plan.h"
#include "common/model/weights/streaming/flash_reads.h"
#include "common/model/weights/streaming/returned_pages.h"
#include "common/model/weights/streaming/stream_shape.h"

namespace outrider {
namespace {

// An id of the lane's: of a slot, of something that stays, or of an expert's place.
constexpr uint64_t kKept = uint64_t{1} << 32;
constexpr uint64_t kExpert = uint64_t{1} << 33;

// The head comes after the layers.
constexpr ChromeTrace::Label kRead = {"read", {"layer", "KiB"}};
constexpr ChromeTrace::Label kWait = {"wait", {"layer"}};
constexpr ChromeTrace::Label kReadExpert = {"read expert", {"layer", "expert", "KiB"}};
constexpr ChromeTrace::Label kReadGuess = {"read guessed expert", {"layer", "expert", "KiB"}};
constexpr ChromeTrace::Label kWaitForExpert = {"wait for expert", {"layer", "expert"}};
// What the router of a layer has chosen, and what had been guessed of that.
constexpr ChromeTrace::Label kExperts = {"experts", {"layer", "hits", "misses"}};
constexpr ChromeTrace::Label kGuesses = {"guesses", {"layer", "right", "wrong"}};

bool HasExperts(const ModelSpec& spec) {
  return std::ranges::any_of(
      spec.layers, [](const LayerSpec& layer) { return layer.feed_forward.router.has_value(); });
}

absl::StatusOr<std::vector<std::unique_ptr<DirectFile>>> OpenAll(
    const ModelFile& model, const StreamOptions& options,
    const std::shared_ptr<ReadThreads>& threads) {
  std::vector<std::unique_ptr<DirectFile>> files;
  for (uint32_t i = 0; i < model.file_count(); ++i) {
    OUTRIDER_ASSIGN_OR_RETURN(
        std::unique_ptr<DirectFile> file,
        options.open(model.file_path(i), {.queue_depth = options.reads_in_flight,
                                          .direct = options.direct,
                                          .io_uring = options.io_uring,
                                          .threads = threads}));
    files.push_back(std::move(file));
  }
  return files;
}

}  // namespace

absl::StatusOr<std::unique_ptr<StreamingWeights>> StreamingWeights::Open(
    const ModelFile& model, const ModelSpec& spec, const std::string& path,
    const StreamOptions& options, const LoadProgress& progress) {
  OUTRIDER_CHECK(options.slot_count > 0 && options.reads_in_flight > 0, "something is read");
  std::unique_ptr<StreamingWeights> weights(new StreamingWeights);
  weights->path_ = path;
  if (options.trace != nullptr) {
    weights->trace_ = options.trace;
    weights->reads_track_ = options.trace->AddTrack("flash");
    weights->waits_track_ = options.trace->AddTrack("waits for flash");
  }
  for (uint32_t i = 0; i < model.file_count(); ++i) {
    OUTRIDER_ASSIGN_OR_RETURN(FileWatch watch, FileWatch::Open(model.file_path(i)));
    weights->watches_.push_back(std::move(watch));
  }
  const auto threads = std::make_shared<ReadThreads>();
  OUTRIDER_ASSIGN_OR_RETURN(std::vector<std::unique_ptr<DirectFile>> files,
                            OpenAll(model, options, threads));
  OUTRIDER_RETURN_IF_ERROR(weights->Plan(model, spec, files, options));
  OUTRIDER_RETURN_IF_ERROR(weights->TakeMemory());
  OUTRIDER_RETURN_IF_ERROR(weights->ReadEntry(model, spec, std::move(files)));
  OUTRIDER_RETURN_IF_ERROR(weights->StartLane(model, options, threads));
  OUTRIDER_RETURN_IF_ERROR(weights->ReadKept(progress));
  if (const std::optional<uint64_t> recorded = model.RecordedContentHash()) {
    weights->content_hash_ = *recorded;
  } else {
    OUTRIDER_ASSIGN_OR_RETURN(weights->content_hash_, HashContent(model));
    for (uint32_t i = 0; i < model.file_count(); ++i) GiveBackFile(model.file_path(i));
  }
  MutexLock lock(weights->mu_);
  weights->ring_->ReadAhead();
  return weights;
}

StreamingWeights::~StreamingWeights() {
  lane_.reset();  // before the memory that it reads into
}

// --- opening ---

absl::Status StreamingWeights::Plan(const ModelFile& model, const ModelSpec& spec,
                                    std::span<const std::unique_ptr<DirectFile>> opened,
                                    const StreamOptions& options) {
  std::vector<const DirectFile*> files;
  for (const std::unique_ptr<DirectFile>& file : opened) files.push_back(file.get());
  const LoadPlanner planner(model, spec);
  const auto add = [&](StreamUnit::Plan plan, bool is_pinned) -> absl::Status {
    OUTRIDER_ASSIGN_OR_RETURN(StreamUnit unit,
                              StreamUnit::Create(model, std::move(plan), files, path_));
    unit.is_pinned = is_pinned;
    units_.push_back(std::move(unit));
    return absl::OkStatus();
  };
  const uint32_t pinned = std::min(options.pinned_layer_count, spec.layer_count());
  for (uint32_t n = 0; n < spec.layer_count(); ++n) {
    OUTRIDER_RETURN_IF_ERROR(add(planner.Layer(n), IsPinnedLayer(n, pinned, spec.layer_count())));
  }
  OUTRIDER_RETURN_IF_ERROR(add(planner.Head(), options.pins_head));
  if (HasExperts(spec)) {
    OUTRIDER_ASSIGN_OR_RETURN(
        experts_, ExpertPlaces::Plan(model, spec, files, path_, options.expert_place_count,
                                     options.expert_eviction));
  }
  for (StreamUnit& unit : units_) {
    if (unit.is_pinned) continue;
    unit.KeepRouter();
    bytes_per_pass_ += ReadBytes(unit.reads);
  }
  ring_ = std::make_unique<SlotRing>(units_, options.slot_count);
  return absl::OkStatus();
}

absl::Status StreamingWeights::TakeMemory() {
  size_t pinned_bytes = 0;
  size_t router_bytes = 0;
  for (const StreamUnit& unit : units_) {
    if (unit.router) router_bytes += unit.router->bytes();
    if (unit.is_pinned) pinned_bytes += RoundUp(unit.slot_bytes(), kSlotAlignment);
  }
  MutexLock lock(mu_);
  OUTRIDER_ASSIGN_OR_RETURN(pinned_memory_, PageBuffer::CreateLarge(pinned_bytes));
  OUTRIDER_RETURN_IF_ERROR(ring_->TakeMemory());
  OUTRIDER_ASSIGN_OR_RETURN(router_memory_, PageBuffer::Create(router_bytes));
  std::byte* at = pinned_memory_.bytes().data();
  std::byte* router_at = router_memory_.bytes().data();
  for (StreamUnit& unit : units_) {
    if (unit.router) {
      unit.PlaceRouter(router_at);
      router_at += unit.router->bytes();
    }
    if (!unit.is_pinned) continue;
    unit.kept.memory = at;
    at += RoundUp(unit.slot_bytes(), kSlotAlignment);
  }
  memory_bytes_ = pinned_bytes + ring_->memory_bytes() + router_bytes;
  if (experts_ == nullptr) return absl::OkStatus();
  OUTRIDER_RETURN_IF_ERROR(experts_->TakeMemory());
  memory_bytes_ += experts_->memory_bytes();
  return absl::OkStatus();
}

// Where embeddings are the head and that is pinned, their rows are looked up there.
absl::Status StreamingWeights::ReadEntry(const ModelFile& model, const ModelSpec& spec,
                                         std::vector<std::unique_ptr<DirectFile>> files) {
  const LoadPlan<EntryWeights> plan = LoadPlanner(model, spec).Entry();
  std::vector<std::byte> vectors;
  OUTRIDER_RETURN_IF_ERROR(ReadVectors(model, plan.vectors, vectors));
  size_t at = 0;
  for (const VectorPart& part : plan.vectors) {
    const auto* const values = reinterpret_cast<const float*>(vectors.data() + at);
    const bool is_used = part.at == reinterpret_cast<size_t>(plan.offsets.rope_freqs.data());
    if (is_used) rope_freqs_.assign(values, values + part.count);
    at += part.count * sizeof(float);
  }
  const bool in_head = spec.tied_embeddings && units_.back().is_pinned;
  OUTRIDER_ASSIGN_OR_RETURN(tables_, FlashTables::Create(model, path_, std::move(files), !in_head));
  memory_bytes_ += tables_->memory_bytes();
  return absl::OkStatus();
}

absl::Status StreamingWeights::StartLane(const ModelFile& model, const StreamOptions& options,
                                         const std::shared_ptr<ReadThreads>& threads) {
  uint64_t staging_bytes = 0;
  for (const StreamUnit& unit : units_) {
    staging_bytes = std::max(staging_bytes, LongestStaged(unit.reads));
    if (unit.router) {
      staging_bytes = std::max(staging_bytes, LongestStaged(unit.router->reads));
    }
  }
  MutexLock lock(mu_);
  if (experts_ != nullptr) {
    staging_bytes = std::max(staging_bytes, experts_->staging_bytes());
  }
  OUTRIDER_ASSIGN_OR_RETURN(std::vector<std::unique_ptr<DirectFile>> files,
                            OpenAll(model, options, threads));
  OUTRIDER_ASSIGN_OR_RETURN(
      lane_,
      FlashLane::Create(std::move(files), options.reads_in_flight, staging_bytes,
                        [this](uint64_t id, const absl::Status& status) { OnFilled(id, status); }));
  memory_bytes_ += lane_->memory_bytes();
  ring_->ReadBy(*lane_);
  if (experts_ != nullptr) experts_->ReadBy(*lane_, kExpert);
  return absl::OkStatus();
}

absl::Status StreamingWeights::ReadKept(const LoadProgress& progress) {
  uint64_t total = 0;
  std::vector<FlashLane::Fill> fills;
  for (const StreamUnit& unit : units_) {
    if (unit.is_pinned) {
      fills.push_back({.id = kKept, .reads = unit.reads, .slot = unit.kept.memory});
    }
    if (unit.router) {
      fills.push_back({.id = kKept, .reads = unit.router->reads, .slot = unit.router->memory});
    }
  }
  for (const FlashLane::Fill& fill : fills) {
    total += ReadBytes(fill.reads);
    lane_->Begin(fill);
  }
  uint64_t done = 0;
  for (uint32_t count = 0; count < fills.size(); ++count) {
    {
      MutexLock lock(mu_);
      while (kept_count_ <= count) filled_.Wait(mu_);
      OUTRIDER_RETURN_IF_ERROR(kept_status_);
    }
    done += ReadBytes(fills[count].reads);
    if (progress) progress(done, total, fills[count].reads.back().part.tensor->name);
  }
  for (StreamUnit& unit : units_) {
    if (unit.is_pinned) unit.Finish(unit.kept);
  }
  return absl::OkStatus();
}

// --- using ---

// Between two layers nothing of any layer is lent, but to who leases several: then what is asked for is
// given up. A run over a long prompt takes seconds, and who lowers a limit does not wait for that.
absl::StatusOr<Lease<LayerWeights>> StreamingWeights::Acquire(LayerKey key) {
  if (layer_lease_count_ == 0) {
    MutexLock lock(mu_);
    OUTRIDER_RETURN_IF_ERROR(GiveUpWhatIsAsked());
  }
  OUTRIDER_ASSIGN_OR_RETURN(const StreamUnit::Filled* const filled, AcquireUnit(key.layer));
  ++layer_lease_count_;
  return Lease<LayerWeights>(*this, key, std::get<LayerWeights>(filled->weights));
}

// The last that a run acquires whose rows are asked anything: all it has read is behind it.
absl::StatusOr<Lease<HeadWeights>> StreamingWeights::Acquire(HeadKey key) {
  for (const FileWatch& watch : watches_) OUTRIDER_RETURN_IF_ERROR(watch.Check());
  OUTRIDER_ASSIGN_OR_RETURN(const StreamUnit::Filled* const filled, AcquireUnit(HeadUnit()));
  return Lease<HeadWeights>(*this, key, std::get<HeadWeights>(filled->weights));
}

absl::StatusOr<Lease<FeedForwardWeights>> StreamingWeights::Acquire(ExpertKey key) {
  const MonotonicTime begin = RealClock().Now();
  MutexLock lock(mu_);
  ExpertPlaces::Place* place = experts_->Claim(key);
  for (; place == nullptr; place = experts_->Claim(key)) filled_.Wait(mu_);
  const bool waits = place->hand == Hand::kFilling;
  AwaitFilled(place->hand);
  const MonotonicTime end = RealClock().Now();
  stalled_ += end - begin;
  if (trace_ != nullptr && waits) {
    trace_->Span(waits_track_, kWaitForExpert, begin, end, {key.layer, key.expert});
  }
  OUTRIDER_ASSIGN_OR_RETURN(const FeedForwardWeights* const weights, experts_->Lend(key, *place));
  return Lease<FeedForwardWeights>(*this, key, *weights);
}

uint32_t StreamingWeights::expert_leases_max() const {
  MutexLock lock(mu_);
  return experts_ == nullptr ? 1 : experts_->leases_max();
}

void StreamingWeights::Prefetch(std::span<const WeightKey> keys) {
  if (keys.empty() || !std::holds_alternative<ExpertKey>(keys.front())) return;
  MutexLock lock(mu_);
  if (trace_ == nullptr) return experts_->Want(keys);
  const ExpertStats before = experts_->stats();
  experts_->Want(keys);
  DrawChoice(std::get<ExpertKey>(keys.front()).layer, before);
}

bool StreamingWeights::IsAtHand(ExpertKey key) {
  MutexLock lock(mu_);
  return experts_->IsAtHand(key);
}

const Linear* StreamingWeights::RouterAhead(uint32_t layer) {
  {
    MutexLock lock(mu_);
    if (!experts_->IsWorthGuessing(layer)) return nullptr;
  }
  const StreamUnit& unit = units_[layer];
  if (unit.router) return &unit.router->weights;
  return unit.is_pinned ? &std::get<LayerWeights>(unit.kept.weights).router : nullptr;
}

void StreamingWeights::BeginRun(bool wants_head) {
  MutexLock lock(mu_);
  ring_->BeginRun(wants_head);
}

void StreamingWeights::Guess(std::span<const WeightKey> keys) {
  MutexLock lock(mu_);
  experts_->Guess(keys);
}

uint32_t StreamingWeights::UnitOf(const WeightKey& key) const {
  const auto* const layer = std::get_if<LayerKey>(&key);
  return layer != nullptr ? layer->layer : HeadUnit();
}

absl::StatusOr<const StreamUnit::Filled*> StreamingWeights::AcquireUnit(uint32_t u) {
  if (units_[u].is_pinned) return &units_[u].kept;
  const MonotonicTime begin = RealClock().Now();
  MutexLock lock(mu_);
  ++acquired_;
  SlotRing::Slot* slot = ring_->Claim(u);
  for (; slot == nullptr; slot = ring_->Claim(u)) filled_.Wait(mu_);
  if (slot->hand != Hand::kLent) {
    AwaitFilled(slot->hand);
    const MonotonicTime end = RealClock().Now();
    stalled_ += end - begin;
    if (trace_ != nullptr) trace_->Span(waits_track_, kWait, begin, end, {u});
  }
  return ring_->Lend(*slot);
}

// Lends the wait to idle work first.
void StreamingWeights::AwaitFilled(const Hand& hand) {
  if (hand == Hand::kFilling && idle_work_) {
    awaited_ = &hand;
    landed_.store(false, std::memory_order_relaxed);
    mu_.Unlock();
    idle_work_(landed_);
    mu_.Lock();
    awaited_ = nullptr;
  }
  while (hand == Hand::kFilling) filled_.Wait(mu_);
}

void StreamingWeights::Release(const WeightKey& key) {
  if (const auto* const expert = std::get_if<ExpertKey>(&key); expert != nullptr) {
    MutexLock lock(mu_);
    return experts_->GiveBack(*expert);
  }
  const uint32_t u = UnitOf(key);
  if (u != HeadUnit()) --layer_lease_count_;
  if (units_[u].is_pinned) return;
  MutexLock lock(mu_);
  ring_->GiveBack(u);
}

// On the lane's thread.
void StreamingWeights::OnFilled(uint64_t id, const absl::Status& status) {
  {
    MutexLock lock(mu_);
    if ((id & kKept) != 0) {
      kept_status_.Update(status);
      ++kept_count_;
    } else if ((id & kExpert) != 0) {
      const ExpertPlaces::Fill fill = experts_->OnFilled(id, status);
      if (trace_ != nullptr) DrawExpert(fill);
    } else {
      const SlotRing::Slot& slot = ring_->OnFilled(id, status);
      if (trace_ != nullptr) DrawFill(slot);
    }
    if (awaited_ != nullptr && *awaited_ != Hand::kFilling) {
      landed_.store(true, std::memory_order_release);
    }
  }
  filled_.NotifyAll();
}

// --- drawing ---

void StreamingWeights::DrawFill(const SlotRing::Slot& slot) {
  DrawRead(kRead, slot.asked,
           {slot.unit, static_cast<uint32_t>(ReadBytes(units_[slot.unit].reads) / 1024)});
}

void StreamingWeights::DrawExpert(const ExpertPlaces::Fill& fill) {
  DrawRead(fill.urgency == Urgency::kGuess ? kReadGuess : kReadExpert, fill.asked,
           {fill.key.layer, fill.key.expert, static_cast<uint32_t>(fill.bytes / 1024)});
}

// From when it was asked for, or when the one before had landed: reads of two keys overlap, and spans of
// a track may not.
void StreamingWeights::DrawRead(const ChromeTrace::Label& label, MonotonicTime asked,
                                const ChromeTrace::Values& values) {
  const MonotonicTime now = RealClock().Now();
  trace_->Span(reads_track_, label, std::max(asked, drawn_), now, values);
  drawn_ = now;
}

// What came of a layer's choice, of which `before` knows nothing yet.
void StreamingWeights::DrawChoice(uint32_t layer, const ExpertStats& before) {
  const auto more = [](uint64_t now, uint64_t then) { return static_cast<uint32_t>(now - then); };
  const ExpertStats after = experts_->stats();
  const MonotonicTime now = RealClock().Now();
  trace_->Instant(waits_track_, kExperts, now,
                  {layer, more(after.cache.hits, before.cache.hits),
                   more(after.cache.misses, before.cache.misses)});
  const uint32_t right = more(after.guesses.right, before.guesses.right);
  const uint32_t wrong = more(after.guesses.wrong, before.guesses.wrong);
  if (right + wrong > 0) trace_->Instant(waits_track_, kGuesses, now, {layer, right, wrong});
}

// --- giving up ---

void StreamingWeights::GiveUp(uint64_t bytes, absl::Status otherwise) {
  MutexLock lock(mu_);
  to_give_up_ = bytes;
  otherwise_ = std::move(otherwise);
}

absl::Status StreamingWeights::GiveUpWhatIsAsked() {
  if (given_up_ >= to_give_up_) return absl::OkStatus();
  if (experts_ != nullptr) {
    experts_->Settle();
    while (experts_->is_filling()) filled_.Wait(mu_);
  }
  while (given_up_ < to_give_up_) {
    if (!GiveUpOne()) return otherwise_;
  }
  return absl::OkStatus();
}

// What was last to be given memory when it was planned goes first.
bool StreamingWeights::GiveUpOne() {
  if (experts_ != nullptr) {
    if (const std::optional<size_t> bytes = experts_->GiveUpPlace()) {
      given_up_ += *bytes;
      return true;
    }
  }
  const std::optional<uint32_t> unit = LargestPinned();
  if (!unit || !KeepRouterOf(units_[*unit]).ok()) return false;
  given_up_ += Unpin(*unit);
  return true;
}

// So what becomes the first slot is large enough for all that come after it.
std::optional<uint32_t> StreamingWeights::LargestPinned() const {
  std::optional<uint32_t> largest;
  for (uint32_t u = 0; u < HeadUnit(); ++u) {
    if (!units_[u].is_pinned) continue;
    if (!largest || units_[u].slot_bytes() > units_[*largest].slot_bytes()) largest = u;
  }
  return largest;
}

// It is asked before its layer has landed, so it does not go with that.
absl::Status StreamingWeights::KeepRouterOf(StreamUnit& unit) {
  const WeightMatrix& pinned = std::get<LayerWeights>(unit.kept.weights).router.matrix;
  if (pinned.outputs == 0) return absl::OkStatus();
  unit.KeepRouter();
  OUTRIDER_ASSIGN_OR_RETURN(AlignedBuffer memory, AlignedBuffer::Create(unit.router->bytes()));
  std::memcpy(memory.bytes().data(), pinned.data,
              PackedBytes(pinned.type, pinned.outputs, pinned.inputs));
  unit.PlaceRouter(memory.bytes().data());
  unpinned_routers_.push_back(std::move(memory));
  return absl::OkStatus();
}

// It is read from now on. Its memory becomes a slot where there are too few, else it is given back:
// how much of it.
size_t StreamingWeights::Unpin(uint32_t u) {
  StreamUnit& unit = units_[u];
  unit.is_pinned = false;
  ring_->Include(u);
  bytes_per_pass_ += ReadBytes(unit.reads);
  const size_t bytes = RoundUp(unit.slot_bytes(), kSlotAlignment);
  if (ring_->AddSlot(unit.kept.memory, bytes)) return 0;
  const size_t kept = unit.router ? unpinned_routers_.back().bytes().size() : 0;
  return ReturnPages({unit.kept.memory, bytes}) - kept;
}

// --- tables ---

absl::Status StreamingWeights::LookUp(WeightTable table, std::span<const TableRow> rows) {
  if (!tables_->Has(table)) {
    const WeightMatrix& head = std::get<HeadWeights>(units_.back().kept.weights).matrix;
    for (const TableRow& row : rows) DecodeRow(head, row.row, {row.out, head.inputs});
    return absl::OkStatus();
  }
  const MonotonicTime begin = RealClock().Now();
  const absl::Status status = tables_->LookUp(table, rows);
  MutexLock lock(mu_);
  stalled_ += RealClock().Now() - begin;
  return status;
}

StreamStats StreamingWeights::stats() const {
  MutexLock lock(mu_);
  return {.bytes_read = lane_->bytes_read() + tables_->bytes_read(),
          .acquired = acquired_,
          .thrown_away = ring_->thrown_away(),
          .stalled = stalled_,
          .experts = experts_ == nullptr ? ExpertStats{} : experts_->stats()};
}

}  // namespace outrider
