// A model as a folder has it, of which one file was spoilt: config.json, tokenizer.json, weights,
// the exits beside them, or a GGUF file with its tokenizer. It is refused with a sentence, or
// opens, and is then inspected and runs three tokens, or says why not.
//
// The first byte chooses the model, the second which part of it is spoilt; then come edits
// (spoiling.h). tests/fuzz/campaign --runs 20000 run_directory
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/formats/models/convert.h"
#include "common/formats/models/exits_file.h"
#include "tests/fuzz/model_trial.h"
#include "tests/fuzz/spoiling.h"
#include "tests/model/exits.h"
#include "tests/test_files.h"

namespace outrider {
namespace {

// Those of tests/data/models; "llama_converted" is a GGUF file made of the first.
constexpr std::array kModels = {
    "llama",     "llama_converted", "gpt2",         "qwen3", "qwen2", "mistral", "mixtral",
    "qwen3_moe", "olmoe",           "llama_biased", "t5",    "bart",  "switch"};
constexpr char kConverted[] = "model.gguf";

// What is spoilt by itself: a file, or a safetensors file's header with the right length before it.
struct Part {
  std::string file;
  WholeFile whole;
  std::optional<std::string> weights = {};  // behind a header
};

struct Folder {
  std::map<std::string, std::string> files;
  std::vector<Part> parts;
};

std::string WithLength(const std::string& header) {
  const uint64_t length = header.size();
  std::string bytes(sizeof(length), '\0');
  std::memcpy(bytes.data(), &length, sizeof(length));
  return bytes + header;
}

void AddSafetensors(const std::string& name, const std::string& bytes, Folder& folder) {
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof(length));
  folder.parts.push_back({.file = name,
                          .whole = WholeJson(bytes.substr(sizeof(length), length)),
                          .weights = bytes.substr(sizeof(length) + length)});
  WholeFile raw = {.bytes = bytes,
                   .records = {{.at = 0, .count_at = {}}},
                   .records_end = sizeof(length) + length};
  folder.parts.push_back({.file = name, .whole = std::move(raw)});
}

void AddPart(const std::string& name, const std::string& bytes, Folder& folder) {
  if (name.ends_with(".json")) {
    folder.parts.push_back({.file = name, .whole = WholeJson(bytes)});
  } else if (name.ends_with(".gguf")) {
    folder.parts.push_back({.file = name, .whole = WholeGguf(bytes)});
  } else {
    AddSafetensors(name, bytes, folder);
  }
}

// Of a model in `place` that runs.
void MakeExits(const std::string& place, const std::string& path, const std::string& exits_path) {
  const auto model = ModelFile::Open(path);
  OUTRIDER_CHECK_OK(model.status());
  const auto engine = LoadForTrial(**model, path);
  if (!engine.ok()) return;  // what has an encoder has no exits
  TrainedExits exits = RandomExits((*engine)->spec(), (*engine)->info().content_hash, {0}, 8, 0.5f);
  ExitCalibration& calibration = exits.exits[0].greedy.emplace();
  calibration.doubt = {.knots = {0, 1, 2}, .slopes = {-1, -2}};
  calibration.margin = {.knots = {0, 2}, .slopes = {1}};
  OUTRIDER_CHECK_OK(WriteExits(exits, place + "/" + exits_path));
}

Folder MakeFolder(const std::string& name, const std::string& place) {
  const bool is_converted = name == kModels[1];
  const std::string from = TestFile("models/" + (is_converted ? kModels[0] : name));
  if (is_converted) {
    const auto model = ModelFile::Open(from);
    OUTRIDER_CHECK_OK(model.status());
    OUTRIDER_CHECK_OK(Convert(**model, place + "/" + kConverted, {}, [](uint64_t, auto) {}));
    MakeExits(place, place + "/" + kConverted, "model.exits.gguf");
  } else {
    std::filesystem::copy(from, place);
    MakeExits(place, place, "exits.gguf");
  }
  Folder folder;
  for (const auto& entry : std::filesystem::directory_iterator(place)) {
    folder.files[entry.path().filename()] = ReadFile(entry.path());
  }
  for (const auto& [file, bytes] : folder.files) AddPart(file, bytes, folder);
  return folder;
}

const Folder& WholeFolder(const std::string& name, const std::string& place) {
  static auto& made = *new std::map<std::string, Folder>;
  Folder& folder = made[name];
  if (folder.files.empty()) folder = MakeFolder(name, place);
  return folder;
}

void Write(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

}  // namespace
}  // namespace outrider

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t size_max,
                                          unsigned int seed) {
  return outrider::MutateSpoilt(data, size, size_max, seed);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace outrider;
  if (size < 2) return 0;
  static const auto& place = *new std::string(TrialFolder("run_directory_fuzz"));
  std::filesystem::create_directories(place);
  const std::string name = kModels[data[0] % kModels.size()];
  const Folder& folder = WholeFolder(name, place);
  const Part& part = folder.parts[data[1] % folder.parts.size()];
  const std::string spoilt = Spoilt(part.whole, data, size, 2);
  for (const auto& [file, bytes] : folder.files) {
    if (file != part.file) Write(place + "/" + file, bytes);
  }
  Write(place + "/" + part.file, part.weights ? WithLength(spoilt) + *part.weights : spoilt);
  TryModel(folder.files.contains(kConverted) ? place + "/" + kConverted : place);
  std::filesystem::remove_all(place);
  return 0;
}
