#include "bench/simulator/studies/faults.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "bench/simulator/studies/lossless.h"
#include "bench/simulator/world/chance.h"
#include "bench/simulator/world/frames.h"
#include "bench/simulator/world/simulation.h"
#include "common/base/check.h"
#include "common/base/status.h"

namespace outrider {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::array<std::string_view, kFaultCount> kNames = {
    "cut up",   "cut down", "silent cut", "unreachable", "slow answer", "restart", "drain",
    "eviction", "stall",    "ahead",      "thief",       "stranger",    "replay"};

// How often another simulation is tried where a fault has come to nothing.
constexpr uint64_t kAttemptsMax = 16;

// Of all seeds, those in which auto has the tokens to try its choices; of those, the ones in which it has
// them to come back to drafting, too.
constexpr double kLongReplies = 0.05;
constexpr double kLongestReplies = 0.2;

// What a trial may take of virtual time. Patience with servers that are away is two minutes.
constexpr Duration kTimeMax = std::chrono::hours(2);

TimeProfile Profile(std::string_view text) {
  return *TimeProfile::Parse(text);
}

template <typename T>
const T& OneOf(Draw& draw, std::span<const T> choices) {
  return choices[draw.Below(choices.size())];
}

std::vector<Turn> TurnsOf(Draw& draw, uint32_t prompt_length, uint32_t max_tokens) {
  std::vector<Turn> turns(draw.Below(3));
  uint32_t length = prompt_length;
  for (Turn& turn : turns) {
    turn.tokens.resize(1 + draw.Below(6));
    for (TokenId& token : turn.tokens) token = 3 + static_cast<TokenId>(draw.Below(80));
    if (draw.Happens(0.5)) {
      turn.interrupts_after = 1 + static_cast<uint32_t>(draw.Below(max_tokens - 1));
      turn.truncate_to = length + static_cast<uint32_t>(draw.Below(*turn.interrupts_after + 1));
      length = *turn.truncate_to;
    } else {
      length += max_tokens;
    }
    length += static_cast<uint32_t>(turn.tokens.size());
  }
  return turns;
}

// One reply by policy auto, so long that it gives drafting up, or has the server draft and comes back.
// From the target alone it comes back after 512 verdicts, which are as many tokens: with drafts that are
// seldom right at token 770, and near 1,120 where it has tried the server's before it gave up its own.
void MakeLong(Draw& draw, Scenario& scenario) {
  scenario.policy.kind = PolicyKind::kAuto;
  scenario.moves_every.reset();
  if (draw.Happens(0.5)) scenario.server_draft_time = milliseconds(2);
  scenario.session_count = 1;
  scenario.turns.clear();
  scenario.ends_at_end_token = false;
  scenario.max_tokens = 300 + static_cast<uint32_t>(draw.Below(200));
  if (draw.Happens(kLongestReplies)) scenario.max_tokens += 700;
}

Scenario RandomScenario(Draw& draw, bool sampled) {
  static constexpr std::string_view kSkills[] = {"perfect", "good", "bad", "adversarial",
                                                 "0.5@0.95,0.02;0.5@0.45,0.2,0.1"};
  static constexpr uint32_t kPassNodes[] = {1, 4, 16, 63};
  static constexpr v1::DryPolicy kDry[] = {v1::DRY_POLICY_ADAPTIVE, v1::DRY_POLICY_WAIT,
                                           v1::DRY_POLICY_ALONE};
  Scenario scenario;
  scenario.link.delay = milliseconds(draw.Below(60));
  if (draw.Happens(0.5)) scenario.link.jitter = milliseconds(draw.Below(20));
  if (draw.Happens(0.2)) scenario.link.loss = 0.05;
  if (draw.Happens(0.2)) scenario.link.bytes_per_second = 20'000;
  scenario.link.handshakes = static_cast<uint32_t>(draw.Below(3));
  scenario.pass_time = Profile("1:12,16:15,64:30");
  scenario.prompt_token_time = std::chrono::microseconds(300);
  scenario.draft_time = Profile("1:5,8:6");
  scenario.skill = *DraftSkill::Parse(OneOf<std::string_view>(draw, kSkills));
  scenario.policy.kind = OneOf<PolicyKind>(draw, kPolicyKinds);
  scenario.policy.gamma = 1 + static_cast<uint32_t>(draw.Below(8));
  scenario.sketch.pass_node_count_max = OneOf<uint32_t>(draw, kPassNodes);
  scenario.sketch.node_count_max = draw.Happens(0.3) ? 24 : 128;
  scenario.dry_policy = OneOf<v1::DryPolicy>(draw, kDry);
  scenario.sketch.takes_turns = draw.Happens(0.15);
  scenario.session_count = draw.Happens(0.3) ? 3 : 1;
  scenario.stagger = milliseconds(draw.Below(100));
  scenario.prompt_length = 1 + static_cast<uint32_t>(draw.Below(20));
  scenario.max_tokens = 10 + static_cast<uint32_t>(draw.Below(40));
  scenario.turns = TurnsOf(draw, scenario.prompt_length, scenario.max_tokens);
  // Where the user cuts in was decided beforehand, and has to be there.
  scenario.ends_at_end_token = scenario.turns.empty();
  if (sampled) {
    scenario.sampling = {.temperature = 0.5 + draw.Uniform(), .seed = draw.Bits()};
    if (draw.Happens(0.5)) scenario.sampling.top_k = 20;
    if (draw.Happens(0.3)) scenario.sampling.presence_penalty = 0.5;
    if (draw.Happens(0.3)) scenario.sampling.repetition_penalty = 1.2;
  }
  if (draw.Happens(0.25)) {
    scenario.server_draft_time = milliseconds(2);
    scenario.moves_every = 1 + static_cast<uint32_t>(draw.Below(6));
  }
  if (draw.Happens(kLongReplies)) MakeLong(draw, scenario);
  scenario.seed = draw.Bits();
  return scenario;
}

// Somebody with a token that should be of no use.
class Intruder final : public Connection::Listener {
 public:
  explicit Intruder(Journal* journal) : journal_(journal) {}

