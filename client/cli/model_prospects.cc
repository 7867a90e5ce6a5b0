#include "client/cli/model_prospects.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <memory>
#include <thread>

#include "common/base/buffer.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/base/thread_pool.h"
#include "common/formats/models/exits_file.h"
#include "common/kernels/weight_matrix.h"
#include "common/model/model_spec.h"
#include "common/model/weights/type_speed.h"
#include "common/text/fingerprint.h"

namespace outrider {
namespace {

// A folder of downloads may hold hundreds of models, and each is opened.
constexpr size_t kNeighboursMax = 64;

// All weights but what a token looks up and what a router leaves out.
uint64_t PassBytes(const ModelFile& model) {
  const Hyperparameters& numbers = model.hyperparameters();
  uint64_t bytes = 0;
  for (const ModelTensor& tensor : model.tensors()) {
    const bool looked_up = tensor.name == "token_embd.weight" && !numbers.tied_embeddings;
    if (looked_up || tensor.name == "position_embd.weight") continue;
    const bool expert = tensor.name.find("_exps.") != std::string::npos;
    bytes += expert && numbers.experts.count > 0
                 ? tensor.bytes / numbers.experts.count * numbers.experts.used_count
                 : tensor.bytes;
  }
  return bytes;
}

// How many bytes a second all processors together read of memory that no cache holds.
double MemorySpeed() {
  constexpr size_t kBytes = size_t{128} << 20;
  constexpr int kRounds = 3;
  const auto pool = ThreadPool::Create(std::max(1u, std::thread::hardware_concurrency()));
  absl::StatusOr<PageBuffer> memory = PageBuffer::CreateLarge(kBytes);
  if (!pool.ok() || !memory.ok()) return 0;
  const std::span<std::byte> bytes = memory->bytes();
  std::memset(bytes.data(), 1, bytes.size());
  std::atomic<uint64_t> sum = 0;  // that nobody leaves the reading out
  double seconds = 1e9;
  for (int round = 0; round < kRounds; ++round) {
    const MonotonicTime begin = RealClock().Now();
    (*pool)->ParallelRanges(kBytes / 64, [&](size_t first, size_t last, uint32_t) {
      uint64_t words[8] = {}, line[8];
      for (size_t i = first; i < last; ++i) {
        std::memcpy(line, bytes.data() + 64 * i, sizeof(line));
        for (int k = 0; k < 8; ++k) words[k] += line[k];
      }
      for (const uint64_t word : words) sum += word;
    });
    const std::chrono::duration<double> taken = RealClock().Now() - begin;
    seconds = std::min(seconds, taken.count());
  }
  return sum == 0 ? 0 : static_cast<double>(kBytes) / seconds;
}

// A file whose name says so, or what Hugging Face keeps a model in.
bool MayBeModel(const std::filesystem::path& path) {
  std::error_code ignored;
  return path.extension() == ".gguf" || std::filesystem::exists(path / "config.json", ignored);
}

// Other models beside this one, and exits in the directory that it is, in the order of their names.
std::vector<std::string> Neighbours(const std::string& path) {
  std::error_code ignored;
  std::filesystem::path own = std::filesystem::absolute(path, ignored).lexically_normal();
  if (!own.has_filename()) own = own.parent_path();  // "folder/"
  std::vector<std::string> files;
  for (const auto& folder : {own, own.parent_path()}) {
    for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
      if (!MayBeModel(entry.path())) continue;
      if (std::filesystem::equivalent(entry.path(), own, ignored)) continue;
      files.push_back(entry.path().string());
    }
  }
  std::ranges::sort(files);
  if (files.size() > kNeighboursMax) files.resize(kNeighboursMax);
  return files;
}

bool IsDraft(const std::string& file, const ModelFile& target, uint64_t fingerprint) {
  const auto model = ModelFile::Open(file);
  if (!model.ok() || !ModelSpec::From(**model, file).ok()) return false;
  if ((*model)->file_bytes() * 2 > target.file_bytes()) return false;
  const auto spec = (*model)->ReadTokenizer();
  return spec.ok() && TokenizerFingerprint(*spec) == fingerprint;
}

// By its shape; whether they are of the very weights only loading them tells.
bool IsExits(const std::string& file, const Hyperparameters& target) {
  const auto exits = ReadExits(file);
  return exits.ok() && exits->target.embedding_length == target.embedding_length &&
         exits->target.layer_count == target.block_count &&
         exits->target.vocabulary_size == target.vocabulary_size;
}

}  // namespace

ModelProspects FindProspects(const ModelFile& model, const std::string& path, uint64_t needed_bytes,
                             std::optional<uint64_t> fingerprint) {
  ModelProspects prospects;
  if (const auto spec = ModelSpec::From(model, path); !spec.ok()) {
    prospects.why_not = Message(spec.status());
  }
  prospects.slow_types = TypesWithoutKernels(model);
  prospects.needed_bytes = needed_bytes;
  prospects.available_bytes =
      static_cast<uint64_t>(sysconf(_SC_AVPHYS_PAGES)) * PageBuffer::PageSize();
  prospects.pass_bytes = PassBytes(model);
  static const double memory_speed = MemorySpeed();  // of the machine, whatever the model
  prospects.bytes_per_second = memory_speed;
  for (const std::string& file : Neighbours(path)) {
    const std::string name = std::filesystem::path(file).filename().string();
    if (fingerprint && IsDraft(file, model, *fingerprint)) prospects.drafts.push_back(name);
    if (IsExits(file, model.hyperparameters())) prospects.exits.push_back(name);
  }
  return prospects;
}

}  // namespace outrider
