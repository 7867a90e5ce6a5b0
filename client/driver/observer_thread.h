// What goes on in a reply, told to an observer on a thread of its own: whoever shows it may take as
// long as he likes, and a terminal that stops reading stops nothing but the text.
//
//   ObserverThread told;
//   told.Begin(observer);          // a reply
//   told.Commit(tokens, text);     // these return at once
//   told.Report(status);
//   told.Wake();                   // what was said so far is told from here on
//   told.Finish();                 // it has heard everything, and is not called again
//
// Waking a thread takes longer than what the machine has to do after a verdict, and the woken one may
// take its processor. So nothing is told before Wake(), which comes when the machine's messages are on
// their way.
//
// Queues:  what was said and not told: text and tokens, each joined to one piece, which is a reply at
//          the most; of progress the newest; of reports the first kReportsMax, and no others.
// Memory:  allocates nothing once both its pieces have grown: one is told, one is filled.
// Threads: everything from one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "common/base/mutex.h"
#include "common/formats/tokenizers/tokenizer_spec.h"

namespace outrider {

// What the user sees of a reply: one call at a time, on a thread that may wait.
class ReplyObserver {
 public:
  virtual ~ReplyObserver() = default;

  virtual void OnText(std::string_view text) = 0;
  virtual void OnTokens(std::span<const TokenId> /*tokens*/) {}
  virtual void OnPromptProgress(uint32_t processed, uint32_t total) = 0;
  virtual void OnReport(const absl::Status& status) = 0;
  // Asked several times a second, on the thread that runs the reply, whatever the others wait for:
  // whether the reply is to end where it is.
  virtual bool Interrupted() = 0;
};

class ObserverThread {
 public:
  static constexpr size_t kReportsMax = 16;

  ObserverThread();
  ~ObserverThread();
  ObserverThread(const ObserverThread&) = delete;
  ObserverThread& operator=(const ObserverThread&) = delete;

  // The one before has been let go.
  void Begin(ReplyObserver& observer);
  void Commit(std::span<const TokenId> tokens, std::string_view text);
  void Progress(uint32_t processed, uint32_t total);
  void Report(const absl::Status& status);
  void Wake();
  // Waits for the observer, as long as that takes.
  void Finish();

 private:
  struct PromptProgress {
    uint32_t processed;
    uint32_t total;
  };
  struct Untold {
    std::optional<PromptProgress> progress;
    std::vector<absl::Status> reports;
    std::vector<TokenId> tokens;
    std::string text;

    bool empty() const { return !progress && reports.empty() && tokens.empty() && text.empty(); }
    void TellTo(ReplyObserver& observer) const;
    void Clear();
  };

  void Run();

  Mutex mu_;
  CondVar changed_;
  ReplyObserver* observer_ ABSL_GUARDED_BY(mu_) = nullptr;  // between Begin() and Finish()
  Untold untold_ ABSL_GUARDED_BY(mu_);
  bool telling_ ABSL_GUARDED_BY(mu_) = false;   // what untold_ was before
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;  // set by the destructor, which then joins
  std::thread thread_;                          // last: starts when all above exists
};

}  // namespace outrider
