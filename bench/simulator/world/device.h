// A device of a simulation: the real session machine, with a synthetic drafter on one side, streams
// of bytes on the other, and a user who has it all written down beforehand, and closes the session
// in the end.
//
//   SimulatedDevice device(events, options, {tokenizer, drafts, dial});
//   device.Start();
//   while (!device.done() && events.RunNext()) {}
//   device.shown()                              // what the user got to see
//
// A message is serialised, framed and written when the machine sends it, and comes out of the bytes
// at the other end; drafting takes virtual time by the nodes of the batch, one batch at a time, or as
// many as there are workers, each at the speed it has when it is alone: a device with room beside a
// batch, as a GPU has it. On one processor several batches would only wait for one another, which is
// one worker that is asked for several (Sketcher::Options::batch_count_max). A batch is one run of the
// draft's model: cancelled, it is not begun, or not interrupted.
//
// Threads: one. A device outlives the events it has scheduled: simulations keep theirs to the end.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "bench/simulator/sources/sources.h"
#include "bench/simulator/sources/synthetic_drafter.h"
#include "bench/simulator/world/event_queue.h"
#include "bench/simulator/world/frames.h"
#include "bench/simulator/world/journal.h"
#include "bench/simulator/world/link.h"
#include "bench/simulator/world/processor.h"
#include "bench/simulator/world/time_profile.h"
#include "client/session/session.h"
#include "common/speculation/control/controllers.h"
#include "common/speculation/costs/cost_model.h"
#include "common/speculation/policies/policies.h"
#include "common/text/tokenizer.h"

namespace outrider {

// What the user says next, once a reply has ended, or in the middle of it.
struct Turn {
  // Cuts in when so many tokens of the running reply have been shown. Nothing: waits for its end.
  std::optional<uint32_t> interrupts_after;
  // Forgets all but so many tokens first.
  std::optional<uint32_t> truncate_to;
  std::vector<TokenId> tokens;
};

// Ways to decode that are there to be compared with, and that nobody is offered.
enum class Baseline {
  kAhead,     // a chain that drafts on while it waits (ahead_chain_policy.h)
  kAtServer,  // drafting is left to the server, from the first token to the last
  kAlone,     // nothing is drafted: a draft that has nothing to say would take the time to say so
};

class SimulatedDevice {
 public:
  struct Options {
    SessionOptions session;
    PolicyOptions policy;
    std::optional<Baseline> baseline;                    // in place of the policy
    TimeProfile draft_time = TimeProfile::Constant({});  // by nodes of a batch
    uint32_t draft_workers = 1;
    CostModel::Assumed assumed;
    std::vector<Turn> turns;
    // Without a session attached for so long, a target on the device writes on: a token, and
    // another after every such time. Nothing: there is none.
    std::optional<Duration> alone_time;
    bool server_drafts = false;
    Objective objective = Objective::kTime;
    bool sizes_passes = false;  // whatever the policy, as programs have it
    // Leaves drafting to the server after so many verdicts, takes it back after as many, and so on,
    // whatever the policy. Nothing: as the policy has it.
    std::optional<uint32_t> moves_every;
    bool target_is_here = false;  // in the same process, on the same processor
    uint64_t seed = 0;
  };

  struct Parts {
    const Tokenizer& tokenizer;
    const Drafts& drafts;
    // The device's own target.
    const Text& text;
    const Chooser& chooser;
    // A connection whose device end is to be `listener`.
    std::function<Connection&(Connection::Listener& listener)> dial;
    Journal* journal = nullptr;  // none: nothing is written down
    size_t number = 0;           // in the journal
    // With the target, or with other drafters; none: the drafter has its own.
    Processor* shared = nullptr;
  };

  // Tokens that were shown together.
  struct Arrival {
    MonotonicTime at;
    uint32_t count;
  };

  SimulatedDevice(EventQueue& events, Options options, Parts parts);
  SimulatedDevice(const SimulatedDevice&) = delete;
  SimulatedDevice& operator=(const SimulatedDevice&) = delete;

  void Start();
  // Of every stream, from now on.
  void Read(bool reads);

  // All turns have been answered in full, or the session has ended.
  bool done() const { return done_; }
  const std::optional<absl::Status>& end() const { return end_; }

