#include "common/formats/models/model_file.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "common/base/plain_file.h"
#include "common/base/status.h"
#include "common/formats/containers/gguf_file.h"
#include "common/formats/containers/gguf_writer.h"
#include "common/formats/containers/safetensors.h"
#include "common/formats/models/content_record.h"
#include "common/formats/models/hf_tensor_names.h"
#include "common/formats/models/hf_tensors.h"
#include "common/formats/models/stored_tensor.h"
#include "common/formats/models/tensor_layout.h"
#include "common/formats/tokenizers/tokenizer_files.h"

namespace outrider {
namespace {

namespace fs = std::filesystem;

// What both formats come down to: hyperparameters, and tensors that know where their rows are.
class StoredModel : public ModelFile {
 public:
  StoredModel(Hyperparameters hyperparameters, std::vector<StoredTensor> stored)
      : hyperparameters_(std::move(hyperparameters)), stored_(std::move(stored)) {
    for (const StoredTensor& tensor : stored_) {
      index_.emplace(tensor.tensor.name, tensors_.size());
      tensors_.push_back(tensor.tensor);
    }
  }

  const Hyperparameters& hyperparameters() const override { return hyperparameters_; }
  std::span<const ModelTensor> tensors() const override { return tensors_; }

  const ModelTensor* Find(std::string_view name) const override {
    const auto found = index_.find(std::string(name));
    return found == index_.end() ? nullptr : &tensors_[found->second];
  }

  absl::Status ReadRows(const ModelTensor& tensor, uint64_t first, uint64_t count,
                        std::span<std::byte> out) const override {
    const auto found = index_.find(tensor.name);
    if (found == index_.end()) return NotFound(path(), ": has no tensor ", tensor.name);
    const StoredTensor& stored = stored_[found->second];
    const uint64_t rows = stored.tensor.row_count();
    if (first > rows || count > rows - first) {
      return InvalidArgument(path(), ": tensor ", tensor.name, " has ", rows, " rows, not ", count,
                             " from row ", first);
    }
    const uint64_t bytes = count * RowBytes(stored.tensor.type, stored.tensor.dims[0]);
    if (out.size() != bytes) {
      return InvalidArgument(path(), ": ", count, " rows of tensor ", tensor.name, " are ", bytes,
                             " bytes, not ", out.size());
    }
    const std::string what = Concat("tensor ", tensor.name);
    const auto read = [&](uint32_t file, uint64_t offset, std::span<std::byte> part) {
      return ReadFile(file, offset, part, what);
    };
    return CopyRows(stored, first, count, read, gathered_, out);
  }

 protected:
  virtual const std::string& path() const = 0;

  // As FileReader has it; `what` is for the error.
  virtual absl::Status ReadFile(uint32_t file, uint64_t offset, std::span<std::byte> out,
                                std::string_view what) const = 0;

 private:
  Hyperparameters hyperparameters_;
  std::vector<StoredTensor> stored_;
  std::vector<ModelTensor> tensors_;  // as in stored_
  absl::flat_hash_map<std::string, size_t> index_;
  mutable GatheredPiece gathered_;  // synchronizes itself
};

// --- GGUF ---

class GgufModel : public StoredModel {
 public:
  GgufModel(std::string path, GgufFile file, Hyperparameters hyperparameters,
            std::vector<StoredTensor> stored)
      : StoredModel(std::move(hyperparameters), std::move(stored)),
        path_(std::move(path)),
        file_(std::move(file)),
        format_(Concat("GGUF v", file_.version(), HasPanels(file_) ? ", laid out for flash" : "")) {
  }

  std::string_view format() const override { return format_; }
  uint32_t file_count() const override { return file_.shard_count(); }
  const std::string& file_path(uint32_t file) const override { return file_.shard_path(file); }
  uint64_t file_bytes() const override { return file_.file_bytes(); }
  std::optional<uint64_t> RecordedContentHash() const override {
    return ReadContentRecord(file_, tensors());
  }
  std::vector<std::string> Notices() const override {
    if (!GuessesHowTextIsCut(file_)) return {};
    return {
        Concat(path_,
               ": does not say in tokenizer.ggml.pre how its tokenizer cuts text; it is cut as "
               "llama.cpp does by default, and the model may have learned otherwise: convert it "
               "again with a current converter")};
  }
  absl::StatusOr<TokenizerSpec> ReadTokenizer() const override {
    return TokenizerFromGguf(file_, path_);
  }
  absl::Status AddMetadata(GgufWriter& writer) const override {
    for (const GgufKeyValue& entry : file_.metadata()) {
      const bool of_the_old_file = entry.key == "general.alignment" ||
                                   entry.key.starts_with("split.") ||
                                   entry.key == kContentHashKey || entry.key == kContentTableKey;
      if (!of_the_old_file) writer.AddCopy(entry.key, entry.value);
    }
    return absl::OkStatus();
  }

 protected:
  const std::string& path() const override { return path_; }
  absl::Status ReadFile(uint32_t file, uint64_t offset, std::span<std::byte> out,
                        std::string_view what) const override {
    return file_.ReadAt(file, offset, out, what);
  }

