// DirectFile over an engine that behaves as badly as kernels and file systems do.
#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "common/base/direct_file.h"
#include "common/base/file_descriptor.h"
#include "common/base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/base/scratch_dir.h"

namespace outrider {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Request {
  uint32_t slot;
  uint64_t offset;
  std::span<std::byte> out;
};

// Answers every raw read by asking the test, youngest first.
class ScriptedEngine final : public ReadEngine {
 public:
  // Returns what the read's result is to be, having written what bytes it likes.
  using Script = std::function<int64_t(const Request&)>;

  explicit ScriptedEngine(Script script) : script_(std::move(script)) {}

  absl::Status Submit(uint32_t slot, uint64_t offset, std::span<std::byte> out) override {
    waiting_.push_back({slot, offset, out});
    return absl::OkStatus();
  }

  RawRead Wait() override {
    const Request request = waiting_.back();
    waiting_.pop_back();
    return {.slot = request.slot, .result = script_(request)};
  }

 private:
  const Script script_;
  std::deque<Request> waiting_;
};

class DirectFileOverScript : public ::testing::Test {
 protected:
  DirectFileOverScript() {
    for (size_t i = 0; i < contents_.size(); ++i) contents_[i] = static_cast<char>(i * i >> 7);
  }

  std::unique_ptr<DirectFile> Open(ScriptedEngine::Script script) {
    return std::make_unique<DirectFile>(DirectFile::Source{.path = "model.gguf",
                                                           .size = contents_.size(),
                                                           .alignment = 4096,
                                                           .backend = "a script"},
                                        /*queue_depth=*/4,
                                        std::make_unique<ScriptedEngine>(std::move(script)));
  }

  // What an honest kernel gives, cut to `limit` bytes.
  int64_t Honest(const Request& request, size_t limit = SIZE_MAX) const {
    if (request.offset >= contents_.size()) return 0;
    const size_t count = std::min(
        {limit, request.out.size(), contents_.size() - static_cast<size_t>(request.offset)});
    std::memcpy(request.out.data(), contents_.data() + request.offset, count);
    return static_cast<int64_t>(count);
  }

  absl::Status ReadAll(DirectFile& file) {
    out_.assign(contents_.size(), std::byte{0xee});
    return file.Read(0, out_);
  }
  bool GotAll() const { return std::memcmp(out_.data(), contents_.data(), out_.size()) == 0; }

