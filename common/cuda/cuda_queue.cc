#include "common/cuda/cuda_queue.h"

#include <cuda_runtime_api.h>

#include <chrono>
#include <map>
#include <string>
#include <utility>

#include "common/base/status.h"
#include "common/cuda/cuda_status.h"
#include "common/cuda/devices.h"
#include "common/cuda/launch.h"

namespace outrider {
namespace {

class CudaQueue final : public DeviceQueue {
 public:
  CudaQueue(const CudaDevice& device, std::string name)
      : ordinal_(device.ordinal),
        compute_capability_(device.compute_capability),
        name_(std::move(name)) {}
  ~CudaQueue() override {
    if (stream_ == nullptr) return;
    cudaSetDevice(ordinal_);
    ForgetGraphs();
    for (const auto& [mark, event] : marks_) cudaEventDestroy(event);
    for (const auto& [number, has_arrived] : departures_) cudaEventDestroy(has_arrived);
    if (is_reached_ != nullptr) cudaEventDestroy(is_reached_);
    if (side_ != nullptr) cudaStreamDestroy(side_);
    cudaStreamDestroy(stream_);
  }

  absl::Status Open() {
    OUTRIDER_RETURN_IF_ERROR(CudaStatus(cudaSetDevice(ordinal_), name_));
    OUTRIDER_RETURN_IF_ERROR(CudaStatus(gpu::FindKernels(), name_));
    OUTRIDER_RETURN_IF_ERROR(
        CudaStatus(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), name_));
    // What is done beside is little, and somebody waits for it: its blocks are the next to get a
    // place, and not behind all those of a kernel of the first stream.
    int least = 0, greatest = 0;
    OUTRIDER_RETURN_IF_ERROR(
        CudaStatus(cudaDeviceGetStreamPriorityRange(&least, &greatest), name_));
    OUTRIDER_RETURN_IF_ERROR(
        CudaStatus(cudaStreamCreateWithPriority(&side_, cudaStreamNonBlocking, greatest), name_));
    now_ = stream_;
    return CudaStatus(cudaEventCreateWithFlags(&is_reached_, cudaEventDisableTiming), name_);
  }

  int compute_capability() const override { return compute_capability_; }

  absl::StatusOr<std::byte*> Allocate(size_t bytes, std::string_view what) override {
    OUTRIDER_RETURN_IF_ERROR(CudaStatus(cudaSetDevice(ordinal_), name_));
    size_t free_bytes = 0, total_bytes = 0;
    OUTRIDER_RETURN_IF_ERROR(CudaStatus(cudaMemGetInfo(&free_bytes, &total_bytes), name_));
    void* memory = nullptr;
    const cudaError_t error = cudaMalloc(&memory, bytes);
    if (error == cudaErrorMemoryAllocation) {
      cudaGetLastError();  // it is told here, and no later call's
      return ResourceExhausted(name_, ": ", what, " need ", bytes, " bytes, and ", free_bytes,
                               " of ", total_bytes, " are free");
    }
    OUTRIDER_RETURN_IF_ERROR(CudaStatus(error, Concat(name_, ": ", what)));
    return static_cast<std::byte*>(memory);
  }
  void Free(std::byte* memory) override {
    cudaSetDevice(ordinal_);
    cudaFree(memory);
  }
  absl::StatusOr<std::byte*> AllocateHere(size_t bytes, std::string_view what) override {
    OUTRIDER_RETURN_IF_ERROR(CudaStatus(cudaSetDevice(ordinal_), name_));
    void* memory = nullptr;
    const cudaError_t error = cudaHostAlloc(&memory, bytes, cudaHostAllocDefault);
    if (error == cudaErrorMemoryAllocation) {
      cudaGetLastError();  // it is told here, and no later call's
      return ResourceExhausted(name_, ": ", what, " need ", bytes,
                               " bytes of this machine's memory that stay where they are, and "
                               "there are not so many");
    }
    OUTRIDER_RETURN_IF_ERROR(CudaStatus(error, Concat(name_, ": ", what)));
    return static_cast<std::byte*>(memory);
  }
  void FreeHere(std::byte* memory) override {
    cudaSetDevice(ordinal_);
    cudaFreeHost(memory);
  }

  void Upload(std::byte* to, const void* from, size_t bytes) override {
    Copy(to, from, bytes, cudaMemcpyHostToDevice);
    // From memory that is not pinned, a copy of some size may still be read when the call returns.
    if (bytes > kCopiedAtOnce) Note(cudaStreamSynchronize(stream_), "copying");
  }
  void Download(void* to, const std::byte* from, size_t bytes) override {
    Copy(to, from, bytes, cudaMemcpyDeviceToHost);
  }

