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
  config.exit_depths = info.exit_depths;
  config.sequence_count_max = info.sequence_count_max;
  config.page_groups = info.page_groups;
  config.row_count_max = info.row_count_max;
  config.scheduler.run_row_count_max = info.row_count_max;
  config.forks_share_pages = info.forks_share_pages;
  return config;
}

}  // namespace outrider
