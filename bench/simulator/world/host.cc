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
    : events_(events), options_(std::move(options)), parts_(parts), draw_(options_.seed) {
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
  draft_free_at_ = {};
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
  run.prompt_time = static_cast<int64_t>(prompt_tokens) * options_.prompt_token_time;
  run.pass_time = rows == 0
                      ? Duration(0)
                      : Scaled(options_.pass_time.At(static_cast<double>(rows)), pass_time_factor_);
  const Duration time = run.prompt_time + run.pass_time;
  busy_ += time;
  for (const TargetWork& work : run.works) {
    if (work.has_pass) CountPass(work, events_.now() + time);
  }
  if (parts_.journal != nullptr && rows > 0) {
    parts_.journal->Add({Journal::Kind::kRun,
                         run.works.size(),
                         events_.now(),
                         events_.now() + time,
                         static_cast<uint32_t>(rows),
                         {}});
  }
  CountParts(run, rows, prompt_tokens);
  FindHints(run, run.prompt_time, run.pass_time);
  Later(time, [this] { Tell(VerifierMachine::TargetDone{}); });
}

void Host::CountParts(const TargetRun& run, uint64_t rows, uint64_t prompt_tokens) {
  const MonotonicTime end = events_.now() + run.prompt_time + run.pass_time;
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

void Host::FindHints(const TargetRun& run, Duration before_passes, Duration passes) {
  const std::span<const double> depths = parts_.exits.depths();
  for (const TargetWork& work : run.works) {
    if (!work.has_pass || !work.status.ok()) continue;
    for (uint32_t exit = 0; exit < depths.size(); ++exit) {
      const Exits::Hint hint =
          parts_.exits.Guess(exit, RootOf(*work.history), work.nodes, work.outcome);
      const Duration into_pass(
          static_cast<int64_t>(depths[exit] * static_cast<double>(passes.count())));
      Later(before_passes + into_pass, [this, exit, hint, session = work.session] {
        Tell(VerifierMachine::HintFound{session, exit, hint.outcome, hint.probability});
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
  draft_free_at_ = std::max(draft_free_at_, events_.now()) +
                   static_cast<int64_t>(chain.size()) * *options_.draft_token_time;
  Later(draft_free_at_ - events_.now(),
        [this, session = action.job.session, drafted = std::vector(chain.begin(), chain.end())] {
          Tell(VerifierMachine::Drafted{session, drafted});
        });
}

void Host::Do(const VerifierMachine::SetTimer& action) {
  events_.At(action.at, [this, timer = ++timer_] {
    if (timer == timer_) Tell(VerifierMachine::TimerFired{});
  });
}

}  // namespace outrider
