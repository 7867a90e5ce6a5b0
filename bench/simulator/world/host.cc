#include "bench/simulator/world/host.h"

#include <algorithm>
#include <utility>
#include <variant>
#include <vector>

#include "bench/simulator/sources/synthetic_drafter.h"
#include "common/base/check.h"
#include "common/base/status.h"

namespace outrider {

Host::Host(EventQueue& events, Options options, Parts parts)
    : events_(events),
      options_(std::move(options)),
      parts_(parts),
      draw_(options_.seed),
      target_processor_(events),
      draft_processor_(events) {
  Begin();
}

void Host::Begin() {
  const VerifierConfig& config = options_.config;
  target_ = std::make_unique<SyntheticTarget>(
      SyntheticTarget::Options{.context_length = config.context_length,
                               .node_count_max = config.pass_nodes_max,
                               .sequence_count_max = config.sequence_count_max},
      parts_.text);
  runner_ = std::make_unique<TargetRunner>(*target_, clock_);
  draft_runner_ = std::make_unique<DraftRunner>(
      [this](const Chooser&) {
        return std::make_unique<SyntheticDrafter>(parts_.drafts(drafting_for_));
      },
      config.context_length);
  target_processor_.Clear();
  draft_processor_.Clear();
  machine_ = std::make_unique<VerifierMachine>(
      config, VerifierMachine::Parts{parts_.tokenizer, [this] { return draw_.Bits(); }});
}

void Host::Restart(Duration down) {
  up_ = false;
  ++life_;
  ++timer_;
  drained_ = false;
  for (const std::unique_ptr<Stream>& stream : streams_) stream->connection->Close(End::kServer);
  Begin();
  Later(down, [this] { up_ = true; });
}

void Host::Drain(Duration grace) {
  Tell(VerifierMachine::Drain{events_.now() + grace});
}

void Host::Accept(Connection& connection, std::string key, size_t device) {
  auto stream = std::make_unique<Stream>();
  stream->host = this;
  stream->life = life_;
  stream->number = streams_.size();
  stream->connection = &connection;
  stream->device = device;
  connection.Attach(End::kServer, *stream);
  const VerifierMachine::StreamNumber number = stream->number;
  streams_.push_back(std::move(stream));
  if (!up_ || drained_) return connection.Close(End::kServer);
  Tell(VerifierMachine::StreamOpened{number, key});
}

// --- a stream's end ---

void Host::Stream::OnBytes(std::string_view bytes) {
  frames.Add(bytes);
  Deliver();
}

void Host::Stream::OnRoom() {
  if (life == host->life_) host->Tell(VerifierMachine::Written{number});
}

void Host::Stream::OnEnd() {
  if (life == host->life_) host->Tell(VerifierMachine::StreamClosed{number});
}

// A message is handed on when one is wanted. While one waits, nothing more is read.
void Host::Stream::Deliver() {
  if (life != host->life_ || !connection->open(End::kServer) || !wanted) return;
  const std::optional<Frame> frame = frames.Next();
  connection->Read(End::kServer, !frame);
  if (!frame) return;
  v1::ClientMessage message;
  OUTRIDER_CHECK(
      message.ParseFromArray(frame->content.data(), static_cast<int>(frame->content.size())),
      "bytes on the link are as they were written");
  wanted = false;
  if (Journal* const journal = host->parts_.journal; journal != nullptr) {
    journal->Received(*connection, End::kDevice, host->events_.now());
  }
  host->Tell(VerifierMachine::Received{number, message});
}

// --- the machine ---

void Host::Tell(const VerifierMachine::Event& event) {
  OUTRIDER_CHECK(actions_.empty(), "actions are carried out before the next event");
  machine_->Handle(event, events_.now(), actions_);
  for (const VerifierMachine::Action& action : actions_) {
    std::visit([this](const auto& which) { Do(which); }, action);
  }
  actions_.clear();
}

void Host::Do(const VerifierMachine::Read& action) {
  Stream& stream = *streams_[action.stream];
  stream.wanted = true;
  Later({}, [&stream] { stream.Deliver(); });
}

void Host::Do(const VerifierMachine::Send& action) {
  const Stream& stream = *streams_[action.stream];
  if (parts_.journal != nullptr && stream.connection->open(End::kServer)) {
    parts_.journal->Sent(*stream.connection, End::kServer,
                         {Journal::Kind::kDown,
                          stream.device,
                          events_.now(),
                          {},
                          0,
                          action.message->ShortDebugString()});
  }
  stream.connection->Write(End::kServer,
                           FrameOf(FrameKind::kMessage, action.message->SerializeAsString()));
}

void Host::Do(const VerifierMachine::EndStream& action) {
  Connection& connection = *streams_[action.stream]->connection;
  connection.Write(End::kServer, FrameOf(action.status));
  connection.Close(End::kServer);
  Later({}, [this, stream = action.stream] { Tell(VerifierMachine::StreamClosed{stream}); });
}

void Host::Do(const VerifierMachine::RunTarget& action) {
  TargetRun& run = *action.run;
  uint64_t prompt_tokens = 0;
  uint64_t rows = 0;
  for (const TargetWork& work : run.works) {
    prompt_tokens += work.prompt.size();
    if (work.has_pass) rows += 1 + work.nodes.size();
  }
  runner_->Execute(run);
  const Duration time = AddExits(run, TimeOf(rows, prompt_tokens));
  if (rows > 0) {
    const double share = static_cast<double>(rows) / static_cast<double>(rows + prompt_tokens);
    run.pass_time = Scaled(time, share);
  }
  run.prompt_time = time - run.pass_time;
  busy_ += time;
  if (rows > 0) ++runs_;
  const MonotonicTime end =
      (parts_.shared == nullptr ? target_processor_ : *parts_.shared).Take(time);
  for (const TargetWork& work : run.works) {
    if (work.has_pass) CountPass(work, end);
  }
  if (parts_.journal != nullptr && rows > 0) {
    parts_.journal->Add(
        {Journal::Kind::kRun, run.works.size(), end - time, end, static_cast<uint32_t>(rows), {}});
  }
  CountParts(run, rows, prompt_tokens, end);
  FindHints(run, end - time, time);
  Later(end - events_.now(), [this] { Tell(VerifierMachine::TargetDone{}); });
}

// What closes and commits alone takes no time.
Duration Host::TimeOf(uint64_t rows, uint64_t prompt_tokens) const {
  if (rows + prompt_tokens == 0) return Duration(0);
  const uint64_t like_rows =
      options_.prompt_token_time ? std::max<uint64_t>(1, rows) : rows + prompt_tokens;
  return Scaled(options_.pass_time.At(static_cast<double>(like_rows)), pass_time_factor_) +
         static_cast<int64_t>(prompt_tokens) * options_.prompt_token_time.value_or(Duration(0));
}

void Host::CountParts(const TargetRun& run, uint64_t rows, uint64_t prompt_tokens,
                      MonotonicTime end) {
  for (const TargetWork& work : run.works) {
    const auto stream = machine_->StreamOf(work.session);
    if (!stream) continue;
    Duration time{};
    if (work.has_pass) time += run.pass_time * (1 + work.nodes.size()) / rows;
    if (!work.prompt.empty()) time += run.prompt_time * work.prompt.size() / prompt_tokens;
    parts_of_runs_.push_back({streams_[*stream]->device, end, time});
  }
}

void Host::CountPass(const TargetWork& work, MonotonicTime end) {
  ++passes_;
  rows_ += 1 + work.nodes.size();
  const auto [before, is_first] = pass_ends_.try_emplace(work.session);
  if (!is_first && before->second == events_.now() && !work.nodes.empty()) ++ready_passes_;
  before->second = end;
}

// What a run takes with the exits that are on, where there is something to guess.
Duration Host::AddExits(TargetRun& run, Duration time) const {
  run.exit_time.assign(parts_.exits.depths().size(), Duration::zero());
  if (std::ranges::none_of(run.works, &TargetWork::is_guessed)) return time;
  Duration together{};
  for (size_t exit = 0; exit < run.exit_time.size(); ++exit) {
    if (!run.exits_on[exit]) continue;
    together += run.exit_time[exit] = Scaled(time, options_.exit_share);
  }
  return time + together;
}

// All rows of a run go through a layer together.
void Host::FindHints(const TargetRun& run, MonotonicTime begin, Duration time) {
  const std::span<const double> depths = parts_.exits.depths();
  for (const TargetWork& work : run.works) {
    if (!work.has_pass || !work.is_guessed || !work.status.ok()) continue;
    for (uint32_t exit = 0; exit < depths.size(); ++exit) {
      if (!run.exits_on[exit]) continue;
      const Exits::Hint hint =
          parts_.exits.Guess(exit, RootOf(*work.history), work.nodes, work.outcome);
      const MonotonicTime at = begin + Scaled(time, depths[exit]);
      Later(at - events_.now(), [this, exit, hint, session = work.session] {
        Tell(VerifierMachine::HintFound{session, exit, hint.outcome, hint.probability,
                                        hint.largest_softmax});
      });
    }
  }
}

void Host::Do(const VerifierMachine::Draft& action) {
  // Whoever has gone by now has a drafter, or will not miss one of its own.
  if (const auto stream = machine_->StreamOf(action.job.session)) {
    drafting_for_ = streams_[*stream]->device;
  }
  const auto chain = draft_runner_->Execute(action.job);
  const Duration time = static_cast<int64_t>(chain.size()) * *options_.draft_token_time;
  const MonotonicTime end =
      (parts_.shared == nullptr ? draft_processor_ : *parts_.shared).Take(time);
  Later(end - events_.now(), [this, time, session = action.job.session,
                              drafted = std::vector(chain.begin(), chain.end())] {
    Tell(VerifierMachine::Drafted{session, drafted, time});
  });
}

void Host::Do(const VerifierMachine::SetTimer& action) {
  events_.At(action.at, [this, timer = ++timer_] {
    if (timer == timer_) Tell(VerifierMachine::TimerFired{});
  });
}

}  // namespace outrider
