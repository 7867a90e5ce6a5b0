#include "common/model/weights/streaming/expert_places.h"

#include <algorithm>

#include "common/base/buffer.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/kernels/weight_matrix.h"
#include "common/model/weights/streaming/returned_pages.h"
#include "common/model/weights/streaming/stream_unit.h"

namespace outrider {
namespace {

// Enough that the next is asked for before the first has landed.
constexpr uint32_t kGuessesFilling = 2;

uint32_t ExpertCountOf(const LayerSpec& layer) {
  return layer.feed_forward.router ? layer.feed_forward.router->expert_count : 0;
}

}  // namespace

// --- opening ---

absl::StatusOr<ExpertPlaces::Expert> ExpertPlaces::PlanExpert(
    const ModelFile& model, LoadPlan<FeedForwardWeights> plan,
    std::span<const DirectFile* const> files, const std::string& path) {
  Expert expert = {.plan = std::move(plan), .reads = {}, .biases = {}};
  for (const MatrixPart& part : expert.plan.matrices) {
    OUTRIDER_RETURN_IF_ERROR(CheckRunnable(*part.tensor, path));
  }
  OUTRIDER_ASSIGN_OR_RETURN(expert.reads, PlanReads(expert.plan.matrices, files, path));
  OUTRIDER_RETURN_IF_ERROR(ReadVectors(model, expert.plan.vectors, expert.biases));
  return expert;
}

absl::StatusOr<std::unique_ptr<ExpertPlaces>> ExpertPlaces::Plan(
    const ModelFile& model, const ModelSpec& spec, std::span<const DirectFile* const> files,
    const std::string& path, uint32_t place_count, Eviction eviction) {
  const LoadPlanner planner(model, spec);
  std::vector<std::vector<Expert>> experts(spec.layer_count());
  std::vector<ExpertCache::Layer> layers(spec.layer_count());
  uint32_t expert_count = 0;
  for (uint32_t n = 0; n < spec.layer_count(); ++n) {
    for (uint32_t e = 0; e < ExpertCountOf(spec.layers[n]); ++e) {
      OUTRIDER_ASSIGN_OR_RETURN(Expert expert,
                                PlanExpert(model, planner.Expert(n, e), files, path));
      layers[n] = {.expert_count = e + 1, .expert_bytes = ReadBytes(expert.reads)};
      experts[n].push_back(std::move(expert));
      ++expert_count;
    }
  }
  return std::unique_ptr<ExpertPlaces>(new ExpertPlaces(std::move(experts), layers,
                                                        std::min(place_count, expert_count),
                                                        PlacesLeast(spec), eviction));
}

uint64_t ExpertPlaces::PlaceBytes(const ModelFile& model, const ModelSpec& spec) {
  const LoadPlanner planner(model, spec);
  uint64_t bytes = 0;
  for (uint32_t n = 0; n < spec.layer_count(); ++n) {
    for (uint32_t e = 0; e < ExpertCountOf(spec.layers[n]); ++e) {
      bytes = std::max<uint64_t>(bytes, planner.Expert(n, e).slot_bytes);
    }
  }
  return RoundUp(bytes, kSlotAlignment);
}

// A row's of one layer, and of the next.
uint32_t ExpertPlaces::PlacesLeast(const ModelSpec& spec) {
  uint32_t least = 0;
  for (const LayerSpec& layer : spec.layers) {
    if (layer.feed_forward.router) {
      least = std::max(least, 2 * layer.feed_forward.router->used_count);
    }
  }
  return least;
}

ExpertPlaces::ExpertPlaces(std::vector<std::vector<Expert>> experts,
                           std::span<const ExpertCache::Layer> layers, uint32_t place_count,
                           uint32_t places_least, Eviction eviction)
    : experts_(std::move(experts)),
      places_least_(places_least),
      cache_(layers, place_count, eviction),
      guesses_(static_cast<uint32_t>(layers.size())),
      places_(place_count) {
  size_t most = 0;
  for (const std::vector<Expert>& layer : experts_) {
    most = std::max(most, layer.size());
    for (const Expert& expert : layer) {
      place_bytes_ = std::max(place_bytes_, RoundUp(expert.plan.slot_bytes, kSlotAlignment));
      staging_bytes_ = std::max(staging_bytes_, LongestStaged(expert.reads));
    }
  }
  wanted_.reserve(most);
  to_guess_.reserve(most);
  wanted_places_.reserve(place_count);
  guessed_places_.reserve(place_count);
}

absl::Status ExpertPlaces::TakeMemory() {
  OUTRIDER_ASSIGN_OR_RETURN(memory_, PageBuffer::CreateLarge(place_bytes_ * places_.size()));
  for (size_t i = 0; i < places_.size(); ++i) {
    places_[i].memory = memory_.bytes().data() + i * place_bytes_;
  }
  return absl::OkStatus();
}

void ExpertPlaces::ReadBy(FlashLane& lane, uint64_t first_id) {
  lane_ = &lane;
  first_id_ = first_id;
}

// --- what is wanted ---

// Those that are here are held before anything is evicted for the others.
void ExpertPlaces::Want(std::span<const WeightKey> keys) {
  ForgetWanted();
  Judge(keys);
  for (const WeightKey& key : keys) {
    wanted_.push_back(std::get<ExpertKey>(key));
    if (cache_.Use(wanted_.back())) MarkWanted(*cache_.PlaceOf(wanted_.back()));
  }
  BeginWanted();
}

// As many as there are places for; GiveBack() goes on with the rest.
void ExpertPlaces::BeginWanted() {
  for (; next_wanted_ < wanted_.size(); ++next_wanted_) {
    const ExpertKey key = wanted_[next_wanted_];
    if (cache_.PlaceOf(key)) continue;
    const std::optional<uint32_t> place = Begin(key, Urgency::kNow);
    if (!place) return;
    MarkWanted(*place);
  }
}

std::optional<uint32_t> ExpertPlaces::Begin(ExpertKey key, Urgency urgency) {
  const std::optional<uint32_t> taken = cache_.Take(key);
  if (taken) Read(*taken, urgency);
  return taken;
}

void ExpertPlaces::Read(uint32_t n, Urgency urgency) {
  Place& place = places_[n];
  place.hand = Hand::kFilling;
  place.status = absl::OkStatus();
  place.urgency = urgency;
  place.asked = RealClock().Now();
  place.is_read_for_it = urgency == Urgency::kNow;
  cache_.Hold(n);  // while it fills
  ++(urgency == Urgency::kNow ? filling_now_ : filling_guessed_);
  lane_->Begin({.id = first_id_ + n,
                .urgency = urgency,
                .reads = ExpertOf(*cache_.KeyIn(n)).reads,
                .slot = place.memory});
}

void ExpertPlaces::MarkWanted(uint32_t n) {
  Place& place = places_[n];
  if (place.is_wanted) return;
  place.is_wanted = true;
  cache_.Hold(n);
  wanted_places_.push_back(n);
  if (place.hand != Hand::kFilling || place.urgency == Urgency::kNow) return;
  place.urgency = Urgency::kNow;
  --filling_guessed_;
  ++filling_now_;
  lane_->Hurry(first_id_ + n);
}

void ExpertPlaces::UnmarkWanted(uint32_t n) {
  places_[n].is_wanted = false;
  places_[n].is_read_for_it = false;
  cache_.LetGo(n);
}

void ExpertPlaces::UnmarkAllWanted() {
  for (const uint32_t n : wanted_places_) {
    Place& place = places_[n];
    if (!place.is_wanted) continue;
    UnmarkWanted(n);
    if (place.hand == Hand::kReady && !place.status.ok()) {
      cache_.Empty(n);
      place.hand = Hand::kFree;
    }
  }
  wanted_places_.clear();
}

// What a layer wanted and was not lent, too: it failed half way.
void ExpertPlaces::ForgetWanted() {
  UnmarkAllWanted();
  wanted_.clear();
  next_wanted_ = 0;
}

bool ExpertPlaces::IsWanted(ExpertKey key) const {
  return std::ranges::find(wanted_, key) != wanted_.end();
}

// --- what is guessed ---

void ExpertPlaces::Judge(std::span<const WeightKey> chosen) {
  const auto is_chosen = [&](ExpertKey key) {
    return std::ranges::find(chosen, WeightKey(key)) != chosen.end();
  };
  guesses_.Judge(chosen);
  for (const uint32_t n : guessed_places_) {
    if (is_chosen(*cache_.KeyIn(n))) ++read_ahead_right_;
  }
  ForgetGuessed();
}

void ExpertPlaces::ForgetGuessed() {
  for (const uint32_t n : guessed_places_) cache_.LetGo(n);
  guessed_places_.clear();
  to_guess_.clear();
  next_to_guess_ = 0;
}

void ExpertPlaces::Guess(std::span<const WeightKey> keys) {
  ForgetGuessed();
  guesses_.Begin();
  for (const WeightKey& key : keys) {
    const auto expert = std::get<ExpertKey>(key);
    if (cache_.PlaceOf(expert)) continue;
    guesses_.Add(expert);
    if (guesses_.IsWorthReading(expert.layer)) to_guess_.push_back(expert);
  }
  BeginGuessed();
}

void ExpertPlaces::BeginGuessed() {
  for (; next_to_guess_ < to_guess_.size(); ++next_to_guess_) {
    if (filling_now_ > 0 || filling_guessed_ >= kGuessesFilling) return;
    if (guessed_places_.size() >= guessed_places_max()) return;
    const ExpertKey key = to_guess_[next_to_guess_];
    if (cache_.PlaceOf(key)) continue;
    const std::optional<uint32_t> place = Begin(key, Urgency::kGuess);
    if (!place) return;
    cache_.Hold(*place);  // until its layer has chosen
    guessed_places_.push_back(*place);
    ++read_ahead_;
  }
}

// --- what is lent ---

bool ExpertPlaces::IsAtHand(ExpertKey key) const {
  const std::optional<uint32_t> place = cache_.PlaceOf(key);
  return place && places_[*place].hand == Hand::kReady;
}

// The others are filled meanwhile.
uint32_t ExpertPlaces::leases_max() const {
  return std::max(1u, cache_.place_count() / 2);
}

ExpertPlaces::Place* ExpertPlaces::Claim(ExpertKey key) {
  if (!IsWanted(key)) {  // nobody has said so before
    wanted_.push_back(key);
    cache_.Use(key);
  }
  std::optional<uint32_t> place = cache_.PlaceOf(key);
  if (!place) place = Begin(key, Urgency::kNow);
  if (!place) {
    ForgetGuessed();
    // In the order of Want() those ahead have been lent and given back. Out of it they make room.
    if (filling_now_ == 0) UnmarkAllWanted();
    place = Begin(key, Urgency::kNow);
  }
  if (!place) {
    OUTRIDER_CHECK(filling_now_ + filling_guessed_ > 0, "some places are not lent");
    return nullptr;
  }
  MarkWanted(*place);
  return &places_[*place];
}

absl::StatusOr<const FeedForwardWeights*> ExpertPlaces::Lend(ExpertKey key, Place& place) {
  const uint32_t n = *cache_.PlaceOf(key);
  if (!place.status.ok()) {
    const absl::Status failed =
        Annotate(place.status, Concat("expert ", key.expert, " of layer ", key.layer));
    ForgetWanted();
    return failed;
  }
  cache_.Hold(n);
  ++place.lease_count;
  UnmarkWanted(n);
  return &place.weights;
}

void ExpertPlaces::GiveBack(ExpertKey key) {
  const std::optional<uint32_t> n = cache_.PlaceOf(key);
  OUTRIDER_CHECK(n && places_[*n].lease_count > 0, "what is given back was lent");
  --places_[*n].lease_count;
  cache_.LetGo(*n);
  BeginWanted();
}

// --- giving up ---

void ExpertPlaces::Settle() {
  ForgetWanted();
  ForgetGuessed();
}

std::optional<size_t> ExpertPlaces::GiveUpPlace() {
  if (cache_.place_count() <= places_least_) return std::nullopt;
  const std::optional<uint32_t> n = cache_.Retire();
  OUTRIDER_CHECK(n, "nothing is lent or on its way between two layers");
  places_[*n].hand = Hand::kFree;
  return ReturnPages({places_[*n].memory, place_bytes_});
}

// --- the lane's word ---

ExpertPlaces::Fill ExpertPlaces::OnFilled(uint64_t id, const absl::Status& status) {
  const auto n = static_cast<uint32_t>(id - first_id_);
  Place& place = places_[n];
  const ExpertKey key = *cache_.KeyIn(n);
  const Fill fill = {.key = key,
                     .bytes = ReadBytes(ExpertOf(key).reads),
                     .asked = place.asked,
                     .urgency = place.urgency};
  --(place.urgency == Urgency::kNow ? filling_now_ : filling_guessed_);
  cache_.LetGo(n);
  // One that was begun before it was wanted says how the disk was then.
  if (!status.ok() && place.is_wanted && !place.is_read_for_it) {
    Read(n, Urgency::kNow);
    return fill;
  }
  place.hand = Hand::kReady;
  place.status = status;
  const Expert& expert = ExpertOf(key);
  PutVectors(expert.plan.vectors, expert.biases, place.memory);
  place.weights = expert.plan.In(place.memory);
  if (!status.ok() && !place.is_wanted) {  // whoever comes to want it tries again
    if (std::erase(guessed_places_, n) > 0) cache_.LetGo(n);
    cache_.Empty(n);
    place.hand = Hand::kFree;
  }
  BeginGuessed();
  return fill;
}

ExpertStats ExpertPlaces::stats() const {
  return {.cache = cache_.stats(),
          .guesses = guesses_.stats(),
          .read_ahead = read_ahead_,
          .read_ahead_right = read_ahead_right_};
}

}  // namespace outrider