 private:
  static bool HasPanels(const GgufFile& file) {
    return std::ranges::any_of(file.tensors(), [](const GgufTensor& tensor) {
      return tensor.layout == WeightLayout::kPanels;
    });
  }

  std::string path_;
  GgufFile file_;
  std::string format_;
};

StoredTensor AsStored(const GgufTensor& tensor) {
  StoredTensor stored;
  stored.stored_name = tensor.name;
  stored.tensor = {std::string(tensor.name), tensor.type, tensor.dims, 0,
                   ModelTensor::Place{tensor.shard, tensor.offset, tensor.layout}};
  stored.tensor.bytes = stored.tensor.row_count() * RowBytes(tensor.type, tensor.dims[0]);
  if (tensor.layout == WeightLayout::kPanels) stored.source.order = RowSource::Order::kPanels;
  stored.source.pieces = {{tensor.shard, tensor.offset, tensor.bytes}};
  return stored;
}

// One half of a fused blk.N.ffn_gate_up_exps.weight: of each expert's rows the first are the
// gate's.
StoredTensor HalfOfEachExpert(const GgufTensor& fused, std::string name, uint64_t half) {
  StoredTensor stored = AsStored(fused);
  const FilePart whole = stored.source.pieces[0];
  stored.tensor.name = std::move(name);
  stored.tensor.dims[1] /= 2;
  stored.tensor.bytes /= 2;
  stored.tensor.place.reset();
  stored.source.pieces.clear();
  const uint64_t half_bytes = whole.bytes / fused.dims[2] / 2;
  for (uint64_t expert = 0; expert < fused.dims[2]; ++expert) {
    stored.source.pieces.push_back(whole.Sub((2 * expert + half) * half_bytes, half_bytes));
  }
  return stored;
}

std::vector<StoredTensor> StoredTensors(const GgufFile& file) {
  constexpr std::string_view kFused = "ffn_gate_up_exps.weight";
  std::vector<StoredTensor> tensors;
  for (const GgufTensor& tensor : file.tensors()) {
    const bool halves = tensor.name.ends_with(kFused) && tensor.dims.size() == 3 &&
                        tensor.dims[1] % 2 == 0 && tensor.layout == WeightLayout::kRows;
    if (!halves) {
      tensors.push_back(AsStored(tensor));
      continue;
    }
    const std::string_view block = tensor.name.substr(0, tensor.name.size() - kFused.size());
    tensors.push_back(HalfOfEachExpert(tensor, Concat(block, "ffn_gate_exps.weight"), 0));
    tensors.push_back(HalfOfEachExpert(tensor, Concat(block, "ffn_up_exps.weight"), 1));
  }
  return tensors;
}

absl::StatusOr<std::unique_ptr<ModelFile>> OpenGguf(const std::string& path) {
  OUTRIDER_ASSIGN_OR_RETURN(GgufFile file, GgufFile::Open(path));
  OUTRIDER_ASSIGN_OR_RETURN(Hyperparameters hyperparameters, HyperparametersFromGguf(file, path));
  std::vector<StoredTensor> stored = StoredTensors(file);
  if (!stored.empty()) {
    std::vector<FoundTensor> found;
    for (const StoredTensor& tensor : stored) {
      found.push_back({tensor.tensor.name, tensor.tensor.dims, tensor.stored_name});
    }
    OUTRIDER_RETURN_IF_ERROR(CheckTensors(hyperparameters, found, path));
  }
  return std::make_unique<GgufModel>(path, std::move(file), std::move(hyperparameters),
                                     std::move(stored));
}

// --- Hugging Face ---

class HfModel : public StoredModel {
 public:
  HfModel(std::string directory, SafetensorsSet files, Hyperparameters hyperparameters,
          std::vector<StoredTensor> stored)
      : StoredModel(std::move(hyperparameters), std::move(stored)),
        directory_(std::move(directory)),
        files_(std::move(files)) {}

  std::string_view format() const override { return "Hugging Face safetensors"; }
  uint32_t file_count() const override { return files_.shard_count(); }
  const std::string& file_path(uint32_t file) const override { return files_.shard_path(file); }
  uint64_t file_bytes() const override { return files_.file_bytes(); }
  std::optional<uint64_t> RecordedContentHash() const override { return std::nullopt; }
  std::vector<std::string> Notices() const override {
    const auto is_of_images = [](const SafetensorsTensor& tensor) {
      return IsOfImages(tensor.name);
    };
    if (std::ranges::none_of(files_.tensors(), is_of_images)) return {};
    return {Concat(directory_,
                   ": was made to look at images too; only what it does with text is used here")};
  }
  absl::StatusOr<TokenizerSpec> ReadTokenizer() const override {
    return TokenizerFromDirectory(directory_);
  }
  absl::Status AddMetadata(GgufWriter& writer) const override {
    AddHyperparameterMetadata(hyperparameters(), writer);
    absl::StatusOr<TokenizerSpec> tokenizer = ReadTokenizer();
    if (absl::IsNotFound(tokenizer.status())) return absl::OkStatus();
    if (!tokenizer.ok()) return tokenizer.status();
    OUTRIDER_RETURN_IF_ERROR(PadVocabulary(*tokenizer));
    AddTokenizerMetadata(*tokenizer, writer);
    return absl::OkStatus();
  }