  // Between graphs, and never part of one: which layers are watched changes from run to run.
  void BeginBeside() override {
    if (BelongsHere()) MeetBeside();
    now_ = side_;
  }
  void EndBeside() override { now_ = stream_; }
  void Fetch(std::byte* to, const void* from, size_t bytes) override {
    Copy(to, from, bytes, cudaMemcpyHostToDevice);
  }
  void Depart(uint32_t number, void* to, const std::byte* from, size_t bytes) override {
    if (!BelongsHere()) return;
    cudaEvent_t& has_arrived = departures_[number];
    if (has_arrived == nullptr) {
      Note(cudaEventCreateWithFlags(&has_arrived, cudaEventDisableTiming), kBeside);
    }
    if (!status_.ok()) return;
    if (now_ != side_) MeetBeside();
    Note(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, side_), kBeside);
    Note(cudaEventRecord(has_arrived, side_), kBeside);
  }
  absl::Status AwaitArrival(uint32_t number) override {
    if (BelongsHere()) Note(cudaEventSynchronize(departures_[number]), kBeside);
    return std::exchange(status_, absl::OkStatus());
  }

  void Run(const gpu::EmbedRows& k, uint32_t x, uint32_t y) override { Start(k, x, y, "embed"); }
  void Run(const gpu::NormRows& k, uint32_t x, uint32_t y) override { Start(k, x, y, "norm"); }
  void Run(const gpu::QuantizeRows& k, uint32_t x, uint32_t y) override {
    Start(k, x, y, "quantize");
  }
  void Run(const gpu::SplitRows& k, uint32_t x, uint32_t y) override { Start(k, x, y, "split"); }
  void Run(const gpu::PlaceHeads& k, uint32_t x, uint32_t y) override {
    Start(k, x, y, "place heads");
  }
  void Run(const gpu::AttendRows& k, uint32_t x, uint32_t y) override { Start(k, x, y, "attend"); }
  void Run(const gpu::GateRows& k, uint32_t x, uint32_t y) override { Start(k, x, y, "gate"); }
  void Run(const gpu::CopySlots& k, uint32_t x, uint32_t y) override {
    Start(k, x, y, "copy slots");
  }
  void Run(const gpu::BestOfRows& k, uint32_t x, uint32_t y) override { Start(k, x, y, "best"); }
  void Run(const gpu::GatherOutputs& k, uint32_t x, uint32_t y) override {
    Start(k, x, y, "gather outputs");
  }
  void Run(const gpu::AdaptRows& k, uint32_t x, uint32_t y) override { Start(k, x, y, "adapt"); }
  void Run(const gpu::RankCandidates& k, uint32_t x, uint32_t y) override {
    Start(k, x, y, "rank candidates");
  }
  void Run(const gpu::ChooseExperts& k, uint32_t x, uint32_t y) override {
    Start(k, x, y, "choose experts");
  }
  void Run(const gpu::GroupRows& k, uint32_t x, uint32_t y) override {
    Start(k, x, y, "group rows");
  }
  void Run(const gpu::GatherRows& k, uint32_t x, uint32_t y) override {
    Start(k, x, y, "gather rows");
  }
  void Run(const gpu::SumExperts& k, uint32_t x, uint32_t y) override {
    Start(k, x, y, "sum experts");
  }
  void Multiply(const gpu::Product& product, gpu::PanelKind weights) override {
    if (!BelongsHere()) return;
    Note(gpu::Launch(product, weights, now_), "product");
  }
  void Multiply(const gpu::JointProducts& products, gpu::PanelKind weights) override {
    if (!BelongsHere()) return;
    Note(gpu::Launch(products, weights, now_), "products");
  }
  void Multiply(const gpu::GroupedProduct& product, gpu::PanelKind weights) override {
    if (!BelongsHere()) return;
    Note(gpu::Launch(product, weights, now_), "products of experts");
  }

  void BeginRecording() override {
    if (!BelongsHere()) return;
    Note(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "recording");
  }
  bool EndRecording(uint64_t key) override {
    cudaGraph_t graph = nullptr;
    Note(cudaStreamEndCapture(stream_, &graph), "recording");
    if (graph == nullptr) return false;
    size_t kernel_count = 0;
    Note(cudaGraphGetNodes(graph, nullptr, &kernel_count), "recording");
    if (kept_count_ + kernel_count > kKernelsKeptMax) ForgetGraphs();
    cudaGraphExec_t made = nullptr;
    Note(cudaGraphInstantiate(&made, graph, 0), "recording");
    cudaGraphDestroy(graph);
    if (made == nullptr) return false;
    graphs_[key] = made;
    kept_count_ += kernel_count;
    return Replay(key);
  }
  bool Replay(uint64_t key) override {
    const auto graph = graphs_.find(key);
    if (graph == graphs_.end()) return false;
    if (BelongsHere()) Note(cudaGraphLaunch(graph->second, stream_), "replaying");
    return true;
  }

