// A session whose device is here, beside the target: what stands behind the rpc Generate.
//
//   OUTRIDER_ASSIGN_OR_RETURN(auto generation, Generation::Create(request, vocabulary_size, drafts));
//   ... generation->NextUp()            a message for the machine, when it asks for one
//   ... generation->Hear(message)       what the machine says; true: response() is for the caller
//   ... generation->Draft()             when wants_draft(); takes its time
//
// The machine cannot tell it from a device at the end of a link, so prompts, memory, turns with
// other sessions and the text itself are what they are there. Who lets the target write alone asks
// for DRY_POLICY_ALONE and never grows. Who has the server draft waits for growth: below every new
// root it grows a chain, as long as kChain, and says `go`. Draft and target take turns then, which
// is as it should be where they share a processor, and no guess about a verdict is needed: what is
// grown is grown in its light.
//
// It is no session of client/: there is no link to lose, nothing to hide and no tree to weigh.
//
// Memory:  the session's tokens; a response.
// Threads: as a vector.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/speculation/drafting/drafter.h"
#include "common/tokens/chooser.h"
#include "common/tokens/token_history.h"
#include "proto/outrider/v1/verifier.pb.h"

namespace outrider {

class Generation {
 public:
  static constexpr uint32_t kChain = 4;  // drafted tokens of a pass

  // A draft that chooses as the target does.
  using NewDrafter =
      std::function<absl::StatusOr<std::unique_ptr<Drafter>>(const Chooser& chooser)>;

  // `nonce` names the session to the machine. A null `new_drafter`: there is no draft here, and who
  // asks for one is refused.
  static absl::StatusOr<std::unique_ptr<Generation>> Create(const v1::GenerateRequest& request,
                                                            uint64_t nonce, int32_t vocabulary_size,
                                                            uint32_t context_length,
                                                            const NewDrafter& new_drafter);

  // None: nothing is to be said now.
  std::optional<v1::ClientMessage> NextUp();
  // Whether the caller is to be told of it.
  bool Hear(const v1::ServerMessage& message);
  const v1::GenerateResponse& response() const { return response_; }
  // Closes the session.
  void Close() { closing_ = true; }

  // The root is a new one, and nothing has been drafted below it.
  bool wants_draft() const { return wants_draft_; }
  // Nothing else is called meanwhile.
  void Draft();

 private:
  Generation(v1::Open open, uint32_t context_length, int32_t vocabulary_size);

  void Commit(TokenId token);
  void HearVerdict(const v1::Verdict& verdict);
  void RootKnown(v1::Finish finish);

  v1::Open open_;
  uint32_t length_max_ = 0;  // as granted
  TokenHistory history_;
  std::unique_ptr<Drafter> drafter_;  // null: the target writes alone
  bool opened_ = false;               // Open has been said
  bool closing_ = false;
  bool closed_ = false;

  uint32_t verdict_ = 0;  // the newest
  uint32_t last_id_ = 0;  // of a node
  bool wants_draft_ = false;
  std::optional<v1::ClientMessage> growth_;
  std::vector<DraftedNode> chain_;  // below the root; ids end at last_id_
  Proposals proposals_;
  v1::GenerateResponse response_;
};

}  // namespace outrider
