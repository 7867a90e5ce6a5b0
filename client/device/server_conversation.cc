#include "client/device/server_conversation.h"

#include <utility>
#include <vector>

#include "client/device/reply_times.h"
#include "common/base/status.h"
#include "common/verification/wire_options.h"
#include "common/verification/wire_padding.h"
#include "common/verification/wire_prompt.h"

namespace outrider {

// What comes of one reply.
class ServerConversation::Incoming {
 public:
  Incoming(const StopConditions& stops, std::span<const TokenId> before, Observer& observer)
      : reply_(stops, before), observer_(observer) {}

  // Whether it is to go on.
  bool Take(const v1::GenerateResponse& response) {
    if (response.has_progress()) {
      read_ = response.progress().processed();
      observer_.OnPromptProgress(read_, response.progress().total());
      return !observer_.Interrupted();
    }
    std::vector<TokenId> tokens;
    for (const uint32_t token : response.tokens()) tokens.push_back(static_cast<TokenId>(token));
    written_.insert(written_.end(), tokens.begin(), tokens.end());
    times_.Came(tokens.size());
    if (!tokens.empty()) {
      ++passes_;
      observer_.OnTokens(tokens);
    }
    if (const std::string text = reply_.Take(tokens).text; !text.empty()) observer_.OnText(text);
    finish_ = response.finish();
    return !observer_.Interrupted();
  }

  // What was withheld, because it might have become a stop.
  void ShowRest() {
    if (reply_.finish()) return;
    if (const std::string text = reply_.Abandon(); !text.empty()) observer_.OnText(text);
  }

  void AddTo(ConversationStats& stats) const {
    stats.computed_tokens += read_;
    stats.passes += passes_;
    times_.AddTo(stats);
  }

  std::span<const TokenId> written() const { return written_; }
  Ending ending() const {
    return finish_ == v1::FINISH_NONE     ? Ending::kInterrupted
           : finish_ == v1::FINISH_LENGTH ? Ending::kContextFull
                                          : Ending::kComplete;
  }

 private:
  Reply reply_;
  Observer& observer_;
  ReplyTimes times_;
  std::vector<TokenId> written_;
  uint32_t read_ = 0;
  uint64_t passes_ = 0;
  v1::Finish finish_ = v1::FINISH_NONE;
};

ServerConversation::ServerConversation(Options options, std::unique_ptr<RemoteVerifier> verifier,
                                       StopConditions stops)
    : options_(std::move(options)), verifier_(std::move(verifier)), stops_(std::move(stops)) {
  stats_.placement = options_.draft ? Placement::kServer : Placement::kTargetAlone;
}

v1::GenerateRequest ServerConversation::RequestFor(std::span<const TokenId> tokens,
                                                   bool is_reply) const {
  v1::GenerateRequest request;
  request.set_draft(options_.draft);
  v1::Open& open = *request.mutable_open();
  SetPrompt(tokens, open);
  ToWire(options_.sampling, *open.mutable_sampling());
  ToWire(options_.stops, *open.mutable_stops());
  open.mutable_stops()->set_continues_text(!is_reply);
  open.set_tokenizer_fingerprint(options_.tokenizer_fingerprint);
  open.set_length_max(options_.context_length);
  open.set_frame_bytes(options_.frame_bytes);
  PadTo(options_.frame_bytes, request);
  return request;
}

absl::StatusOr<Ending> ServerConversation::Continue(std::span<const TokenId> tokens, bool is_reply,
                                                    Observer& observer) {
  Incoming incoming(stops_, is_reply ? std::span<const TokenId>() : tokens, observer);
  const absl::Status status = verifier_->Generate(
      RequestFor(tokens, is_reply),
      [&](const v1::GenerateResponse& response) { return incoming.Take(response); });
  incoming.ShowRest();
  incoming.AddTo(stats_);
  stats_.prompt_tokens += tokens.size();
  std::vector<TokenId> text(tokens.begin(), tokens.end());
  text.insert(text.end(), incoming.written().begin(), incoming.written().end());
  SetTokens(text);
  OUTRIDER_RETURN_IF_ERROR(status);
  return incoming.ending();
}

}  // namespace outrider
