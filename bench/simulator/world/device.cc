#include "bench/simulator/world/device.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "bench/simulator/world/ahead_chain_policy.h"
#include "bench/simulator/world/moving_controller.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/speculation/control/fixed_controller.h"
#include "common/speculation/policies/resting_policy.h"
#include "common/tokens/growth_bits.h"

namespace outrider {

namespace {

// A policy that is named has passes of the size that the scenario says, so that policies can be
// compared, or as in programs.
std::unique_ptr<Controller> StayingController(const SimulatedDevice::Options& options) {
  const Placement here = options.target_is_here ? Placement::kLocal : Placement::kSplit;
  if (options.baseline == Baseline::kAtServer) {
    return std::make_unique<FixedController>(std::make_unique<RestingPolicy>(), Placement::kServer);
  }
  if (options.baseline == Baseline::kAlone) {
    return std::make_unique<FixedController>(std::make_unique<RestingPolicy>(),
                                             Placement::kTargetAlone);
  }
  if (options.baseline == Baseline::kAhead) {
    return std::make_unique<FixedController>(
        std::make_unique<AheadChainPolicy>(options.policy.gamma), here);
  }
  if (options.policy.kind != PolicyKind::kAuto && !options.sizes_passes) {
    return std::make_unique<FixedController>(MakePolicy(options.policy), here);
  }
  return MakeController(options.policy, {.target_is_here = options.target_is_here,
                                         .shares_cores = options.target_is_here,
                                         .server_drafts = options.server_drafts,
                                         .objective = options.objective});
}

std::unique_ptr<Controller> ControllerOf(const SimulatedDevice::Options& options) {
  auto controller = StayingController(options);
  if (!options.moves_every) return controller;
  return std::make_unique<MovingController>(std::move(controller), *options.moves_every);
}

}  // namespace

SimulatedDevice::SimulatedDevice(EventQueue& events, Options options, Parts parts)
    : events_(events),
      options_(std::move(options)),
      parts_(std::move(parts)),
      controller_(ControllerOf(options_)),
      costs_(options_.assumed),
      draw_(options_.seed),
      drafter_(parts_.drafts),
      history_({.vocabulary_size = parts_.tokenizer.vocabulary_size(),
                .capacity = options_.session.length_max,
                .counts_tokens = options_.session.sampling.penalizes()}) {
  absl::StatusOr<std::unique_ptr<Session>> session = Session::Create(
      options_.session, {parts_.tokenizer, *controller_, costs_, [this] { return draw_.Bits(); }});
  OUTRIDER_CHECK_OK(session.status());
  session_ = *std::move(session);
}

void SimulatedDevice::Start() {
  started_ = events_.now();
  reply_begin_ = session_->committed().size();
  reply_begins_.push_back(0);
  Tell(Session::Start{});
}

void SimulatedDevice::Read(bool reads) {
  reads_ = reads;
  for (const std::unique_ptr<Stream>& stream : streams_) {
    stream->connection->Read(End::kDevice, reads);
  }
}

uint64_t SimulatedDevice::bytes_up() const {
  uint64_t bytes = 0;
  for (const auto& stream : streams_) bytes += stream->connection->bytes_written(End::kDevice);
  return bytes;
}

uint64_t SimulatedDevice::bytes_down() const {
  uint64_t bytes = 0;
  for (const auto& stream : streams_) bytes += stream->connection->bytes_written(End::kServer);
  return bytes;
}

// --- a stream's end ---

void SimulatedDevice::Stream::OnBytes(std::string_view bytes) {
  frames.Add(bytes);
  while (const std::optional<Frame> frame = frames.Next()) {
    if (frame->kind == FrameKind::kStatus) {
      status = StatusIn(*frame);
      continue;
    }
    v1::ServerMessage message;
    OUTRIDER_CHECK(
        message.ParseFromArray(frame->content.data(), static_cast<int>(frame->content.size())),
        "bytes on the link are as they were written");
    if (Journal* const journal = device->parts_.journal; journal != nullptr) {
      journal->Received(*connection, End::kServer, device->events_.now());
    }
    device->LookAt(number, message);
    device->Tell(Session::Received{number, message});
  }
}

void SimulatedDevice::Stream::OnRoom() {
  device->Tell(Session::Written{number});
}

void SimulatedDevice::Stream::OnEnd() {
  if (device->attached_ == number) device->LoseAttachment();
  device->Tell(Session::StreamDown{number, status});
}

// --- the machine ---

void SimulatedDevice::Tell(const Session::Event& event) {
  OUTRIDER_CHECK(actions_.empty(), "actions are carried out before the next event");
  session_->Handle(event, events_.now(), actions_);
  for (const Session::Action& action : actions_) {
    std::visit([this](const auto& which) { Do(which); }, action);
  }
  actions_.clear();
}

void SimulatedDevice::Do(const Session::OpenStream& action) {
  auto stream = std::make_unique<Stream>();
  stream->device = this;
  stream->number = action.stream;
  stream->connection = &parts_.dial(*stream);
  stream->connection->Read(End::kDevice, reads_);
  streams_.push_back(std::move(stream));
  Note(Journal::Kind::kNote, {}, 0, Concat("opens stream ", action.stream));
}

void SimulatedDevice::Do(const Session::Send& action) {
  Connection& connection = *Find(action.stream).connection;
  if (attached_ == action.stream && !spoken_at_) spoken_at_ = events_.now();
  if (parts_.journal != nullptr && connection.open(End::kDevice)) {
    parts_.journal->Sent(connection, End::kDevice,
                         {Journal::Kind::kUp,
                          parts_.number,
                          events_.now(),
                          {},
                          GrowthReader(action.message->grow().nodes()).node_count(),
                          action.message->ShortDebugString()});
  }
  connection.Write(End::kDevice, FrameOf(FrameKind::kMessage, action.message->SerializeAsString()));
}

void SimulatedDevice::Do(const Session::CloseStream& action) {
  Note(Journal::Kind::kNote, {}, 0, Concat("closes stream ", action.stream));
  if (attached_ == action.stream) LoseAttachment();
  Find(action.stream).connection->Close(End::kDevice);
}

void SimulatedDevice::Do(const Session::Draft& action) {
  ++batch_count_;
  Follow(action.committed, action.reply_begin);
  Batch batch = {action.batch, action.contexts.size()};
  batch.status = drafter_.Propose(history_, action.nodes, action.contexts, batch.proposals);
  batches_.push_back(std::move(batch));
  DraftNext();
}

void SimulatedDevice::Do(const Session::CancelDraft& action) {
  const auto batch = std::ranges::find(batches_, action.batch, &Batch::number);
  if (batch != batches_.end()) batches_.erase(batch);
}

void SimulatedDevice::DraftNext() {
  if (batches_.empty() || idle_workers_ == 0) return;
  --idle_workers_;
  Batch batch = std::move(batches_.front());
  batches_.pop_front();
  const size_t node_count = batch.node_count;
  const Duration time = options_.draft_time.At(static_cast<double>(node_count));
  const MonotonicTime end =
      parts_.shared == nullptr ? events_.now() + time : parts_.shared->Take(time);
  if (parts_.journal != nullptr) {
    parts_.journal->Add({Journal::Kind::kDraft,
                         parts_.number,
                         end - time,
                         end,
                         static_cast<uint32_t>(node_count),
                         {}});
  }
  const auto drafted = std::make_shared<const Batch>(std::move(batch));
  events_.At(end, [this, drafted] {
    ++idle_workers_;
    DraftNext();
    Tell(Session::Drafted{drafted->number, drafted->proposals.children(), drafted->status});
  });
}

void SimulatedDevice::Do(const Session::Commit& action) {
  shown_.insert(shown_.end(), action.tokens.begin(), action.tokens.end());
  text_ += action.text;
  reply_shown_ += static_cast<uint32_t>(action.tokens.size());
  if (!action.tokens.empty()) {
    arrivals_.push_back({events_.now(), static_cast<uint32_t>(action.tokens.size())});
    Note(Journal::Kind::kShown, {}, action.tokens.size(), {});
  }
  finish_ = action.finish;
  const bool has_ended = finish_ != v1::FINISH_NONE;
  if (turn_ == options_.turns.size()) {
    if (!has_ended || done_) return;
    done_ = true;
    events_.After({}, [this] { Tell(Session::UserClose{}); });
    return;
  }
  const std::optional<uint32_t> cuts_in = options_.turns[turn_].interrupts_after;
  if (turn_due_ || !(has_ended || (cuts_in && reply_shown_ >= *cuts_in))) return;
  turn_due_ = true;
  events_.After({}, [this] { TakeTurn(); });
}

void SimulatedDevice::Do(const Session::SetTimer& action) {
  events_.At(action.at, [this, timer = ++timer_] {
    if (timer == timer_) Tell(Session::TimerFired{});
  });
}

void SimulatedDevice::Do(const Session::Report& action) {
  Note(Journal::Kind::kNote, {}, 0, Concat("reports: ", Message(action.status)));
}

void SimulatedDevice::Do(const Session::End& action) {
  Note(Journal::Kind::kNote, {}, 0, Concat("ends: ", action.status.ToString()));
  end_ = action.status;
  done_ = true;
}

SimulatedDevice::Stream& SimulatedDevice::Find(Session::StreamNumber number) {
  const auto stream = std::find_if(streams_.rbegin(), streams_.rend(),
                                   [&](const auto& one) { return one->number == number; });
  OUTRIDER_CHECK(stream != streams_.rend(), "a stream that was opened");
  return **stream;
}

void SimulatedDevice::Note(Journal::Kind kind, Duration length, size_t count, std::string what) {
  if (parts_.journal == nullptr) return;
  parts_.journal->Add({kind, parts_.number, events_.now(), events_.now() + length,
                       static_cast<uint32_t>(count), std::move(what)});
}

// Makes history_ what the session has committed, as a drafter's cache follows by itself.
void SimulatedDevice::Follow(std::span<const TokenId> committed, size_t reply_begin) {
  const auto known = history_.tokens();
  const size_t same =
      static_cast<size_t>(std::ranges::mismatch(known, committed).in1 - known.begin());
  // Where the reply begins moves only when tokens before it do.
  const size_t keep = history_.reply_begin() == reply_begin ? same : std::min(same, reply_begin);
  OUTRIDER_CHECK_OK(history_.Truncate(keep));
  if (keep < reply_begin)
    OUTRIDER_CHECK_OK(history_.Append(committed.subspan(keep, reply_begin - keep)));
  if (history_.reply_begin() != reply_begin) history_.StartReply();
  OUTRIDER_CHECK_OK(history_.Append(committed.subspan(history_.size())));
}

// --- a target of its own ---

void SimulatedDevice::LookAt(Session::StreamNumber stream, const v1::ServerMessage& message) {
  if (message.has_opened()) {
    session_name_ = message.opened().session();
    resume_tokens_.push_back(message.opened().token());
  } else if (message.has_resumed()) {
    resume_tokens_.push_back(message.resumed().token());
  } else {
    return;
  }
  attached_ = stream;
  spoken_at_.reset();
  ++alone_;
}

void SimulatedDevice::LoseAttachment() {
  attached_.reset();
  if (!options_.alone_time) return;
  events_.After(*options_.alone_time, [this, alone = ++alone_] {
    if (alone == alone_) WriteAlone();
  });
}

void SimulatedDevice::WriteAlone() {
  if (!session_->replying()) return;
  Follow(session_->committed(), reply_begin_);
  const TokenId token = parts_.text.After(RootOf(history_), parts_.chooser);
  const bool ends =
      options_.session.stops.at_end_of_generation && parts_.tokenizer.IsEndOfGeneration(token);
  const v1::Finish finish = ends ? v1::FINISH_END_TOKEN : v1::FINISH_NONE;
  Note(Journal::Kind::kNote, {}, 1, Concat("writes ", token, " alone"));
  ++written_alone_;
  Tell(Session::WroteAlone{{&token, 1}, finish});
  events_.After(*options_.alone_time, [this, alone = alone_] {
    if (alone == alone_) WriteAlone();
  });
}

// --- the user ---

void SimulatedDevice::TakeTurn() {
  turn_due_ = false;
  if (done_) return;
  const Turn& turn = options_.turns[turn_++];
  reply_shown_ = 0;
  reply_begins_.push_back(shown_.size());
  if (turn.truncate_to) Tell(Session::UserTruncate{*turn.truncate_to});
  reply_begin_ = session_->committed().size() + turn.tokens.size();
  Note(Journal::Kind::kNote, {}, 0, Concat("says ", turn.tokens.size(), " tokens"));
  Tell(Session::UserAppend{turn.tokens});
}

}  // namespace outrider
