// Messages that wait for the stream to take them, one at a time.
//
// Memory: a ring of messages. Whoever sends one may take what it has, and leave what he had for the
//         one before: growth that was sent is memory for more of it, nothing is copied, and steady
//         traffic does not allocate.
#pragma once

#include <cstddef>
#include <vector>

#include "proto/outrider/v1/verifier.pb.h"

namespace outrider {

class SendQueue {
 public:
  // Edits (one event writes three at the most), a Tune, one batch of growth, a farewell.
  static constexpr size_t kCapacity = 16;

  SendQueue() : messages_(kCapacity) {}

  // An empty message at the end. Not when full.
  v1::Open& AddOpen() { return Cleared(*Slot().mutable_open()); }
  v1::Resume& AddResume() { return Cleared(*Slot().mutable_resume()); }
  v1::Grow& AddGrow() { return Cleared(*Slot().mutable_grow()); }
  v1::Append& AddAppend() { return Cleared(*Slot().mutable_append()); }
  v1::Truncate& AddTruncate() { return Cleared(*Slot().mutable_truncate()); }
  v1::Tune& AddTune() { return Cleared(*Slot().mutable_tune()); }
  void AddClose() { Slot().mutable_close(); }

  // The first message, which counts as being written until Written(); it stays until something is
  // added. Null when there is none, or one is being written already.
  v1::ClientMessage* Next();
  void Written() { writing_ = false; }

  // Forgets growth that is not being written: what it grows from is about to go.
  void DropGrowth();
  // A stream begins.
  void Clear();

  bool empty() const { return count_ == 0; }
  bool has_tune() const;
  size_t room() const { return kCapacity - count_; }
  bool writing() const { return writing_; }

 private:
  template <typename Message>
  static Message& Cleared(Message& message) {
    message.Clear();
    return message;
  }

  v1::ClientMessage& Slot();
  v1::ClientMessage& at(size_t i) { return messages_[(first_ + i) % kCapacity]; }
  const v1::ClientMessage& at(size_t i) const { return messages_[(first_ + i) % kCapacity]; }

  std::vector<v1::ClientMessage> messages_;
  size_t first_ = 0;
  size_t count_ = 0;  // that wait
  bool writing_ = false;
};

}  // namespace outrider
