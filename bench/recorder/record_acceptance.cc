#include "bench/recorder/record_acceptance.h"

#include <array>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "client/device/device.h"
#include "client/device/draft.h"
#include "common/base/status.h"
#include "common/base/thread_pool.h"
#include "common/base/units.h"
#include "common/kernels/kernels.h"
#include "common/speculation/drafting/drafter.h"
#include "common/tokens/token_history.h"

namespace outrider {
namespace {

class Nobody final : public Conversation::Observer {
 public:
  void OnText(std::string_view) override {}
};

struct Written {
  std::vector<TokenId> tokens;  // prompt and reply
  size_t reply_begin;
  int32_t vocabulary_size;
};

absl::StatusOr<Written> WriteAlone(const RecordingAsked& asked, Isa isa) {
  DeviceOptions options;
  options.model = asked.target;
  options.threads = asked.threads;
  options.isa = isa;
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<Device> device, Device::Open(options));
  OUTRIDER_RETURN_IF_ERROR(device->Load(nullptr));
  OUTRIDER_ASSIGN_OR_RETURN(
      const std::unique_ptr<Conversation> conversation,
      device->Converse({.sampling = asked.sampling, .stops = {.max_tokens = asked.tokens}}));
  const std::vector<TokenId> prompt = device->tokenizer().Encode(asked.prompt);
  Nobody nobody;
  OUTRIDER_RETURN_IF_ERROR(conversation->Continue(prompt, /*is_reply=*/false, nobody).status());
  const std::span<const TokenId> tokens = conversation->tokens();
  return Written{
      {tokens.begin(), tokens.end()}, prompt.size(), device->tokenizer().vocabulary_size()};
}

void AppendPlace(TokenId token, std::span<const Proposal> proposals, std::string& text) {
  text += Concat("place ", token, " draft");
  for (const Proposal& proposal : proposals) {
    text += Concat(" ", proposal.token, ":", Fixed(proposal.confidence, 4));
  }
  text += "\n";
}

}  // namespace

absl::StatusOr<std::string> RecordAcceptance(const RecordingAsked& asked) {
  OUTRIDER_ASSIGN_OR_RETURN(const Isa isa, SelectIsa(std::nullopt));
  OUTRIDER_ASSIGN_OR_RETURN(const Written written, WriteAlone(asked, isa));
  OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<ThreadPool> pool, ThreadPool::Create(asked.threads));
  const auto context = static_cast<uint32_t>(written.tokens.size());
  OUTRIDER_ASSIGN_OR_RETURN(
      const std::unique_ptr<Draft> draft,
      Draft::Load(asked.draft, "cpu",
                  {.context_length = context, .node_count_max = 1, .conversation_count_max = 1},
                  KernelsFor(isa), std::move(pool), nullptr));
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<Drafter> drafter,
                            draft->NewDrafter(asked.sampling));

  TokenHistory history({.vocabulary_size = draft->vocabulary_size(),
                        .capacity = written.tokens.size(),
                        .counts_tokens = asked.sampling.penalizes()});
  const std::span<const TokenId> tokens = written.tokens;
  OUTRIDER_RETURN_IF_ERROR(history.Append(tokens.first(written.reply_begin)));
  history.StartReply();
  std::string text = Concat("outrider-trace 1\nvocabulary ", written.vocabulary_size, "\nprompt");
  for (const TokenId token : history.tokens()) text += Concat(" ", token);
  text += "\n";
  constexpr std::array<Drafter::Context, 1> kHere = {
      {{DraftedNode::kRoot, RecordingAsked::kGuesses}}};
  Proposals proposals;
  for (const TokenId token : tokens.subspan(written.reply_begin)) {
    OUTRIDER_RETURN_IF_ERROR(drafter->Propose(history, {}, kHere, proposals));
    AppendPlace(token, proposals.children()[0], text);
    OUTRIDER_RETURN_IF_ERROR(history.Append({&token, 1}));
  }
  return text;
}

}  // namespace outrider
