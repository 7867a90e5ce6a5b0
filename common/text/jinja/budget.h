// What one rendering of a template may spend.
//
// A chat template is a program from a stranger, so everything it can make grow is counted here: the
// work it does, the memory its values hold at one time, the size of a text. Breaking a bound is an
// InvalidArgument error, long before the process or its user notices.
//
// Work is counted in units of very roughly ten nanoseconds: one for every node of the template that
// is evaluated, and one for every 64 bytes or 4 values that an operation reads.
// Threads: one budget belongs to one rendering on one thread.
#pragma once

#include <cstddef>

#include "absl/status/status.h"
#include "common/base/status.h"

namespace outrider::jinja {

class Budget {
 public:
  // A conversation of a thousand long messages spends well below a hundredth of these.
  static constexpr size_t kMaxWork = 20'000'000;
  static constexpr size_t kMaxBytes = size_t{256} << 20;
  static constexpr size_t kMaxTextBytes = size_t{16} << 20;
  // Values within values. Whatever walks a value may therefore be recursive.
  static constexpr int kMaxValueDepth = 128;

  absl::Status Spend(size_t work) {
    work_ += work;
    if (work_ <= kMaxWork) return absl::OkStatus();
    return InvalidArgument("the template takes more than ", kMaxWork, " steps");
  }
  absl::Status ReadBytes(size_t bytes) { return Spend(1 + bytes / 64); }
  // Looking at every character, decoded or compared several times.
  absl::Status Search(size_t bytes) { return Spend(1 + bytes / 8); }
  absl::Status ReadValues(size_t values) { return Spend(1 + values / 4); }

  absl::Status Reserve(size_t bytes) {
    if (bytes > kMaxBytes - bytes_) {
      return InvalidArgument("the template's values take more than ", kMaxBytes >> 20, " MiB");
    }
    bytes_ += bytes;
    return absl::OkStatus();
  }
  void Release(size_t bytes) { bytes_ -= bytes; }

  // One level of recursion that a template drives, for as long as it lives; check `status` first.
  class Level {
   public:
    explicit Level(Budget& budget) : budget_(budget) { ++budget_.levels_; }
    ~Level() { --budget_.levels_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;
    absl::Status status() const {
      if (budget_.levels_ <= kMaxLevels) return absl::OkStatus();
      return InvalidArgument("the template calls itself too deeply");
    }

   private:
    Budget& budget_;
  };

 private:
  // Statements, expressions and calls within each other. Each takes below 2 KiB of stack, several
  // times that under a sanitizer.
  static constexpr int kMaxLevels = 600;

  int levels_ = 0;
  size_t work_ = 0;
  size_t bytes_ = 0;
};

}  // namespace outrider::jinja