 protected:
  const std::string& path() const override { return directory_; }
  absl::Status ReadFile(uint32_t file, uint64_t offset, std::span<std::byte> out,
                        std::string_view what) const override {
    return files_.ReadAt(file, offset, out, what);
  }

 private:
  // Embeddings are often longer than the vocabulary, for the sake of a round number. A GGUF file
  // names every row.
  absl::Status PadVocabulary(TokenizerSpec& tokenizer) const {
    const size_t rows = hyperparameters().vocabulary_size;
    if (tokenizer.tokens.size() > rows) {
      return InvalidArgument(directory_, ": its tokenizer has ", tokenizer.tokens.size(),
                             " tokens, its config.json a vocab_size of ", rows);
    }
    while (tokenizer.tokens.size() < rows) {
      tokenizer.tokens.push_back(
          {.text = Concat("[PAD", tokenizer.tokens.size(), "]"), .kind = TokenKind::kUnused});
    }
    return absl::OkStatus();
  }

  std::string directory_;
  SafetensorsSet files_;
};

// What a directory holds, by the ends of its files' names.
struct Contents {
  std::string gguf;  // the first by name
  bool safetensors = false;
  bool pytorch = false;
};

absl::StatusOr<Contents> LookInto(const std::string& directory) {
  Contents contents;
  std::error_code error;
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end;
       entry.increment(error)) {
    const fs::path file = entry->path().filename();
    const std::string extension = file.extension().string();
    if (extension == ".gguf" && (contents.gguf.empty() || file.string() < contents.gguf)) {
      contents.gguf = file.string();
    }
    contents.safetensors |= extension == ".safetensors";
    contents.pytorch |= extension == ".bin" || extension == ".pt" || extension == ".pth";
  }
  if (error) return ErrnoStatus(error.value(), Concat(directory, ": cannot list"));
  return contents;
}

// A sentence for every directory that is not what we read, with what to do about it.
absl::Status CheckDirectory(const std::string& directory) {
  OUTRIDER_ASSIGN_OR_RETURN(const Contents contents, LookInto(directory));
  std::error_code error;
  const bool has_config = fs::exists(fs::path(directory) / "config.json", error);
  if (!has_config && !contents.gguf.empty()) {
    return InvalidArgument(directory, ": is a directory of GGUF files; name one of them, such as ",
                           (fs::path(directory) / contents.gguf).string());
  }
  if (!has_config) {
    return NotFound(directory, ": has no config.json, so it is no Hugging Face model directory");
  }
  if (!contents.safetensors && contents.pytorch) {
    return Unimplemented(directory,
                         ": has its weights as PyTorch pickles, which can run code and are not "
                         "read; load it with transformers and save_pretrained() it as safetensors");
  }
  if (!contents.safetensors) {
    return NotFound(directory, ": has a config.json but no *.safetensors with weights");
  }
  return absl::OkStatus();
}

// The directory's own name, whatever path led to it ("." included).
std::string DirectoryName(const std::string& directory) {
  std::error_code error;
  const fs::path whole = fs::canonical(directory, error);
  return error ? directory : whole.filename().string();
}

absl::StatusOr<std::unique_ptr<ModelFile>> OpenDirectory(const std::string& directory) {
  OUTRIDER_RETURN_IF_ERROR(CheckDirectory(directory));
  const std::string config_path = (fs::path(directory) / "config.json").string();
  OUTRIDER_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(config_path));
  OUTRIDER_ASSIGN_OR_RETURN(Hyperparameters hyperparameters,
                            HyperparametersFromConfig(text, config_path));
  hyperparameters.name = DirectoryName(directory);
  OUTRIDER_ASSIGN_OR_RETURN(SafetensorsSet files, SafetensorsSet::Open(directory));
  OUTRIDER_ASSIGN_OR_RETURN(std::vector<StoredTensor> stored,
                            MapHfTensors(files, directory, hyperparameters));
  return std::make_unique<HfModel>(directory, std::move(files), std::move(hyperparameters),
                                   std::move(stored));
}

}  // namespace

uint64_t ModelTensor::row_count() const {
  uint64_t rows = 1;
  for (size_t i = 1; i < dims.size(); ++i) rows *= dims[i];
  return rows;
}

absl::StatusOr<std::unique_ptr<ModelFile>> ModelFile::Open(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) {
    return NotFound(path, ": there is no such file or directory");
  }
  if (error) return ErrnoStatus(error.value(), Concat(path, ": cannot open"));
  if (fs::is_directory(status)) return OpenDirectory(path);
  const fs::path file(path);
  if (file.extension() == ".safetensors") {
    const std::string parent = file.has_parent_path() ? file.parent_path().string() : ".";
    return InvalidArgument(path, ": holds tensors only; open its directory, ", parent,
                           ", with the config.json beside it");
  }
  return OpenGguf(path);
}

}  // namespace outrider
