// Any sequence of events against a device's session: a verifier that says anything, streams that
// come and go, a user who changes his mind.
//
// The first two bytes choose settings and policy; then each event is a byte for its kind (and whether more wait
// behind it) and some for what it says. A verifier that only lies is soon left, so many of its messages are what an
// honest one could say, but for what the bytes spoil. Laws, besides what the machine checks of itself: one stream at a
// time, one write, no more batches than allowed, none while more wait; nothing after the end; what is committed stays,
// unless the user takes it back.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "bench/simulator/world/moving_controller.h"
#include "client/session/session.h"
#include "common/base/check.h"
#include "common/speculation/control/controllers.h"
#include "common/verification/verdict_message.h"
#include "tests/text/small_specs.h"
#include "tests/tokens/grown_nodes.h"

namespace outrider {
namespace {

constexpr uint32_t kLengthMax = 64;
constexpr uint32_t kNodesMax = 16;

const Tokenizer& TheTokenizer() {
  static const Tokenizer& tokenizer = *[] {
    auto made = Tokenizer::Create(SmallByteLevel());
    OUTRIDER_CHECK_OK(made.status());
    return made->release();
  }();
  return tokenizer;
}

// The input, used up from the front; zeros follow its end.
class Bytes {
 public:
  explicit Bytes(std::span<const uint8_t> bytes) : bytes_(bytes) {}

  bool empty() const { return bytes_.empty(); }
  uint8_t Next() {
    if (bytes_.empty()) return 0;
    const uint8_t byte = bytes_.front();
    bytes_ = bytes_.subspan(1);
    return byte;
  }
  // Mostly small, sometimes anything.
  uint32_t Number() {
    const uint8_t byte = Next();
    return byte < 250 ? byte % 32 : byte * 0x01010101u;
  }
  std::string Text(size_t length) {
    std::string text;
    while (text.size() < length) text.push_back(static_cast<char>(Next()));
    return text;
  }

 private:
  std::span<const uint8_t> bytes_;
};

class World {
 public:
  explicit World(Bytes bytes) : bytes_(bytes) {
    const uint8_t setting = bytes_.Next();
    controller_ =
        MakeController({.kind = kPolicyKinds[bytes_.Next() % kPolicyKinds.size()], .gamma = 3}, {});
    server_drafts_ = (setting & 32) != 0;
    growth_follows_ = (setting & 16) != 0;
    if (server_drafts_) {
      controller_ = std::make_unique<MovingController>(std::move(controller_), 1 + (setting >> 6));
    }
    SessionOptions options;
    options.prompt = {'a', 'b', 'c'};
    options.length_max = kLengthMax;
    options.sketch.node_count_max = kNodesMax;
    options.sketch.candidate_count_max = 32;
    if ((setting & 1) != 0) options.stops.strings = {"ab", "b c"};
    if ((setting & 2) != 0) options.stops.max_tokens = 7;
    if ((setting & 4) != 0) options.dry_policy = v1::DRY_POLICY_ALONE;
    options.sketch.batch_count_max = batch_count_max_ = 1 + (setting >> 3) % 3;
    auto session = Session::Create(options, {TheTokenizer(), *controller_, costs_,
                                             [this] { return uint64_t{bytes_.Next()} << 56; }});
    OUTRIDER_CHECK_OK(session.status());
    session_ = *std::move(session);
  }

  void Run() {
    Handle(Session::Start{});
    while (!bytes_.empty()) Event();
  }

 private:
  void Event() {
    now_ += std::chrono::milliseconds(bytes_.Next());
    const uint8_t kind = bytes_.Next();
    more_follow_ = kind >= 192;
    switch (kind % 16) {
      case 0:
        return Handle(Session::Start{});
      case 1:
      case 2:
      case 3:
        return HonestVerdict();
      case 4:
        return HonestAnswer();
      case 5: {  // frames
        v1::ServerMessage message;
        if (message.ParseFromString(bytes_.Text(bytes_.Next()))) Receive(message);
        return;
      }
      case 6:
        return SayAnything();
      case 7:
      case 8:
        written_ = false;
        return Handle(Session::Written{Stream()});
      case 9: {
        const auto code = static_cast<absl::StatusCode>(bytes_.Next() % 17);
        if (const uint64_t stream = Stream(); stream_ == stream) stream_.reset();
        return Handle(Session::StreamDown{downed_, absl::Status(code, "down")});
      }
      case 10:
      case 11:
        return Draft();
      case 12:
        now_ += std::chrono::seconds(bytes_.Next());
        return Handle(Session::TimerFired{});
      case 13: {
        const auto tokens = Tokens(bytes_.Next() % 8);
        may_shrink_ = true;
        return Handle(Session::UserAppend{tokens});
      }
      case 14:
        may_shrink_ = true;
        return Handle(Session::UserTruncate{bytes_.Number()});
      case 15: {
        if (bytes_.Next() % 8 == 0) return Handle(Session::UserClose{});
        const auto tokens = Tokens(bytes_.Next() % 8);
        return Handle(Session::WroteAlone{tokens, Finish()});
      }
    }
  }