  std::string contents_ = std::string(10 * 4096 + 100, '\0');
  std::vector<std::byte> out_;
};

TEST_F(DirectFileOverScript, ShortReadsGoOnFromTheLastWholeBlock) {
  for (const size_t limit : {4096, 5000, 8191, 8192, 40'000}) {
    std::vector<uint64_t> offsets;
    const std::unique_ptr<DirectFile> file = Open([&](const Request& request) {
      EXPECT_EQ(request.offset % 4096, 0u);
      EXPECT_EQ(request.out.size() % 4096, 0u);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(request.out.data()) % 4096, 0u);
      offsets.push_back(request.offset);
      return Honest(request, limit);
    });
    const absl::Status status = ReadAll(*file);
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_TRUE(GotAll());
    for (size_t i = 0; i < offsets.size(); ++i) EXPECT_EQ(offsets[i], i * (limit / 4096 * 4096));
  }
}

TEST_F(DirectFileOverScript, InterruptedReadsAreRepeated) {
  int calls = 0;
  const std::unique_ptr<DirectFile> file = Open([&](const Request& request) -> int64_t {
    switch (++calls % 3) {
      case 0:
        return Honest(request, 4096);
      case 1:
        return -EINTR;
      default:
        return -EAGAIN;
    }
  });
  const absl::Status status = ReadAll(*file);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_TRUE(GotAll());
}

TEST_F(DirectFileOverScript, AReadThatIsNeverTakenIsGivenUp) {
  const std::unique_ptr<DirectFile> file = Open([](const Request&) -> int64_t { return -EAGAIN; });
  const absl::Status status = ReadAll(*file);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(Message(status), HasSubstr("model.gguf: cannot read 41060 bytes at offset 0: "));
}

TEST_F(DirectFileOverScript, AnErrorNamesFileOffsetAndReason) {
  const std::unique_ptr<DirectFile> file = Open([&](const Request& request) -> int64_t {
    return request.offset == 0 ? Honest(request, 8192) : -EIO;
  });
  EXPECT_EQ(ReadAll(*file),
            DataLoss("model.gguf: cannot read 32868 bytes at offset 8192: Input/output error"));
  EXPECT_EQ(file->in_flight(), 0u);
}

TEST_F(DirectFileOverScript, OneFailureLeavesTheOtherReadsAlone) {
  const std::unique_ptr<DirectFile> file = Open([&](const Request& request) -> int64_t {
    return request.offset == 4096 ? -EIO : Honest(request);
  });
  absl::StatusOr<PageBuffer> memory = PageBuffer::Create(4 * 4096);
  ASSERT_TRUE(memory.ok());
  for (uint64_t tag = 0; tag < 4; ++tag) {
    ASSERT_TRUE(file->SubmitRead(tag * 4096, memory->bytes().subspan(tag * 4096, 4096), tag).ok());
  }
  std::vector<uint64_t> good;
  std::vector<uint64_t> bad;
  for (int i = 0; i < 4; ++i) {
    const DirectFile::Completion done = file->WaitCompletion();
    (done.status.ok() ? good : bad).push_back(done.tag);
  }
  EXPECT_THAT(good, ElementsAre(3, 2, 0));
  EXPECT_THAT(bad, ElementsAre(1));
}

TEST_F(DirectFileOverScript, MoreBytesThanTheFileHadAreNotPassedOn) {
  const std::unique_ptr<DirectFile> file = Open([&](const Request& request) {
    std::fill(request.out.begin(), request.out.end(), std::byte{'g'});
    return static_cast<int64_t>(request.out.size());
  });
  absl::StatusOr<PageBuffer> memory = PageBuffer::Create(4096);
  ASSERT_TRUE(memory.ok());
  ASSERT_TRUE(file->SubmitRead(10 * 4096, memory->bytes(), 0).ok());
  ASSERT_TRUE(file->WaitCompletion().status.ok());
  EXPECT_EQ(memory->bytes()[99], std::byte{'g'});
  for (size_t i = 100; i < 4096; ++i) ASSERT_EQ(memory->bytes()[i], std::byte{0});
}

TEST_F(DirectFileOverScript, AnHonestEngineIsBelieved) {
  const ScratchDir dir;
  const FileDescriptor plain(open(dir.Write("plain", contents_).c_str(), O_RDONLY));
  const std::unique_ptr<DirectFile> file =
      Open([&](const Request& request) { return Honest(request); });
  const absl::Status status = CompareWithPlainReads(*file, plain.get());
  EXPECT_TRUE(status.ok()) << status;
}

TEST_F(DirectFileOverScript, AnEngineThatLiesIsNotBelieved) {
  contents_.resize(1'000'000, 'c');
  const ScratchDir dir;
  const FileDescriptor plain(open(dir.Write("plain", contents_).c_str(), O_RDONLY));
  // One wrong byte, at the beginning, in the middle, at the end.
  for (const uint64_t lie_at : {uint64_t{0}, contents_.size() / 2, contents_.size() - 1}) {
    const std::unique_ptr<DirectFile> file = Open([&](const Request& request) {
      const int64_t count = Honest(request);
      if (lie_at >= request.offset && lie_at < request.offset + request.out.size()) {
        request.out[lie_at - request.offset] ^= std::byte{1};
      }
      return count;
    });
    const absl::Status status = CompareWithPlainReads(*file, plain.get());
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(Message(status), HasSubstr("has other bytes past the page cache than in it"));
  }
}

using DirectFileDeathTest = DirectFileOverScript;

TEST_F(DirectFileDeathTest, MisalignedReadsAndNothingToWaitForAreBugs) {
  const std::unique_ptr<DirectFile> file =
      Open([&](const Request& request) { return Honest(request); });
  absl::StatusOr<PageBuffer> memory = PageBuffer::Create(8192);
  ASSERT_TRUE(memory.ok());
  const std::span<std::byte> bytes = memory->bytes();
  EXPECT_DEATH(file->SubmitRead(1, bytes, 0).IgnoreError(), "are aligned");
  EXPECT_DEATH(file->SubmitRead(0, bytes.first(100), 0).IgnoreError(), "are aligned");
  EXPECT_DEATH(file->SubmitRead(0, bytes.subspan(1, 4096), 0).IgnoreError(), "are aligned");
  EXPECT_DEATH(file->WaitCompletion(), "only a read in flight can be waited for");
  EXPECT_DEATH(file->ExtentOf(contents_.size(), 1), "an extent lies in its file");
}

}  // namespace
}  // namespace outrider
