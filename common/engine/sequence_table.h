// As many sequences as somebody holds at a time, made beforehand, and the ids they go by.
//
// An id is a running number and, in its low bits, which sequence of the table it is: finding one
// searches nothing, and an id is never given twice.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/engine/engine.h"

namespace outrider {

inline constexpr uint32_t kSequenceIndexBits = 16;
inline constexpr uint32_t kSequencesMax = 1 << kSequenceIndexBits;

// `Sequence` has an `id`, a uint64_t that is zero while nobody has opened it.
template <typename Sequence>
class SequenceTable {
 public:
  void Add(std::unique_ptr<Sequence> sequence) {
    OUTRIDER_CHECK(sequences_.size() < kSequencesMax, "the options are checked");
    sequences_.push_back(std::move(sequence));
  }

  absl::StatusOr<Sequence*> Open() {
    const auto unused = std::ranges::find(sequences_, 0u, [](const auto& s) { return s->id; });
    if (unused == sequences_.end()) {
      return ResourceExhausted("all ", sequences_.size(), " sequences are in use; close one");
    }
    const auto index = static_cast<uint64_t>(unused - sequences_.begin());
    (*unused)->id = ++opened_ << kSequenceIndexBits | index;
    return unused->get();
  }

  // Null when it was never opened, or is closed.
  Sequence* Find(SequenceId id) const {
    const auto number = static_cast<uint64_t>(id);
    const uint64_t index = number & (kSequencesMax - 1);
    if (number == 0 || index >= sequences_.size() || sequences_[index]->id != number) {
      return nullptr;
    }
    return sequences_[index].get();
  }

  // Of one that is open.
  Sequence& At(SequenceId id) const {
    Sequence* const sequence = Find(id);
    OUTRIDER_CHECK(sequence != nullptr, "a sequence is used between Open() and Close()");
    return *sequence;
  }

 private:
  std::vector<std::unique_ptr<Sequence>> sequences_;
  uint64_t opened_ = 0;
};

}  // namespace outrider
