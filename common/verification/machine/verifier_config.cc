#include "common/verification/machine/verifier_config.h"

#include "common/text/fingerprint.h"

namespace outrider {

VerifierConfig ConfigFor(const TargetInfo& info, const Tokenizer& tokenizer) {
  VerifierConfig config;
  config.model_name = info.model_name;
  config.numerics_id = info.numerics_id.ToString();
  config.tokenizer_fingerprint = FingerprintDigits(tokenizer.fingerprint());
  config.vocabulary_size = info.vocabulary_size;
  config.context_length = info.context_length;
  config.pass_nodes_max = info.node_count_max;
  const PageStock stock = StockOf(info.page_groups, info.sequence_count_max, info.context_length,
                                  info.row_count_max, info.node_count_max);
  config.sequence_count_max = stock.sequence_count;
  config.page_count = stock.page_count;
  config.page_tokens = kPageTokens;
  return config;
}

}  // namespace outrider
