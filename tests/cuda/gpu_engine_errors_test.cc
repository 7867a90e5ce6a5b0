// What the engine on a GPU refuses, and in which words.
#include <memory>
#include <string>

#include "common/base/status.h"
#include "common/cuda/testing/emulated_queue.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/base/scratch_dir.h"
#include "tests/cuda/gpu_engine_maker.h"
#include "tests/model/engine.h"
#include "tests/model/random_model.h"

namespace outrider {
namespace {

using testing::HasSubstr;

constexpr size_t kPlenty = size_t{1} << 30;

class GpuEngineErrors : public testing::Test {
 protected:
  absl::Status Make(const char* family, TensorType type, size_t memory_bytes) {
    const std::string path = dir_.File("model.gguf");
    WriteRandomModel(SmallModel(family), type, path);
    return MakeGpuEngine(path, {}, *pool_, std::make_unique<EmulatedQueue>(memory_bytes)).status();
  }

  const ScratchDir dir_;
  const std::unique_ptr<ThreadPool> pool_ = OrDie(ThreadPool::Create(1));
};

TEST_F(GpuEngineErrors, TooLittleMemoryIsToldWithTheSizes) {
  const absl::Status status = Make("llama", TensorType::kQ8_0, 100000);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("the weights of"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("100000 are free"));
}

TEST_F(GpuEngineErrors, TypesAndLayersWithoutKernelsAreNamed) {
  absl::Status status = Make("llama", TensorType::kQ5_1, kPlenty);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()), HasSubstr("type Q5_1"));
  status = Make("gptoss", TensorType::kQ8_0, kPlenty);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()), HasSubstr("clamped gates"));
  status = Make("ministral3", TensorType::kQ8_0, kPlenty);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()), HasSubstr("queries that grow with their position"));
  status = Make("stablelm2", TensorType::kQ8_0, kPlenty);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()), HasSubstr("layer norms of heads"));
}

}  // namespace
}  // namespace outrider