  void Mark(uint32_t mark) override {
    if (!BelongsHere()) return;
    cudaEvent_t& event = marks_[mark];
    if (event == nullptr) Note(cudaEventCreate(&event), "clock");
    if (event != nullptr) Note(cudaEventRecord(event, now_), "clock");
  }
  Duration Between(uint32_t from, uint32_t to) override {
    const auto begin = marks_.find(from), end = marks_.find(to);
    if (begin == marks_.end() || end == marks_.end()) return Duration::zero();
    float milliseconds = 0;
    if (cudaEventElapsedTime(&milliseconds, begin->second, end->second) != cudaSuccess) {
      cudaGetLastError();  // a reading that failed has been told, and is no later call's
      return Duration::zero();
    }
    return std::chrono::duration_cast<Duration>(
        std::chrono::duration<float, std::milli>(milliseconds));
  }

  absl::Status Wait() override {
    if (BelongsHere()) {
      Note(cudaStreamSynchronize(stream_), "waiting");
      Note(cudaStreamSynchronize(side_), "waiting");
    }
    return std::exchange(status_, absl::OkStatus());
  }

 private:
  static constexpr std::string_view kBeside = "work beside";
  // A graph of a large model is a few megabytes, some kilobytes a kernel: 64 shapes of runs of 600
  // kernels are kept, whatever pieces they come in, and then all anew.
  static constexpr size_t kKernelsKeptMax = size_t{64} * 600;
  // The driver takes so much of memory that is not pinned before a call returns.
  static constexpr size_t kCopiedAtOnce = 64 * 1024;

  void ForgetGraphs() {
    for (const auto& [key, graph] : graphs_) cudaGraphExecDestroy(graph);
    graphs_.clear();
    kept_count_ = 0;
  }
  // Calls come from any thread, and each has a device of its own.
  bool BelongsHere() {
    Note(cudaSetDevice(ordinal_), "choosing the GPU");
    return status_.ok();
  }
  // The first error is the one that is told.
  void Note(cudaError_t error, std::string_view what) {
    if (error == cudaSuccess || !status_.ok()) return;
    status_ = CudaStatus(error, Concat(name_, ": ", what));
  }
  // What is asked for beside from now on waits for what has been asked for.
  void MeetBeside() {
    Note(cudaEventRecord(is_reached_, stream_), kBeside);
    Note(cudaStreamWaitEvent(side_, is_reached_, 0), kBeside);
  }
  void Copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
    if (BelongsHere()) Note(cudaMemcpyAsync(to, from, bytes, kind, now_), "copying");
  }
  template <typename Kernel>
  void Start(const Kernel& kernel, uint32_t x, uint32_t y, std::string_view what) {
    if (BelongsHere()) Note(gpu::Launch(kernel, {x, y}, now_), what);
  }

  const int ordinal_;
  const int compute_capability_;
  const std::string name_;
  cudaStream_t stream_ = nullptr;
  cudaStream_t side_ = nullptr;       // for what is done beside it
  cudaStream_t now_ = nullptr;        // the one of them that is asked
  cudaEvent_t is_reached_ = nullptr;  // by the first, for the second to wait for
  std::map<uint64_t, cudaGraphExec_t> graphs_;
  size_t kept_count_ = 0;  // kernels in them
  std::map<uint32_t, cudaEvent_t> marks_;
  std::map<uint32_t, cudaEvent_t> departures_;  // that they have arrived
  absl::Status status_;                         // since the last Wait()
};

}  // namespace

absl::StatusOr<std::unique_ptr<DeviceQueue>> OpenCudaQueue(uint32_t ordinal) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<CudaDevice> devices, CudaDevices());
  if (ordinal >= devices.size()) {
    return FailedPrecondition("cuda:", ordinal, ": this machine has ", devices.size(),
                              " GPUs, counted from 0");
  }
  auto queue = std::make_unique<CudaQueue>(
      devices[ordinal], Concat("cuda:", ordinal, " (", devices[ordinal].name, ")"));
  OUTRIDER_RETURN_IF_ERROR(queue->Open());
  return queue;
}

}  // namespace outrider
