// What devices say, made of the numbers in a fuzz target's input: most of it means something to a
// verifier that has said this or that before, and some of it is bytes as they stand.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "common/tokens/growth_bits.h"
#include "common/tokens/token_history.h"
#include "tests/verification/verifier_world.h"

namespace outrider {

// Numbers from the input; zeros when it is used up.
class Input {
 public:
  Input(const uint8_t* data, size_t size) : bytes_(data, size) {}

  bool empty() const { return bytes_.empty(); }
  uint8_t Byte() {
    if (bytes_.empty()) return 0;
    const uint8_t byte = bytes_.front();
    bytes_ = bytes_.subspan(1);
    return byte;
  }
  uint32_t Below(uint32_t count) { return Byte() % count; }
  bool Flip() { return Byte() % 2 == 0; }
  // Mostly small.
  uint32_t Number() {
    const uint8_t byte = Byte();
    return byte < 250 ? byte : uint32_t{byte} * 0x01010101;
  }
  std::string Bytes(size_t count) {
    count = std::min(count, bytes_.size());
    const std::string text(bytes_.begin(), bytes_.begin() + static_cast<ptrdiff_t>(count));
    bytes_ = bytes_.subspan(count);
    return text;
  }

 private:
  std::span<const uint8_t> bytes_;
};

// Small enough for everything to run out.
inline VerifierConfig CrampedConfig() {
  VerifierConfig config = SmallConfig();
  config.context_length = 64;
  config.page_groups = {{.page_count = 2 * 3}};  // two whole contexts, or three that share
  config.sequence_count_max = 3;
  config.session_count_max = 5;
  config.session_count_of_key_max = 3;
  config.stream_count_max = 6;
  config.sketch_nodes_max = 12;
  config.exit_depths = {500};
  config.unseen_verdicts_first = 2;
  config.unseen_verdicts_max = 6;
  config.pass_nodes_max = 7;
  config.unread_verdicts_max = 2;
  config.drafts = true;
  config.scheduler = {.row_count_max = 10, .run_row_count_max = 12, .prompt_tokens_min = 3};
  return config;
}

class DeviceMessages {
 public:
  explicit DeviceMessages(Input& input) : input_(input) {}

  // That a stream begins with, of the newest attempt.
  v1::ClientMessage First() { return MakeFirst(++attempt_); }

  v1::ClientMessage Next() {
    v1::ClientMessage message;
    switch (input_.Below(10)) {
      case 0:
      case 1:
        message = MakeFirst(++attempt_);
        break;
      case 2:
        FillAppend(*message.mutable_append());
        break;
      case 3:
        message.mutable_truncate()->set_length(Length());
        break;
      case 4:
        message = MakeFirst(input_.Below(4));  // most likely late
        break;
      case 7:
        message.mutable_tune()->set_dry_policy(DryPolicy());
        if (input_.Flip()) message.mutable_tune()->set_draft(input_.Flip());
        break;
      case 5:
        if (input_.Flip()) message.mutable_close();
        break;
      case 6:
        if (!message.ParseFromString(input_.Bytes(input_.Byte()))) message.Clear();
        break;
      default:
        FillGrow(*message.mutable_grow());
        message.mutable_grow()->set_pass_nodes(input_.Below(9));
        break;
    }
    return message;
  }

  // What a verifier has said, to any of them.
  void Hear(const v1::ServerMessage& message) {
    if (message.has_opened()) tokens_[message.opened().session()] = message.opened().token();
    if (message.has_opened()) Know(message.opened().verdict(), prompt_length_, prompt_hash_);
    if (message.has_resumed()) {
      const v1::Resumed& resumed = message.resumed();
      last_token_ = resumed.token();
      Know(resumed.verdict(), resumed.length(), resumed.hash());
    }
    if (message.has_verdict()) ++verdict_;
  }

 private:
  void Know(uint32_t verdict, uint32_t length, uint64_t hash) {
    verdict_ = first_verdict_ = verdict;
    known_length_ = length;
    known_hash_ = hash;
  }

  uint32_t Token() { return input_.Byte() < 240 ? 'a' + input_.Below(4) : input_.Number() * 2; }
  uint32_t Seen() { return input_.Flip() ? verdict_ : input_.Below(6); }
  // Where nothing drafted was right, that of the newest session to be heard of.
  uint32_t Length() {
    return input_.Flip() ? known_length_ + verdict_ - first_verdict_ : input_.Below(70);
  }