  // Mostly the current one.
  uint64_t Stream() {
    const uint8_t byte = bytes_.Next();
    downed_ = byte < 240 ? stream_.value_or(0) : byte;
    return downed_;
  }

  v1::Finish Finish() {
    const uint8_t byte = bytes_.Next();
    return static_cast<v1::Finish>(byte < 200 ? 0 : byte % 5);
  }

  std::vector<TokenId> Tokens(size_t count) {
    std::vector<TokenId> tokens;
    while (tokens.size() < count) tokens.push_back(static_cast<TokenId>(bytes_.Number()) + 80);
    return tokens;
  }

  void Receive(const v1::ServerMessage& message) {
    const uint64_t stream = stream_.value_or(0);
    Handle(Session::Received{stream, message});
  }

  // Of the nodes that were sent, the path down to one.
  void HonestVerdict() {
    v1::ServerMessage message;
    v1::Verdict& verdict = *message.mutable_verdict();
    std::vector<TokenId> tokens(session_->committed().begin(), session_->committed().end());
    uint32_t leaf = 0;
    if (server_drafts_ && bytes_.Next() % 2 == 0) {
      for (const TokenId token : Tokens(bytes_.Next() % 5)) {
        tokens.push_back(token);
        verdict.add_path(static_cast<uint32_t>(token));
      }
    } else if (!sent_.empty()) {
      leaf = bytes_.Next() % (static_cast<uint32_t>(sent_.size()) + 1);
      AddPath(leaf, tokens);
    }
    const auto next = static_cast<TokenId>(80 + bytes_.Number());
    tokens.push_back(next);
    verdict.set_seen(static_cast<uint32_t>(sent_.size()));
    SetLeaf(leaf, verdict);
    verdict.set_next(static_cast<uint32_t>(next));
    verdict.set_edits(edits_ - edits_told_);
    verdict.set_pass_us(bytes_.Number());
    verdict.set_since_seen_us(bytes_.Number());
    TokenHistory history({.vocabulary_size = TheTokenizer().vocabulary_size(), .capacity = 256});
    verdict.set_hash(history.Append(tokens).ok() ? VerdictHash(history.hash()) : 0);
    verdict.set_finish(Finish());
    switch (bytes_.Next()) {
      case 255:
        verdict.set_seen(bytes_.Number());
        break;
      case 254:
        verdict.set_leaf_back(bytes_.Number());
        break;
      case 253:
        verdict.set_hash(bytes_.Number());
        break;
      case 252:
        verdict.set_edits(bytes_.Number());
        break;
      case 251:
        verdict.set_nodes(bytes_.Number());
        break;
      case 250:
        verdict.set_next(bytes_.Number());
        break;
      case 249:
        verdict.add_path(bytes_.Number());
        break;
      default:
        break;
    }
    const size_t before = session_->stats().passes;
    Receive(message);
    if (session_->stats().passes > before) ++verdicts_;
    edits_told_ = edits_;
  }

  void AddPath(uint32_t leaf, std::vector<TokenId>& tokens) const {
    std::vector<TokenId> path;
    for (uint32_t id = leaf; id > 0; id = sent_[id - 1].parent) path.push_back(sent_[id - 1].token);
    tokens.insert(tokens.end(), path.rbegin(), path.rend());
  }