  void Attack(Simulation& simulation, const std::string& key, const std::string& token) {
    const SimulatedDevice& victim = simulation.device(0);
    victim_ = &victim;
    events_ = &simulation.events();
    connection_ = &simulation.Dial(0, *this, key);
    v1::ClientMessage message;
    v1::Resume& resume = *message.mutable_resume();
    resume.set_session(victim.session_name());
    resume.set_token(token);
    resume.set_length(static_cast<uint32_t>(victim.session().committed().size()));
    resume.set_attempt(std::numeric_limits<uint32_t>::max());  // only the token is wrong
    if (journal_ != nullptr) {
      journal_->Sent(*connection_, End::kDevice,
                     {Journal::Kind::kUp,
                      0,
                      events_->now(),
                      {},
                      0,
                      Concat("an intruder: ", message.ShortDebugString())});
    }
    connection_->Write(End::kDevice, FrameOf(FrameKind::kMessage, message.SerializeAsString()));
  }

  void OnBytes(std::string_view bytes) override {
    frames_.Add(bytes);
    while (const std::optional<Frame> frame = frames_.Next()) {
      if (frame->kind == FrameKind::kStatus) continue;
      v1::ServerMessage message;
      OUTRIDER_CHECK(
          message.ParseFromArray(frame->content.data(), static_cast<int>(frame->content.size())),
          "bytes on the link are as they were written");
      if (journal_ != nullptr) journal_->Received(*connection_, End::kServer, events_->now());
      const bool is_refusal =
          message.has_fault() && message.fault().kind() == v1::Fault::UNKNOWN_SESSION;
      (is_refusal ? refused_ : admitted_) = true;
      met_victim_ = !victim_->done();
    }
  }
  void OnRoom() override {}
  void OnEnd() override {}

  bool attacked() const { return connection_ != nullptr; }
  bool refused() const { return refused_ && !admitted_; }
  // There still was something to get at when it was refused.
  bool met_victim() const { return refused() && met_victim_; }

