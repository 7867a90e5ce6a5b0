// Text from a session: a draft here, and a target wherever the verifier has it.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "client/cli/generator.h"
#include "client/driver/session_driver.h"
#include "client/session/session.h"
#include "client/verifier/verifier.h"
#include "common/speculation/cost_model.h"
#include "common/speculation/drafter.h"
#include "common/speculation/tree_policy.h"
#include "common/text/tokenizer.h"

namespace outrider {

class SpeculativeGenerator final : public Generator {
 public:
  // All must outlive it.
  struct Parts {
    const Tokenizer& tokenizer;
    Drafter& drafter;
    int32_t draft_vocabulary_size;
    TreePolicy& policy;
    Verifier& verifier;
  };

  // `options` without a prompt: the first Continue() has it.
  SpeculativeGenerator(SessionOptions options, const Parts& parts);
  ~SpeculativeGenerator() override;  // says farewell to the verifier

  absl::Status Continue(std::span<const TokenId> tokens, bool is_reply,
                        const TextSink& sink) override;
  const GenerationTimes& times() const override { return times_; }
  bool context_is_full() const override;
  uint32_t context_length() const override;
  std::string Details() const override;

 private:
  class Screen;

  absl::Status Begin(std::span<const TokenId> tokens, bool is_reply, Screen& screen);
  absl::Status GoOn(std::span<const TokenId> tokens, Screen& screen);

  SessionOptions options_;
  const Parts parts_;
  CostModel costs_;
  std::unique_ptr<Session> session_;
  std::unique_ptr<SessionDriver> driver_;
  GenerationTimes times_;
};

}  // namespace outrider
