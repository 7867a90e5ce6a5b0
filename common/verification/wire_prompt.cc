#include "common/verification/wire_prompt.h"

#include "common/base/status.h"
#include "common/verification/wire_options.h"

namespace outrider {
namespace {

absl::Status CheckPart(const v1::PromptPart& part) {
  switch (part.kind_case()) {
    case v1::PromptPart::kTokens:
      break;
    case v1::PromptPart::kEncoderTokens:
      return InvalidArgument("this target has no encoder; send the prompt as tokens of the text");
    case v1::PromptPart::kImage:
      return InvalidArgument("this target takes no images; send a prompt of text alone");
    default:
      return InvalidArgument(
          "a part of the prompt is of a kind that this server does not know; send tokens");
  }
  if (part.positions_size() == 0) return absl::OkStatus();
  return InvalidArgument("this target's tokens stand at their index; leave out the ",
                         part.positions_size(), " positions of the prompt");
}

}  // namespace

void SetPrompt(std::span<const TokenId> tokens, v1::Open& open) {
  open.clear_prompt();
  if (tokens.empty()) return;
  auto& ids = *open.add_prompt()->mutable_tokens()->mutable_ids();
  ids.Reserve(static_cast<int>(tokens.size()));
  for (const TokenId token : tokens) ids.Add(static_cast<uint32_t>(token));
}

absl::Status ReadPrompt(const v1::Open& open, int32_t vocabulary_size, uint32_t length_max,
                        std::vector<TokenId>& tokens) {
  if (open.prompt_size() > kPromptPartsMax) {
    return InvalidArgument("a prompt of ", open.prompt_size(), " parts is in more than the ",
                           kPromptPartsMax, " there may be");
  }
  uint64_t length = 0;
  for (const v1::PromptPart& part : open.prompt()) length += part.tokens().ids_size();
  if (length > length_max) {
    return InvalidArgument("a prompt of ", length, " tokens does not fit into the ", length_max,
                           " of this session");
  }
  for (const v1::PromptPart& part : open.prompt()) {
    OUTRIDER_RETURN_IF_ERROR(CheckPart(part));
    for (const uint32_t token : part.tokens().ids()) {
      OUTRIDER_ASSIGN_OR_RETURN(const TokenId id, TokenFromWire(token, vocabulary_size));
      tokens.push_back(id);
    }
  }
  return absl::OkStatus();
}

}  // namespace outrider
