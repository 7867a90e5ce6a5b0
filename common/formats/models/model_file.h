// One view over every format a model comes in: a GGUF file (or its shards) and a Hugging Face
// directory look the same from here on. Tensors carry GGUF names, GGUF dimension order and GGUF row
// order; where the file stores them otherwise (Llama's q and k rows, GPT-2's transposed matrices,
// experts in separate tensors or two matrices in one, panels), ReadRows() does the rearranging.
//
//   OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<ModelFile> model, ModelFile::Open("qwen2.5.gguf"));
//   const ModelTensor* q = model->Find("blk.3.attn_q.weight");
//   std::vector<std::byte> rows(16 * RowBytes(q->type, q->dims[0]));
//   OUTRIDER_RETURN_IF_ERROR(model->ReadRows(*q, 0, 16, rows));
//
// Open() holds the tensors against what the hyperparameters ask for (tensor_layout.h): none is
// missing, none unknown, every shape is right. Only a GGUF file without any tensor, a vocabulary,
// has none to be held to. Experts are stacked in one tensor, blk.N.ffn_up_exps.weight, unless a
// GGUF file gives each its own, blk.N.ffn_up.E.weight: those may differ in type.
//
// Threads: immutable after Open(); ReadRows() may run in several threads at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/formats/models/hyperparameters.h"
#include "common/formats/tensors/panels.h"
#include "common/formats/tensors/tensor_type.h"
#include "common/formats/tokenizers/tokenizer_spec.h"

namespace outrider {

class GgufWriter;

struct ModelTensor {
  std::string name;  // "blk.3.attn_q.weight"
  TensorType type;
  std::vector<uint64_t> dims;  // dims[0] is contiguous
  uint64_t bytes;              // of all rows

  // Where the rows lie when they lie in one piece and in this order, or in panels
  // (tensors/panels.h); empty for what ReadRows() has to rearrange otherwise, or make.
  struct Place {
    uint32_t file;  // index for ModelFile::file_path
    uint64_t offset;
    WeightLayout layout = WeightLayout::kRows;
  };
  std::optional<Place> place;

  uint64_t row_count() const;  // product of dims[1..]
};

class ModelFile {
 public:
  // `path`: a .gguf file (the first shard of a split one), or a directory with config.json and
  // *.safetensors.
  static absl::StatusOr<std::unique_ptr<ModelFile>> Open(const std::string& path);

  virtual ~ModelFile() = default;

  virtual std::string_view format() const = 0;  // "GGUF v3", "Hugging Face safetensors"
  virtual const Hyperparameters& hyperparameters() const = 0;
  virtual std::span<const ModelTensor> tensors() const = 0;
  virtual const ModelTensor* Find(std::string_view name) const = 0;
  virtual uint32_t file_count() const = 0;
  virtual const std::string& file_path(uint32_t file) const = 0;
  virtual uint64_t file_bytes() const = 0;

  // The content hash (content_parts.h) as the file itself has it on record; nothing where there is
  // no record, or one that was copied from another file (content_record.h).
  virtual std::optional<uint64_t> RecordedContentHash() const = 0;

  // What whoever runs the model should know of how its files were taken, a sentence each that starts
  // with the path; for a log or a terminal.
  virtual std::vector<std::string> Notices() const = 0;

  // Read when asked: a vocabulary is most of a small model's opening time. NotFound when the model
  // carries none.
  virtual absl::StatusOr<TokenizerSpec> ReadTokenizer() const = 0;

  // Everything but tensors that a GGUF file of this model has to say, tokenizer included. A GGUF
  // file passes on all it holds except how it was split and aligned.
  virtual absl::Status AddMetadata(GgufWriter& writer) const = 0;

  // Rows [first, first + count) of the tensor, each RowBytes(type, dims[0]) long, into `out` of
  // exactly that size. InvalidArgument for rows that are not there; DataLoss for bytes that are gone
  // since the file was opened, or cannot be read. Takes the memory of a few rows where they have to be
  // rearranged, and of a matrix where they are gathered from all over it.
  virtual absl::Status ReadRows(const ModelTensor& tensor, uint64_t first, uint64_t count,
                                std::span<std::byte> out) const = 0;
};

}  // namespace outrider
