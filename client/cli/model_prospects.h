// What would become of a model on this machine: whether it runs, how fast at the best, and what of
// the folder it lies in goes with it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/formats/models/model_file.h"

namespace outrider {

struct ModelProspects {
  std::string why_not;     // empty: it runs
  std::string slow_types;  // "IQ3_S"; empty: all have kernels
  uint64_t needed_bytes = 0;
  uint64_t available_bytes = 0;     // of memory, now
  uint64_t pass_bytes = 0;          // of weights, that one token reads
  double bytes_per_second = 0;      // that all processors together read of memory
  std::vector<std::string> drafts;  // smaller models with the same tokenizer
  std::vector<std::string> exits;   // made for a model of this shape

  bool fits() const { return needed_bytes <= available_bytes; }
  // Of a target alone, where nothing but reading its weights took time.
  double tokens_per_second() const {
    return pass_bytes == 0 ? 0 : bytes_per_second / static_cast<double>(pass_bytes);
  }
};

// Takes some tenths of a second, and 128 MiB for a while: memory's speed is measured.
// `fingerprint`: of the model's tokenizer, if it has one.
ModelProspects FindProspects(const ModelFile& model, const std::string& path, uint64_t needed_bytes,
                             std::optional<uint64_t> fingerprint);

}  // namespace outrider