  void HonestAnswer() {
    v1::ServerMessage message;
    const auto committed = session_->committed();
    if (asked_resume_) {
      v1::Resumed& resumed = *message.mutable_resumed();
      resumed.set_token("token");
      // Behind, level, or ahead.
      const uint32_t back = bytes_.Next() % 4;
      const size_t kept = std::max<size_t>(
          asked_length_, committed.size() - std::min<size_t>(back, committed.size()));
      std::vector<TokenId> tokens(
          committed.begin(),
          committed.begin() + static_cast<ptrdiff_t>(std::min(kept, committed.size())));
      for (const TokenId token : Tokens(bytes_.Next() % 3)) tokens.push_back(token);
      for (size_t i = asked_length_; i < tokens.size(); ++i)
        resumed.add_tokens(static_cast<uint32_t>(tokens[i]));
      TokenHistory history({.vocabulary_size = TheTokenizer().vocabulary_size(), .capacity = 256});
      const bool known = history.Append(tokens).ok();
      resumed.set_length(static_cast<uint32_t>(tokens.size()));
      resumed.set_hash(known && bytes_.Next() < 250 ? history.hash() : 0);
      resumed.set_verdict(verdicts_);
      resumed.set_edits(bytes_.Next() < 200 ? edits_ : bytes_.Number());
      edits_ = edits_told_ = resumed.edits();
      resumed.set_finish(Finish());
    } else {
      v1::Opened& opened = *message.mutable_opened();
      opened.set_session("name");
      opened.set_token("token");
      opened.set_pass_nodes(bytes_.Number() + 1);
      opened.set_sketch_nodes_max(bytes_.Number() + 1);
      opened.set_length_max(bytes_.Number() * 4);
      opened.set_numerics_id(bytes_.Text(1));
      for (const TokenId token : Tokens(bytes_.Next() % 4))
        opened.add_tokens(static_cast<uint32_t>(token));
      opened.set_finish(Finish());
      verdicts_ = bytes_.Number();
      opened.set_verdict(verdicts_);
      opened.set_drafts(server_drafts_);
      opened.set_growth_follows(growth_follows_);
      edits_ = edits_told_ = 0;
    }
    sent_.clear();
    told_.Clear();
    Receive(message);
  }

  void SayAnything() {
    v1::ServerMessage message;
    switch (bytes_.Next() % 4) {
      case 0: {
        v1::Hint& hint = *message.mutable_hint();
        hint.set_verdict(verdicts_ + 1);
        hint.set_leaf(bytes_.Number());
        hint.set_next(80 + bytes_.Number());
        hint.set_probability(bytes_.Next());
        break;
      }
      case 1:
        message.mutable_fault()->set_kind(static_cast<v1::Fault::Kind>(bytes_.Next() % 11));
        message.mutable_fault()->set_retry_ms(bytes_.Number());
        break;
      case 2:
        message.mutable_progress()->set_total(bytes_.Number());
        break;
      case 3:
        message.mutable_draining()->set_deadline_ms(bytes_.Number());
        break;
    }
    Receive(message);
  }

  // The oldest batch is answered, sometimes though it was cancelled.
  void Draft() {
    if (batches_.empty()) return;
    const Batch asked = batches_.front();
    batches_.erase(batches_.begin());
    const uint64_t batch = asked.number;
    const std::vector<Drafter::Context>& contexts = asked.contexts;
    if (bytes_.Next() > 250) {
      return Handle(Session::Drafted{batch, {}, absl::InternalError(bytes_.Text(1))});
    }
    std::vector<std::vector<Proposal>> lists(contexts.size());
    for (size_t i = 0; i < lists.size(); ++i) {
      for (uint32_t n = bytes_.Next() % (contexts[i].child_count + 1); n > 0; --n) {
        lists[i].push_back(
            {static_cast<TokenId>(80 + bytes_.Number() % 64), bytes_.Next() / 255.0});
      }
    }
    const std::vector<std::span<const Proposal>> children(lists.begin(), lists.end());
    Handle(Session::Drafted{batch, children, absl::OkStatus()});
  }

  void Handle(const Session::Event& event) {
    const std::vector<TokenId> before(session_->committed().begin(), session_->committed().end());
    actions_.clear();
    session_->Handle(event, now_, actions_, more_follow_);
    const auto after = session_->committed();
    OUTRIDER_CHECK(std::exchange(may_shrink_, false) ||
                       (after.size() >= before.size() &&
                        std::equal(before.begin(), before.end(), after.begin())),
                   "what is committed stays");
    for (const Session::Action& action : actions_) {
      OUTRIDER_CHECK(!ended_, "nothing follows the end");
      std::visit([this](const auto& which) { Do(which); }, action);
    }
  }

