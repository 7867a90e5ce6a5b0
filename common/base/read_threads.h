// A few threads that read for any number of files, where the kernel takes no reads by itself.
//
//   const auto threads = std::make_shared<ReadThreads>();
//   ... DirectFile::Open(path, {.queue_depth = 4, .threads = threads}), file after file ...
//
// A model may have dozens of files, which are read by turns: with threads of their own most would sleep. They
// start with the first file that is read so; where the kernel starts none, who waits for a read makes it.
//
// Threads: any, and its own.
// Memory:  for the reads that may be in flight, of all files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/base/bounded_ring.h"
#include "common/base/mutex.h"
#include "common/base/read_engine.h"

namespace outrider {

class ReadThreads {
 public:
  // Flash is saturated by two reads of 256 KiB and up; two more cover the moments in between.
  static constexpr uint32_t kCountMax = 4;

  // Whose reads are made. Told on one of the threads.
  class Asker {
   public:
    virtual void OnRead(const RawRead& read) = 0;

   protected:
    ~Asker() = default;
  };
  struct Read {
    int fd;
    uint32_t slot;
    uint64_t offset;
    std::span<std::byte> out;
    Asker* asker;
  };

  ReadThreads() = default;
  ~ReadThreads();  // nothing is in flight
  ReadThreads(const ReadThreads&) = delete;
  ReadThreads& operator=(const ReadThreads&) = delete;

  // From now on so many reads more may be in flight. False: there is no thread to make them.
  bool Reserve(uint32_t depth);
  void Submit(const Read& read);

  static RawRead Make(const Read& read);

 private:
  void Work();

  Mutex mu_;
  CondVar submitted_;
  BoundedRing<Read> waiting_ ABSL_GUARDED_BY(mu_){0};
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<std::thread> threads_ ABSL_GUARDED_BY(mu_);
};

}  // namespace outrider