 private:
  Journal* const journal_;
  const SimulatedDevice* victim_ = nullptr;
  const EventQueue* events_ = nullptr;
  Connection* connection_ = nullptr;
  FrameReader frames_;
  bool refused_ = false;
  bool admitted_ = false;
  bool met_victim_ = false;
};

class Trial {
 public:
  Trial(const World& world, Scenario scenario, Fault fault, Draw& draw, Journal* journal)
      : fault_(fault), draw_(draw), scenario_(std::move(scenario)), intruder_(journal) {
    AdaptScenario();
    simulation_ = std::make_unique<Simulation>(world, scenario_, journal);
    PlanCuts();
    if (fault_ == Fault::kSlowAnswer) PlanSlowness();
    PlanEvents();
  }

  absl::Status Run() {
    if (!simulation_->Run(kTimeMax)) {
      return absl::DeadlineExceededError("it does not come to an end");
    }
    OUTRIDER_RETURN_IF_ERROR(CheckTexts(*simulation_));
    happened_ = WasSeen();
    if (intruder_.attacked()) {
      while (!intruder_.refused() && simulation_->events().RunNext()) {
      }
      if (!intruder_.refused()) return absl::InternalError("the intruder was not refused");
    }
    return CheckNothingIsLeft();
  }

  // And made a difference, as far as Run() has come.
  bool happened() const { return happened_ || intruder_.met_victim(); }

 private:
  // By what it did to the sessions: a fault that nobody noticed has not been tried.
  bool WasSeen() const {
    const SimulatedDevice& device = simulation_->device(0);
    const auto is_cut = [](const auto& connection) { return connection->is_cut(); };
    const bool dialled_after_cut =
        device.dial_count() > 1 && std::ranges::any_of(simulation_->connections(), is_cut);
    switch (fault_) {
      case Fault::kCutUp:
      case Fault::kCutDown:
      case Fault::kSilentCut:
        return dialled_after_cut;
      case Fault::kUnreachable:
        return dialled_after_cut && dialled_in_vain_;
      case Fault::kSlowAnswer:
        return slow_dial_ && device.dial_count() > *slow_dial_ + 1;
      case Fault::kRestart:
      case Fault::kDrain:
        return HasReopened();
      case Fault::kEviction:
        return simulation_->host().machine().stats().evictions > 0;
      case Fault::kStall:
        return held_up_;
      case Fault::kAhead:
        return device.written_alone() > 0;
      case Fault::kThief:
      case Fault::kStranger:
      case Fault::kReplay:
        return intruder_.met_victim();
    }
    OUTRIDER_CHECK(false, "every fault does something");
  }

  // A session of the server that is gone was given to the one that came after it.
  bool HasReopened() const {
    for (size_t i = 0; i < simulation_->device_count(); ++i) {
      if (simulation_->device(i).session().stats().reopenings > 0) return true;
    }
    return false;
  }

  // Some time while the text is written, or shortly after.
  Duration SomeTime() {
    const double tokens =
        static_cast<double>(scenario_.max_tokens) * static_cast<double>(1 + scenario_.turns.size());
    const double token_ms = 10 + ToMilliseconds(scenario_.link.delay) / 2;
    return Milliseconds(draw_.Uniform() * tokens * token_ms);
  }

  uint64_t SomeByte(End from) {
    // About as many as a session writes: some fall into the handshake, some behind the end.
    const uint64_t open = 60 + 3 * scenario_.prompt_length;
    const uint64_t reply = scenario_.max_tokens * (from == End::kDevice ? 12 : 16);
    return draw_.Happens(0.3) ? draw_.Below(open) : draw_.Below(open + reply);
  }

  void AdaptScenario() {
    LinkOptions& patience = scenario_.patience;
    patience.answer_deadline = seconds(3);
    patience.silence_max = seconds(5);
    patience.first_patience = std::chrono::minutes(2);
    if (fault_ == Fault::kAhead) scenario_.alone_time = milliseconds(5 + draw_.Below(50));
    // A reply that goes on for a while after the token that was used up.
    if (fault_ == Fault::kReplay) scenario_.max_tokens += 150;
    if (fault_ == Fault::kStall)
      scenario_.link.window_bytes = 64 + static_cast<uint32_t>(draw_.Below(400));
    if (fault_ == Fault::kEviction) {
      scenario_.session_count = 2 + static_cast<uint32_t>(draw_.Below(2));
      scenario_.sessions_in_memory = 1;
      patience.patience = std::chrono::minutes(30);
      patience.first_patience = std::chrono::minutes(30);
    }
  }

