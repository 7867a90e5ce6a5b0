// The verifier machine: whatever devices, links and targets do, in whatever order, its parts agree
// with one another, nothing in it grows without bound, and the target is asked for nothing but what
// the committed tokens allow (the scripted target stops the process otherwise).
//
// The input is read as a list of events. Messages are made of the numbers in it, so that most of
// them mean something; some are bytes as they stand.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "common/base/check.h"
#include "tests/fuzz/device_messages.h"
#include "tests/verification/verifier_world.h"

namespace outrider {
namespace {

class Fuzz {
 public:
  Fuzz(const uint8_t* data, size_t size) : input_(data, size), world_(CrampedConfig()) {
    world_.writes_at_once = false;
  }

  void Run() {
    while (!input_.empty()) {
      Step();
      ForgetNews();
      OUTRIDER_CHECK(streams_.size() <= CrampedConfig().stream_count_max, "streams are bounded");
    }
  }

 private:
  void Step() {
    switch (input_.Below(16)) {
      case 0:
        streams_.push_back(world_.Connect(input_.Flip() ? "a" : "b"));
        break;
      case 1:  // what streams mostly begin with
        streams_.push_back(world_.Connect(input_.Flip() ? "a" : "b"));
        if (world_.line(streams_.back()).can_send) world_.Send(streams_.back(), messages_.First());
        break;
      case 2:
        if (const auto stream = AnyStream()) CloseStream(*stream);
        break;
      case 3:
        world_.Pass(std::chrono::milliseconds(1) * (1u << input_.Below(21)));
        break;
      case 4:
        if (input_.Below(32) != 0) break;
        world_.Tell(VerifierMachine::Drain{world_.clock().Now() +
                                           std::chrono::milliseconds(input_.Number())});
        break;
      case 5:
        if (input_.Flip()) {
          Hint();
        } else {
          Draft();
        }
        break;
      case 6:
        world_.target().fails_next_pass = input_.Below(16) == 0;
        break;
      case 7:
      case 8:
        world_.Run();
        break;
      case 9:
      case 10:
        if (const auto stream = AnyStream(); stream && world_.line(*stream).writing) {
          world_.Write(*stream);
        }
        break;
      default:
        if (const auto stream = AnyStream(); stream && world_.line(*stream).can_send) {
          world_.Send(*stream, messages_.Next());
        }
        break;
    }
  }

  std::optional<VerifierWorld::StreamNumber> AnyStream() {
    if (streams_.empty()) return std::nullopt;
    return streams_[input_.Below(static_cast<uint32_t>(streams_.size()))];
  }

  void CloseStream(VerifierWorld::StreamNumber stream) {
    world_.Close(stream);
    std::erase(streams_, stream);
    world_.Forget(stream);
  }

  void Hint() {
    if (world_.run() == nullptr || world_.run()->works.empty()) return;
    const auto& works = world_.run()->works;
    const TargetWork& work = works[input_.Below(static_cast<uint32_t>(works.size()))];
    const uint32_t node = input_.Below(static_cast<uint32_t>(work.nodes.size()) + 1);
    const Outcome outcome = {node == work.nodes.size() ? DraftedNode::kRoot : node, 'x'};
    world_.Tell(VerifierMachine::HintFound{work.session, 0, outcome, input_.Byte() / 200.0});
  }

  void Draft() {
    if (world_.drafts.empty()) return;
    const auto asked =
        world_.drafts.begin() +
        input_.Below(static_cast<uint32_t>(std::min<size_t>(8, world_.drafts.size())));
    const DraftJob job = std::move(*asked);
    world_.drafts.erase(asked);
    std::vector<TokenId>& told = world_.told[job.session];
    OUTRIDER_CHECK(job.known_count <= told.size(), "a draft is told all tokens there are");
    OUTRIDER_CHECK(job.chooser.has_value() == (job.known_count == 0 && told.empty()),
                   "and once how they are chosen");
    told.resize(job.known_count);
    told.insert(told.end(), job.tokens.begin(), job.tokens.end());
    std::vector<TokenId> chain;
    for (uint32_t i = input_.Below(job.token_count_max + 1); i > 0; --i) {
      chain.push_back(input_.Flip() ? ScriptedNext(told, chain) : 'a');
    }
    world_.Tell(
        VerifierMachine::Drafted{job.session, chain, std::chrono::milliseconds(input_.Below(64))});
  }

  // What the device learns, and streams that have been ended.
  void ForgetNews() {
    for (const auto stream : std::vector(streams_)) {
      for (const v1::ServerMessage& message : world_.News(stream)) {
        messages_.Hear(message);
      }
      if (world_.line(stream).ended) CloseStream(stream);
    }
  }

  Input input_;
  DeviceMessages messages_{input_};
  VerifierWorld world_;
  std::vector<VerifierWorld::StreamNumber> streams_;
};

}  // namespace
}  // namespace outrider

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  outrider::Fuzz(data, size).Run();
  return 0;
}
