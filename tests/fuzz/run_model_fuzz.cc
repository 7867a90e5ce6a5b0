// A model of any family and any type whose file was spoilt somewhere is refused with a sentence, or
// opens, and is then inspected as `outrider inspect` does and runs three tokens, or says why not.
//
// The first byte chooses the family, the second the type. A small random model of these is edited:
// thirteen bytes an edit, four of where, one of what is done there (its top bit: in the metadata or
// the list of tensors), eight of with what. tests/fuzz/campaign --runs 20000 run_model spoils so
// many files, of every family and type alike.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "client/cli/model_summary.h"
#include "common/base/check.h"
#include "common/base/ieee_mode.h"
#include "common/base/status.h"
#include "common/base/thread_pool.h"
#include "common/engine/cpu_engine.h"
#include "common/formats/models/model_file.h"
#include "common/kernels/isa.h"
#include "common/kernels/kernels.h"
#include "common/tokens/chooser.h"
#include "tests/model/random_model.h"

// libFuzzer's; not there where inputs are only replayed.
extern "C" [[gnu::weak]] size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t size_max);

namespace outrider {
namespace {

constexpr std::array kFamilies = {"llama",    "mistral",  "qwen2",   "qwen3",  "gpt2",
                                  "mixtral",  "qwen3moe", "olmoe",   "gemma2", "gemma3",
                                  "phi3",     "smollm3",  "granite", "olmo2",  "stablelm",
                                  "qwen2moe", "cohere2",  "exaone4", "gptoss", "ministral3"};

constexpr std::array kTypes = {
    TensorType::kF32,     TensorType::kF16,    TensorType::kBF16,   TensorType::kQ8_0,
    TensorType::kQ4_0,    TensorType::kQ4_1,   TensorType::kQ5_0,   TensorType::kQ5_1,
    TensorType::kQ2_K,    TensorType::kQ3_K,   TensorType::kQ4_K,   TensorType::kQ5_K,
    TensorType::kQ6_K,    TensorType::kIQ4_NL, TensorType::kIQ4_XS, TensorType::kMXFP4,
    TensorType::kIQ2_XXS, TensorType::kIQ2_XS, TensorType::kIQ2_S,  TensorType::kIQ3_XXS,
    TensorType::kIQ3_S,   TensorType::kIQ1_S,  TensorType::kIQ1_M,  TensorType::kTQ1_0,
    TensorType::kTQ2_0};

constexpr size_t kEditBytes = 13;
constexpr size_t kEditsMax = 8;  // of more, hardly a file would open
constexpr uint32_t kTokens = 3;
constexpr uint32_t kContext = 64;

// Files in memory where there is such a file system.
const std::string& Place() {
  static const auto& place = *new std::string([] {
    const char* const shared = "/dev/shm";
    const std::string root = std::filesystem::is_directory(shared) ? shared : "/tmp";
    return root + "/outrider_run_model_fuzz." + std::to_string(getpid());
  }());
  return place;
}

std::string ReadBytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

struct Whole {
  std::string bytes;
  size_t header_bytes = 0;  // before the first tensor
};

// Small enough that there are many of them.
Hyperparameters Shrunk(Hyperparameters model) {
  if (model.experts.count > 0) {
    model.experts.count = std::min(model.experts.count, 5u);
    model.experts.used_count = std::min(model.experts.used_count, 2u);
  }
  model.feed_forward_length = std::min(model.feed_forward_length, 256u);
  model.vocabulary_size = 48;
  return model;
}

const Whole& WholeModel(const char* family, TensorType type) {
  static auto& made = *new std::map<std::pair<std::string, TensorType>, Whole>;
  Whole& whole = made[{family, type}];
  if (!whole.bytes.empty()) return whole;
  const std::string path = Place() + "/whole.gguf";
  WriteRandomModel(Shrunk(SmallModel(family)), type, path);
  whole.bytes = ReadBytes(path);
  const auto model = ModelFile::Open(path);
  OUTRIDER_CHECK_OK(model.status());
  whole.header_bytes = whole.bytes.size();
  for (const ModelTensor& tensor : (*model)->tensors()) {
    whole.header_bytes = std::min<size_t>(whole.header_bytes, tensor.place->offset);
  }
  std::filesystem::remove(path);  // else a model inspected beside it has a draft
  return whole;
}

struct Edit {
  uint32_t where;
  uint8_t what;
  uint64_t with;
};

Edit EditAt(const uint8_t* data) {
  Edit edit;
  std::memcpy(&edit.where, data, sizeof(edit.where));
  edit.what = data[4];
  std::memcpy(&edit.with, data + 5, sizeof(edit.with));
  return edit;
}

void Apply(const Edit& edit, size_t header_bytes, std::string& bytes) {
  if (bytes.empty()) return;
  const bool in_header = (edit.what & 0x80) != 0;
  const size_t at = edit.where % std::min(in_header ? header_bytes : bytes.size(), bytes.size());
  const size_t left = bytes.size() - at;
  constexpr size_t kLengths[] = {1, 2, 4, 8};
  switch (edit.what & 7) {
    case 0:
    case 1:
    case 2:
    case 3:  // other bytes
      std::memcpy(bytes.data() + at, &edit.with, std::min(left, kLengths[edit.what & 3]));
      break;
    case 4:  // one bit
      bytes[at] = static_cast<char>(bytes[at] ^ 1 << edit.with % 8);
      break;
    case 5:
      bytes.resize(at);
      break;
    case 6:
      bytes.insert(at, edit.with % 64, static_cast<char>(edit.with >> 8));
      break;
    default:
      bytes.erase(at, edit.with % 64);
      break;
  }
}

// Three tokens after three, or an error.
absl::Status RunTokens(const ModelFile& model, const std::string& path) {
  const ScopedIeeeMode ieee_mode;
  static const auto& pool = *new absl::StatusOr<std::unique_ptr<ThreadPool>>(ThreadPool::Create(2));
  OUTRIDER_RETURN_IF_ERROR(pool.status());
  const uint32_t context = std::min(model.hyperparameters().context_length, kContext);
  OUTRIDER_ASSIGN_OR_RETURN(
      const std::unique_ptr<CpuEngine> engine,
      LoadCpuEngine(model, path,
                    {.context_length = context, .node_count_max = 0, .row_count_max = kTokens},
                    KernelsFor(BestIsa()), **pool, nullptr));
  const uint32_t vocabulary = engine->info().vocabulary_size;
  OUTRIDER_ASSIGN_OR_RETURN(const Chooser chooser,
                            Chooser::Create({}, static_cast<int32_t>(vocabulary)));
  OUTRIDER_ASSIGN_OR_RETURN(const SequenceId sequence, engine->Open());
  TokenHistory history(
      {.vocabulary_size = static_cast<int32_t>(vocabulary), .capacity = size_t{4} * kTokens});
  std::vector<TokenId> given = {0, static_cast<TokenId>(vocabulary / 2),
                                static_cast<TokenId>(vocabulary - 1)};
  for (uint32_t i = 0; i < kTokens; ++i) {
    const auto count = static_cast<uint32_t>(given.size());
    OUTRIDER_RETURN_IF_ERROR(engine->Reserve(sequence, count, 0));
    OUTRIDER_RETURN_IF_ERROR(history.Append(given));
    const RunPart part = {.sequence = sequence, .chain = given};
    TreeWalk walk = {.root_row = count - 1, .nodes = {}, .chooser = &chooser, .history = &history};
    EngineRun run = {.parts = {&part, 1}, .walks = {&walk, 1}};
    OUTRIDER_RETURN_IF_ERROR(engine->Run(run));
    OUTRIDER_RETURN_IF_ERROR(walk.status);
    engine->Commit(sequence, count, {});
    given = {walk.outcome.next};
  }
  return absl::OkStatus();
}

void Try(const std::string& path) {
  const absl::StatusOr<std::unique_ptr<ModelFile>> model = ModelFile::Open(path);
  if (!model.ok()) {
    OUTRIDER_CHECK(!Message(model.status()).empty(), "a refusal says why");
    return;
  }
  const absl::StatusOr<ModelSummary> summary = Summarize(**model, path);
  if (summary.ok()) OUTRIDER_CHECK(!ToTable(*summary).empty(), "a model can be told of");
  (void)RunTokens(**model, path);
}

}  // namespace
}  // namespace outrider

// Every family and type as often as every other, whatever covers the most code.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t size_max,
                                          unsigned int seed) {
  std::minstd_rand random(seed);
  constexpr size_t kLongest = 2 + outrider::kEditsMax * outrider::kEditBytes;
  size = LLVMFuzzerMutate(data, std::min(size, kLongest), std::min(size_max, kLongest));
  if (size < 2) return size;
  data[0] = static_cast<uint8_t>(random() >> 8);
  data[1] = static_cast<uint8_t>(random() >> 8);
  return size;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace outrider;
  if (size < 2) return 0;
  std::filesystem::create_directories(Place());
  const Whole& whole =
      WholeModel(kFamilies[data[0] % kFamilies.size()], kTypes[data[1] % kTypes.size()]);
  std::string bytes = whole.bytes;
  for (size_t at = 2; at + kEditBytes <= size; at += kEditBytes) {
    Apply(EditAt(data + at), whole.header_bytes, bytes);
  }
  const std::string path = Place() + "/model.gguf";
  std::ofstream(path, std::ios::binary)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  Try(path);
  std::filesystem::remove_all(Place());
  return 0;
}