  v1::ClientMessage MakeFirst(uint32_t attempt) {
    v1::ClientMessage message;
    if (input_.Flip()) {
      FillResume(*message.mutable_resume());
      message.mutable_resume()->set_attempt(attempt);
      return message;
    }
    message = OpenOf(input_.Flip() ? ++nonce_ : input_.Below(4), "", DryPolicy());
    v1::Open& open = *message.mutable_open();
    open.set_attempt(attempt);
    prompt_hash_ = 0;
    std::vector<TokenId> prompt;
    for (uint32_t i = input_.Below(70); i > 0; --i) {
      prompt.push_back(static_cast<TokenId>('a' + i % 5));
      prompt_hash_ = TokenHistory::Extend(prompt_hash_, static_cast<TokenId>('a' + i % 5));
    }
    SetPrompt(prompt, open);
    if (input_.Below(16) == 0) open.add_prompt()->mutable_image()->set_width(input_.Number());
    prompt_length_ = static_cast<uint32_t>(prompt.size());
    if (input_.Flip()) return message;
    open.set_pass_nodes(input_.Below(9));
    open.set_length_max(input_.Below(80));
    open.set_hints(input_.Flip());
    open.set_draft(input_.Below(4) == 0);
    open.set_reply_tokens(input_.Below(3));
    if (input_.Flip()) FillStops(*open.mutable_stops());
    if (input_.Below(8) == 0) open.mutable_sampling()->set_repetition_penalty(1.5);
    return message;
  }

  void FillStops(v1::Stops& stops) {
    stops.set_max_tokens(input_.Below(12));
    if (input_.Flip()) stops.add_strings(input_.Bytes(input_.Below(3)));
    if (input_.Flip()) stops.add_end_tokens(Token());
    stops.set_continues_text(input_.Flip());
  }

  void FillResume(v1::Resume& resume) {
    if (!tokens_.empty()) {
      auto known = tokens_.begin();
      std::advance(known, input_.Below(static_cast<uint32_t>(tokens_.size())));
      resume.set_session(known->first);
      resume.set_token(input_.Flip() ? known->second : last_token_);
    }
    if (input_.Flip()) {
      resume.set_length(input_.Flip() ? known_length_ : input_.Below(70));
      resume.set_hash(known_hash_);
    }
  }

  void FillAppend(v1::Append& append) {
    append.set_length(Length());
    append.set_reply(input_.Flip());
    for (uint32_t i = input_.Below(10); i > 0; --i) append.add_tokens(Token());
    if (input_.Below(4) == 0) FillStops(*append.mutable_stops());
  }

  void FillGrow(v1::Grow& grow) {
    grow.set_seen(Seen());
    const uint32_t count = input_.Below(6);
    // Ids that rise, mostly: the machine keeps to them as a device would.
    grow.set_first_id(input_.Below(16) == 0 ? input_.Number() : next_id_);
    next_id_ += count;
    std::vector<GrownNode> nodes(count);
    for (GrownNode& node : nodes) {
      node.token = Token();
      const uint32_t link = input_.Byte();
      node.step = link / 16;
      node.doubt = link % 16;
    }
    ToldTokens told;
    WriteGrowthBits(nodes, told, *grow.mutable_nodes());
    if (input_.Below(32) == 0) grow.mutable_nodes()->push_back(static_cast<char>(input_.Byte()));
    grow.set_go(input_.Flip());
  }

  // Any that there is, or none.
  v1::DryPolicy DryPolicy() { return static_cast<v1::DryPolicy>(input_.Below(5)); }

  Input& input_;
  std::map<std::string, std::string> tokens_;  // of sessions, as Opened said
  std::string last_token_;
  uint32_t prompt_length_ = 0;  // of the newest Open
  uint64_t prompt_hash_ = 0;
  uint32_t known_length_ = 0;  // of the newest Opened or Resumed
  uint64_t known_hash_ = 0;
  uint32_t first_verdict_ = 0;
  uint32_t verdict_ = 0;  // the newest
  uint32_t next_id_ = 1;
  uint64_t nonce_ = 10;
  uint32_t attempt_ = 0;
};

}  // namespace outrider
