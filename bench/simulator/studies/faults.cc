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
    "cut up", "cut down", "silent cut", "unreachable", "slow answer", "restart",
    "drain",  "eviction", "stall",      "ahead",       "thief",       "replay"};

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
  scenario.seed = draw.Bits();
  return scenario;
}

// Somebody with a token that should be of no use.
class Intruder final : public Connection::Listener {
 public:
  void Attack(Simulation& simulation, const std::string& key, const std::string& token) {
    const SimulatedDevice& victim = simulation.device(0);
    connection_ = &simulation.Dial(0, *this, key);
    v1::ClientMessage message;
    v1::Resume& resume = *message.mutable_resume();
    resume.set_session(victim.session_name());
    resume.set_token(token);
    resume.set_length(static_cast<uint32_t>(victim.session().committed().size()));
    resume.set_attempt(std::numeric_limits<uint32_t>::max());  // only the token is wrong
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
      const bool is_refusal =
          message.has_fault() && message.fault().kind() == v1::Fault::UNKNOWN_SESSION;
      (is_refusal ? refused_ : admitted_) = true;
    }
  }
  void OnRoom() override {}
  void OnEnd() override {}

  bool attacked() const { return connection_ != nullptr; }
  bool refused() const { return refused_ && !admitted_; }

 private:
  Connection* connection_ = nullptr;
  FrameReader frames_;
  bool refused_ = false;
  bool admitted_ = false;
};

class Trial {
 public:
  Trial(const World& world, Scenario scenario, Fault fault, Draw& draw, Journal* journal)
      : fault_(fault), draw_(draw), scenario_(std::move(scenario)) {
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
    if (intruder_.attacked()) {
      while (!intruder_.refused() && simulation_->events().RunNext()) {
      }
      if (!intruder_.refused()) return absl::InternalError("the intruder was not refused");
    }
    return CheckNothingIsLeft();
  }

  bool happened() const {
    const auto is_cut = [](const auto& connection) { return connection->is_cut(); };
    return happened_ || intruder_.attacked() ||
           std::ranges::any_of(simulation_->connections(), is_cut);
  }

 private:
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
          happened_ = true;
          simulation_->host().Restart(down);
        });
        return;
      case Fault::kDrain:
        PlanDrain(at);
        return;
      case Fault::kStall:
        events.At(at, [this] {
          happened_ = true;
          simulation_->device(0).Read(false);
        });
        events.At(at + milliseconds(draw_.Below(60'000)),
                  [this] { simulation_->device(0).Read(true); });
        return;
      case Fault::kThief:
      case Fault::kReplay:
        events.At(at, [this] { Attack(); });
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
      happened_ = true;
      return std::optional<LinkShape>(slow);
    });
  }

  void PlanDrain(MonotonicTime at) {
    const Duration grace = milliseconds(draw_.Below(3'000));
    const Duration down = milliseconds(draw_.Below(5'000));
    simulation_->events().At(at, [this, grace] {
      happened_ = true;
      simulation_->host().Drain(grace);
    });
    simulation_->events().At(at + grace + milliseconds(100),
                             [this, down] { simulation_->host().Restart(down); });
  }

  // Once there is something to steal.
  void Attack() {
    const SimulatedDevice& victim = simulation_->device(0);
    const std::span<const std::string> tokens = victim.resume_tokens();
    if (fault_ == Fault::kThief && !tokens.empty()) {
      return intruder_.Attack(*simulation_, "a thief", tokens.back());
    }
    // A token is used up when the device has spoken on the stream that brought the next one.
    if (tokens.size() < 2 || victim.attached_for() < seconds(1)) return;
    intruder_.Attack(*simulation_, simulation_->KeyOf(0), tokens[tokens.size() - 2]);
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

  const Fault fault_;
  Draw& draw_;
  Scenario scenario_;
  std::unique_ptr<Simulation> simulation_;
  Intruder intruder_;
  MonotonicTime away_until_{};
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
  Draw draw(seed, 2);
  const size_t world = draw.Below(worlds_.size());
  Scenario scenario = RandomScenario(draw, world % 2 == 1);
  Trial trial(*worlds_[world], std::move(scenario), fault, draw, journal);
  const absl::Status status = trial.Run();
  return {fault, trial.happened(), Annotate(status, Concat("seed ", seed, ", ", NameOf(fault)))};
}

}  // namespace outrider