  MonotonicTime started() const { return started_; }
  // All replies one after another, as they were shown; what was truncated later is still there.
  std::span<const TokenId> shown() const { return shown_; }
  // Where each reply begins in it.
  std::span<const size_t> reply_begins() const { return reply_begins_; }
  // Whether the user may have cut into reply i.
  bool cut_into(size_t i) const {
    return i < options_.turns.size() && options_.turns[i].interrupts_after.has_value();
  }
  std::span<const Arrival> arrivals() const { return arrivals_; }
  const std::string& text() const { return text_; }
  v1::Finish finish() const { return finish_; }  // of the last reply
  const Session& session() const { return *session_; }
  // What a thief would like to have: the session's name, and every token for a Resume it was given.
  const std::string& session_name() const { return session_name_; }
  std::span<const std::string> resume_tokens() const { return resume_tokens_; }
  // Since it first said something on the stream it is attached to; zero when it has not.
  Duration spoken_for() const {
    return attached_ && spoken_at_ ? events_.now() - *spoken_at_ : Duration::zero();
  }
  uint32_t written_alone() const { return written_alone_; }  // tokens
  uint32_t dial_count() const { return static_cast<uint32_t>(streams_.size()); }
  uint64_t batch_count() const { return batch_count_; }
  uint64_t bytes_up() const;
  uint64_t bytes_down() const;

 private:
  // A stream's end here.
  struct Stream final : Connection::Listener {
    void OnBytes(std::string_view bytes) override;
    void OnRoom() override;
    void OnEnd() override;

    SimulatedDevice* device = nullptr;
    Session::StreamNumber number = 0;
    Connection* connection = nullptr;
    FrameReader frames;
    absl::Status status = absl::UnavailableError("the link is broken");
    bool reads = true;
  };

  void Tell(const Session::Event& event);
  void Do(const Session::OpenStream& action);
  void Do(const Session::Send& action);
  void Do(const Session::CloseStream& action);
  void Do(const Session::Draft& action);
  void Do(const Session::CancelDraft& action);
  void Do(const Session::Commit& action);
  void Do(const Session::Progress&) {}
  void Do(const Session::SetTimer& action);
  void Do(const Session::Report& action);
  void Do(const Session::End& action);

  Stream& Find(Session::StreamNumber number);
  void Note(Journal::Kind kind, Duration length, size_t count, std::string what);
  void DraftNext();
  void LookAt(Session::StreamNumber stream, const v1::ServerMessage& message);
  void LoseAttachment();
  void WriteAlone();
  void Follow(std::span<const TokenId> committed, size_t reply_begin);
  void TakeTurn();

  EventQueue& events_;
  const Options options_;
  const Parts parts_;
  const std::unique_ptr<Controller> controller_;
  CostModel costs_;
  Draw draw_;
  std::unique_ptr<Session> session_;
  std::vector<Session::Action> actions_;
  std::vector<std::unique_ptr<Stream>> streams_;
  bool reads_ = true;

  // The drafter: batches are begun in the order in which they were asked for.
  struct Batch {
    uint64_t number;
    size_t node_count;
    Proposals proposals = {};
    absl::Status status = {};
  };
  SyntheticDrafter drafter_;
  TokenHistory history_;       // what it has read
  std::deque<Batch> batches_;  // that wait for a worker
  uint32_t idle_workers_ = options_.draft_workers;
  uint64_t batch_count_ = 0;

  uint64_t timer_ = 0;  // the newest; older ones have been replaced

  // Writing alone.
  std::optional<Session::StreamNumber> attached_;
  std::optional<MonotonicTime> spoken_at_;  // on the stream it is attached to
  uint32_t written_alone_ = 0;
  uint64_t alone_ = 0;  // counts attachments and their ends
  std::string session_name_;
  std::vector<std::string> resume_tokens_;

  // The user.
  MonotonicTime started_{};
  size_t turn_ = 0;
  uint32_t reply_shown_ = 0;  // tokens of the running reply
  bool turn_due_ = false;
  bool done_ = false;
  std::optional<absl::Status> end_;
  size_t reply_begin_ = 0;  // among committed tokens
  std::vector<TokenId> shown_;
  std::vector<size_t> reply_begins_;
  std::vector<Arrival> arrivals_;
  std::string text_;
  v1::Finish finish_ = v1::FINISH_NONE;
};

}  // namespace outrider