  void Do(const Session::OpenStream& action) {
    OUTRIDER_CHECK(!stream_, "one stream at a time");
    stream_ = action.stream;
    written_ = false;
  }
  void Do(const Session::Send& action) {
    OUTRIDER_CHECK(stream_ == action.stream && !written_, "one write at a time");
    written_ = true;
    const v1::ClientMessage& message = *action.message;
    if (message.has_open()) asked_resume_ = false;
    if (message.has_resume()) {
      asked_resume_ = true;
      asked_length_ = message.resume().length();
    }
    if (message.has_append() || message.has_truncate()) {
      ++edits_;
      sent_.clear();
      told_.Clear();
    }
    if (message.has_grow()) Follow(message.grow());
  }
  void Follow(const v1::Grow& grow) {
    const std::vector<GrownNode> nodes = NodesOf(grow.nodes(), told_);
    OUTRIDER_CHECK(nodes.size() <= kNodesMax, "growth fits the sketch");
    uint32_t parent = 0;
    const auto next_id = static_cast<uint32_t>(sent_.size()) + 1;
    OUTRIDER_CHECK(nodes.empty() || grow.first_id() == (growth_follows_ ? 0 : next_id),
                   "ids on the wire rise without gaps, so they may be left out");
    for (uint32_t id = next_id; const GrownNode& node : nodes) {
      parent = ParentAfter(parent, node.step, id);
      sent_.push_back({static_cast<TokenId>(node.token), parent});
      ++id;
    }
  }
  void Do(const Session::CloseStream& action) {
    OUTRIDER_CHECK(stream_ == action.stream, "what is closed was open");
    stream_.reset();
  }
  void Do(const Session::Draft& action) {
    OUTRIDER_CHECK(!more_follow_, "nothing is drafted while more events wait");
    const auto in_flight = std::ranges::count(batches_, false, &Batch::is_cancelled);
    OUTRIDER_CHECK(in_flight < batch_count_max_ && !action.contexts.empty(),
                   "no more batches than were allowed");
    OUTRIDER_CHECK(action.nodes.size() <= kNodesMax, "a sketch is bounded");
    batches_.push_back({action.batch, {action.contexts.begin(), action.contexts.end()}});
  }
  void Do(const Session::CancelDraft& action) {
    const auto batch = std::ranges::find(batches_, action.batch, &Batch::number);
    OUTRIDER_CHECK(batch != batches_.end() && !batch->is_cancelled,
                   "what is cancelled is in flight");
    batch->is_cancelled = true;
    if (bytes_.Next() % 2 == 0) batches_.erase(batch);
  }
  void Do(const Session::Commit& action) {
    OUTRIDER_CHECK(action.tokens.size() <= session_->committed().size(), "they are committed");
  }
  void Do(const Session::Progress&) {}
  void Do(const Session::SetTimer&) {}
  void Do(const Session::Report&) {}
  void Do(const Session::End&) { ended_ = true; }

  struct SentNode {
    TokenId token;
    uint32_t parent;
  };

  Bytes bytes_;
  std::unique_ptr<Controller> controller_;
  bool server_drafts_ = false;
  bool growth_follows_ = false;
  CostModel costs_;
  std::unique_ptr<Session> session_;
  std::vector<Session::Action> actions_;
  MonotonicTime now_ = {};
  std::optional<uint64_t> stream_;
  uint64_t downed_ = 0;
  bool written_ = false;
  bool ended_ = false;
  bool may_shrink_ = false;
  bool more_follow_ = false;  // the event at hand
  struct Batch {
    uint64_t number;
    std::vector<Drafter::Context> contexts;
    bool is_cancelled = false;
  };
  std::vector<Batch> batches_;  // the drafter's, in order
  int64_t batch_count_max_ = 1;
  std::vector<SentNode> sent_;  // of this epoch; ids count from 1
  ToldTokens told_;
  bool asked_resume_ = false;
  size_t asked_length_ = 0;
  uint32_t verdicts_ = 0;
  uint32_t edits_ = 0;
  uint32_t edits_told_ = 0;  // as of the newest verdict
};

}  // namespace
}  // namespace outrider

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  outrider::World(outrider::Bytes({data, size})).Run();
  return 0;
}