  // The first connection, or the first two, are cut; some faults then leave the device without any
  // for a while.
  void PlanCuts() {
    const bool is_up = fault_ == Fault::kCutUp || (fault_ != Fault::kCutDown && draw_.Happens(0.5));
    const End from = is_up ? End::kDevice : End::kServer;
    const Cut cut{from, SomeByte(from), fault_ == Fault::kSilentCut};
    const uint32_t cut_count = draw_.Happens(0.2) ? 2 : 1;
    const Duration away = milliseconds(draw_.Below(20'000));
    if (!Cuts(fault_)) return;
    CutFirst(cut, cut_count, away);
  }

  void CutFirst(Cut cut, uint32_t cut_count, Duration away) {
    simulation_->SetCuts([this, cut, cut_count, away](size_t device, uint32_t dial) {
      std::optional<Cut> where;
      if (device != 0) return where;
      const MonotonicTime now = simulation_->events().now();
      if (dial < cut_count) {
        where = cut;
        away_until_ = now + away;
      } else if (LeavesAway(fault_) && now < away_until_) {
        dialled_in_vain_ = true;
        where = Cut{End::kDevice, 0};
      }
      return where;
    });
  }

  static bool Cuts(Fault fault) {
    switch (fault) {
      case Fault::kSlowAnswer:
      case Fault::kRestart:
      case Fault::kStall:
      case Fault::kThief:
      case Fault::kStranger:
        return false;
      default:
        return true;
    }
  }

  static bool LeavesAway(Fault fault) {
    return fault == Fault::kUnreachable || fault == Fault::kEviction || fault == Fault::kAhead;
  }

  void PlanEvents() {
    const MonotonicTime at = simulation_->begin() + SomeTime();
    EventQueue& events = simulation_->events();
    switch (fault_) {
      case Fault::kRestart:
        events.At(at, [this, down = milliseconds(draw_.Below(10'000))] {
          simulation_->host().Restart(down);
        });
        return;
      case Fault::kDrain:
        PlanDrain(at);
        return;
      case Fault::kStall:
        events.At(at, [this, until = at + milliseconds(draw_.Below(60'000))] { Stall(until); });
        return;
      case Fault::kThief:
      case Fault::kStranger:
      case Fault::kReplay:
        events.At(at, [this] { AttackWhenItCan(); });
        return;
      default:
        return;
    }
  }

  // One connection only: what it begins with arrives when the device has asked again. That is its
  // Open or, where the first is cut, most likely a Resume.
  void PlanSlowness() {
    LinkShape slow = scenario_.link;
    slow.delay = milliseconds(1'500 + draw_.Below(6'000));
    const uint32_t slow_dial = draw_.Below(2);
    if (slow_dial > 0) CutFirst({End::kServer, SomeByte(End::kServer)}, slow_dial, Duration{});
    simulation_->SetShapes([this, slow, slow_dial](size_t device, uint32_t dial) {
      if (device != 0 || dial != slow_dial) return std::optional<LinkShape>();
      slow_dial_ = slow_dial;
      return std::optional<LinkShape>(slow);
    });
  }

  void PlanDrain(MonotonicTime at) {
    const Duration grace = milliseconds(draw_.Below(3'000));
    const Duration down = milliseconds(draw_.Below(5'000));
    simulation_->events().At(at, [this, grace] { simulation_->host().Drain(grace); });
    simulation_->events().At(at + grace + milliseconds(100),
                             [this, down] { simulation_->host().Restart(down); });
  }

  // Until the server has noticed, the device reads nothing.
  void Stall(MonotonicTime until) {
    simulation_->device(0).Read(false);
    LookForStall(until);
  }

  void LookForStall(MonotonicTime until) {
    for (const std::unique_ptr<Connection>& connection : simulation_->connections()) {
      held_up_ = held_up_ || connection->is_held_up(End::kServer);
    }
    EventQueue& events = simulation_->events();
    if (events.now() >= until) return simulation_->device(0).Read(true);
    events.After(kLook, [this, until] { LookForStall(until); });
  }

  // Once there is something to steal.
  void AttackWhenItCan() {
    const SimulatedDevice& victim = simulation_->device(0);
    if (victim.done()) return;
    const std::span<const std::string> tokens = victim.resume_tokens();
    const std::string own_key = simulation_->KeyOf(0);
    // A token is used up when the device has spoken on the stream that brought the next one.
    const bool is_used_up = tokens.size() > 1 && victim.spoken_for() >= seconds(1);
    if (fault_ == Fault::kReplay ? !is_used_up : tokens.empty()) {
      return simulation_->events().After(kLook, [this] { AttackWhenItCan(); });
    }
    switch (fault_) {
      case Fault::kThief:
        return intruder_.Attack(*simulation_, own_key, Forged(tokens.back()));
      case Fault::kStranger:
        return intruder_.Attack(*simulation_, "a stranger", tokens.back());
      default:
        return intruder_.Attack(*simulation_, own_key, tokens[tokens.size() - 2]);
    }
  }

  // Right but for one bit.
  std::string Forged(std::string token) {
    char& byte = token[draw_.Below(token.size())];
    byte = static_cast<char>(byte ^ (1 << draw_.Below(8)));
    return token;
  }

  // Every session is closed in the end, and takes everything with it.
  absl::Status CheckNothingIsLeft() {
    EventQueue& events = simulation_->events();
    const MonotonicTime end = events.now() + std::chrono::minutes(20);
    while (events.now() < end && events.RunNext()) {
    }
    const VerifierMachine& machine = simulation_->host().machine();
    machine.CheckInvariants();
    if (machine.session_count() > 0 || machine.stream_count() > 0) {
      return absl::InternalError(Concat("the server still has ", machine.session_count(),
                                        " sessions and ", machine.stream_count(), " streams"));
    }
    return absl::OkStatus();
  }

  static constexpr Duration kLook = milliseconds(50);

  const Fault fault_;
  Draw& draw_;
  Scenario scenario_;
  std::unique_ptr<Simulation> simulation_;
  Intruder intruder_;
  MonotonicTime away_until_{};
  bool dialled_in_vain_ = false;
  std::optional<uint32_t> slow_dial_;  // once it has been dialled
  bool held_up_ = false;
  bool happened_ = false;
};

}  // namespace

std::string_view NameOf(Fault fault) {
  return kNames[static_cast<size_t>(fault)];
}

FaultTrials::FaultTrials() {
  static constexpr const char* kExits[] = {"none", "0.4:0.3,0.7:0.6", "lying:0.3,0.8"};
  for (size_t i = 0; i < worlds_.size(); ++i) {
    absl::StatusOr<std::unique_ptr<World>> world = World::Create(
        {.vocabulary_size = 1000, .sampled = i % 2 == 1, .exits = kExits[i / 2], .seed = 1});
    OUTRIDER_CHECK_OK(world.status());
    worlds_[i] = *std::move(world);
  }
}

FaultTrials::Result FaultTrials::Run(uint64_t seed, Journal* journal) const {
  return Run(seed, static_cast<Fault>(Draw(seed, 1).Below(kFaultCount)), journal);
}

FaultTrials::Result FaultTrials::Run(uint64_t seed, Fault fault, Journal* journal) const {
  Result result{fault, false, {}};
  for (uint64_t attempt = 0; attempt < kAttemptsMax && !result.happened; ++attempt) {
    if (journal != nullptr) *journal = Journal();
    result = Try(seed, attempt, fault, journal);
    if (!result.status.ok()) break;
  }
  return result;
}

FaultTrials::Result FaultTrials::Try(uint64_t seed, uint64_t attempt, Fault fault,
                                     Journal* journal) const {
  Draw draw(seed, 2 + attempt);
  const size_t world = draw.Below(worlds_.size());
  Scenario scenario = RandomScenario(draw, world % 2 == 1);
  Trial trial(*worlds_[world], std::move(scenario), fault, draw, journal);
  const absl::Status status = trial.Run();
  return {fault, trial.happened(), Annotate(status, Concat("seed ", seed, ", ", NameOf(fault)))};
}

}  // namespace outrider
