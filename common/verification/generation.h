// A session whose device drafts nothing: what stands behind the rpc Generate.
//
//   OUTRIDER_ASSIGN_OR_RETURN(Generation generation, Generation::Create(request, nonce, drafts));
//   ... generation.NextUp()            a message for the machine, when it asks for one
//   ... generation.Hear(message)       what the machine says; true: response() is for the caller
//
// The machine cannot tell it from a device at the end of a link, so prompts, memory, turns with
// other sessions, drafts of the server's own and the text itself are what they are there.
//
// Memory:  the prompt, until it is said; a response.
// Threads: as a vector.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "proto/outrider/v1/verifier.pb.h"

namespace outrider {

class Generation {
 public:
  // `nonce` names the session to the machine. `drafts`: there is a draft here; FailedPrecondition
  // for who asks for one where there is none.
  static absl::StatusOr<Generation> Create(const v1::GenerateRequest& request, uint64_t nonce,
                                           bool drafts);

  // None: nothing is to be said now.
  std::optional<v1::ClientMessage> NextUp();
  // Whether the caller is to be told of it.
  bool Hear(const v1::ServerMessage& message);
  const v1::GenerateResponse& response() const { return response_; }
  // Closes the session.
  void Close() { closing_ = true; }

 private:
  enum class Said { kNothing, kOpen, kClose };

  Generation(v1::Open open, uint32_t frame_bytes) : frame_bytes_(frame_bytes) {
    *first_.mutable_open() = std::move(open);
  }

  bool Answer(const v1::ServerMessage& message);
  void HearVerdict(const v1::Verdict& verdict);
  void SetFinish(v1::Finish finish);

  const uint32_t frame_bytes_;  // of responses
  v1::ClientMessage first_;
  Said said_ = Said::kNothing;
  bool closing_ = false;
  uint32_t verdicts_heard_ = 0;
  uint32_t verdicts_told_ = 0;  // that the machine has been told were heard
  v1::GenerateResponse response_;
};

}  // namespace outrider
