#include "bench/inflater/inflate.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <ranges>
#include <span>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/formats/containers/gguf_writer.h"
#include "common/formats/models/content_record.h"
#include "common/formats/models/convert.h"
#include "common/formats/models/execution_order.h"
#include "common/formats/models/hyperparameters.h"
#include "common/formats/models/quantization_mix.h"
#include "common/formats/tensors/dequantize.h"
#include "common/formats/tensors/quantize.h"

namespace outrider {
namespace {

constexpr uint64_t kBandBytes = uint64_t{4} << 20;

// --- where old numbers go ---

struct Run {
  uint64_t to;
  uint64_t from;
  uint64_t count;
};

// One dimension of a tensor: its new length, and the old entries in it. The rest is zero.
struct Axis {
  uint64_t length;
  std::vector<Run> runs;
};

Axis Padded(uint64_t from, uint64_t to) {
  return {to, {{0, 0, from}}};
}

// An old entry may be there several times.
std::vector<int64_t> SourceOfEach(const Axis& axis) {
  std::vector<int64_t> sources(axis.length, -1);
  for (const Run& run : axis.runs) {
    for (uint64_t i = 0; i < run.count; ++i) {
      sources[run.to + i] = static_cast<int64_t>(run.from + i);
    }
  }
  return sources;
}

// Runs that continue one another become one: blocks stay whole across heads.
void Append(const Run& run, Axis& axis) {
  if (!axis.runs.empty()) {
    Run& last = axis.runs.back();
    if (last.to + last.count == run.to && last.from + last.count == run.from) {
      last.count += run.count;
      return;
    }
  }
  axis.runs.push_back(run);
}

struct HeadCounts {
  uint32_t query;
  uint32_t key;

  uint32_t group() const { return query / key; }
};

// How often each old key head is needed, when no new one serves more than its share of queries.
uint32_t Copies(const HeadCounts& from, const HeadCounts& to) {
  return (from.group() + to.group() - 1) / to.group();
}

Axis QueryAxis(const HeadCounts& from, const HeadCounts& to, uint32_t head_length) {
  Axis axis = {uint64_t{to.query} * head_length, {}};
  for (uint32_t head = 0; head < from.query; ++head) {
    const uint32_t place = head % from.group();  // among those of its key head
    const uint32_t key_head = head / from.group() * Copies(from, to) + place / to.group();
    const uint32_t new_head = key_head * to.group() + place % to.group();
    Append({uint64_t{new_head} * head_length, uint64_t{head} * head_length, head_length}, axis);
  }
  return axis;
}

Axis KeyAxis(const HeadCounts& from, const HeadCounts& to, uint32_t head_length) {
  Axis axis = {uint64_t{to.key} * head_length, {}};
  const uint32_t copies = Copies(from, to);
  for (uint32_t head = 0; head < from.key * copies; ++head) {
    Append({uint64_t{head} * head_length, uint64_t{head / copies} * head_length, head_length},
           axis);
  }
  return axis;
}

// --- the plan ---

struct PlannedTensor {
  ModelTensor tensor;         // new
  const ModelTensor* source;  // null: all zeros, or ones in a norm
  Axis columns;
  Axis rows;  // of length 1 for a vector
  float scale = 1;
};

class Planner {
 public:
  Planner(const ModelFile& model, const std::string& path, const InflateOptions& options)
      : model_(model), path_(path), options_(options), old_(model.hyperparameters()), new_(old_) {}

  absl::Status Plan() {
    OUTRIDER_RETURN_IF_ERROR(CheckKind());
    OUTRIDER_RETURN_IF_ERROR(Grow());
    for (const ModelTensor& tensor : model_.tensors()) {
      if (!tensor.name.starts_with("blk.")) {
        OUTRIDER_RETURN_IF_ERROR(Add(tensor, tensor.name, tensor.name, 0, 0, true));
      }
    }
    for (uint32_t block = 0; block < new_.block_count; ++block) {
      OUTRIDER_RETURN_IF_ERROR(AddBlock(block));
    }
    return absl::OkStatus();
  }

  const Hyperparameters& numbers() const { return new_; }

  // Old layers are the last of those that make up their share of the depth.
  uint32_t NewBlock(uint32_t old_block) const {
    const uint64_t end = (uint64_t{old_block} + 1) * new_.block_count;
    return static_cast<uint32_t>((end + old_.block_count - 1) / old_.block_count) - 1;
  }

  // In execution order.
  std::vector<const PlannedTensor*> tensors() const {
    std::vector<ModelTensor> plain;
    for (const PlannedTensor& planned : planned_) plain.push_back(planned.tensor);
    std::vector<const PlannedTensor*> ordered;
    for (const ModelTensor* const tensor : ExecutionOrder(plain)) {
      ordered.push_back(&planned_[static_cast<size_t>(tensor - plain.data())]);
    }
    return ordered;
  }

 private:
  absl::Status CheckKind() const {
    if (old_.norm == NormKind::kLayer) {
      return Unimplemented(path_, ": has layer norms, which subtract the mean of what they see; ",
                           "new dimensions would move it, and only models of RMS norms grow");
    }
    if (old_.is_encoder_decoder() || old_.experts.count > 0) {
      return Unimplemented(path_, ": has an encoder or experts, and only plain decoders grow");
    }
    if (model_.tensors().empty()) {
      return InvalidArgument(path_, ": has no tensors, only a vocabulary");
    }
    return absl::OkStatus();
  }

  absl::Status Grow() {
    OUTRIDER_RETURN_IF_ERROR(Grow("--width", options_.embedding_length, new_.embedding_length));
    OUTRIDER_RETURN_IF_ERROR(Grow("--layers", options_.block_count, new_.block_count));
    OUTRIDER_RETURN_IF_ERROR(
        Grow("--feed-forward", options_.feed_forward_length, new_.feed_forward_length));
    const float share =
        static_cast<float>(old_.embedding_length) / static_cast<float>(new_.embedding_length);
    const bool has_head_norms = model_.Find("blk.0.attn_q_norm.weight") != nullptr;
    if (share < 1 && has_head_norms) {
      return Unimplemented(path_,
                           ": has norms in its heads, with the epsilon of all others, which ",
                           "more width changes; leave --width out");
    }
    new_.norm_epsilon = old_.norm_epsilon * share;
    new_.name = Concat(old_.name, ", inflated");
    new_.head_count.clear();
    new_.head_count_kv.clear();
    for (uint32_t block = 0; block < new_.block_count; ++block) {
      OUTRIDER_ASSIGN_OR_RETURN(const HeadCounts counts, GrownHeads(OldBlock(block)));
      new_.head_count.push_back(counts.query);
      new_.head_count_kv.push_back(counts.key);
    }
    return absl::OkStatus();
  }

  absl::Status Grow(std::string_view flag, uint32_t wanted, uint32_t& number) const {
    if (wanted == 0) return absl::OkStatus();
    if (wanted < number) {
      return InvalidArgument(path_, ": has ", number, " where ", flag, " asks for ", wanted,
                             "; a model only grows");
    }
    number = wanted;
    return absl::OkStatus();
  }

  absl::StatusOr<HeadCounts> GrownHeads(uint32_t old_block) const {
    const HeadCounts from = OldHeads(old_block);
    HeadCounts to = from;
    OUTRIDER_RETURN_IF_ERROR(Grow("--heads", options_.head_count, to.query));
    OUTRIDER_RETURN_IF_ERROR(Grow("--kv-heads", options_.kv_head_count, to.key));
    if (to.query % to.key != 0) {
      return InvalidArgument(
          path_, ": ", to.query, " heads cannot share ", to.key,
          " key heads evenly; ask for --heads that are a multiple of --kv-heads");
    }
    const uint32_t needed = from.key * Copies(from, to);
    if (needed > to.key) {
      return InvalidArgument(path_, ": has ", from.key, " key heads of ", from.group(),
                             " queries each, which need ", needed, " of ", to.group(),
                             " queries; ask for --kv-heads ", needed, " at least, or more --heads");
    }
    return to;
  }

  HeadCounts OldHeads(uint32_t block) const {
    return {old_.head_count[block], old_.head_count_kv[block]};
  }

  // The one that `block` is, or whose share it is part of.
  uint32_t OldBlock(uint32_t block) const {
    uint32_t old_block = 0;
    while (NewBlock(old_block) < block) ++old_block;
    return old_block;
  }

  absl::Status AddBlock(uint32_t block) {
    const uint32_t old_block = OldBlock(block);
    const bool is_old = NewBlock(old_block) == block;
    const std::string prefix = Concat("blk.", old_block, ".");
    for (const ModelTensor& tensor : model_.tensors()) {
      if (!tensor.name.starts_with(prefix)) continue;
      const std::string role = tensor.name.substr(prefix.size());
      OUTRIDER_RETURN_IF_ERROR(
          Add(tensor, role, Concat("blk.", block, ".", role), block, old_block, is_old));
    }
    return absl::OkStatus();
  }

  // `role` is the name without its block.
  absl::Status Add(const ModelTensor& tensor, const std::string& role, std::string name,
                   uint32_t block, uint32_t old_block, bool is_old) {
    PlannedTensor planned = {.tensor = {.name = std::move(name),
                                        .type = tensor.type,
                                        .dims = tensor.dims,
                                        .bytes = 0,
                                        .place = {}},
                             .source = is_old ? &tensor : nullptr,
                             .columns = Padded(tensor.dims[0], tensor.dims[0]),
                             .rows = Padded(tensor.row_count(), tensor.row_count())};
    OUTRIDER_RETURN_IF_ERROR(Place(role, block, old_block, planned));
    planned.tensor.dims[0] = planned.columns.length;
    if (planned.tensor.dims.size() > 1) planned.tensor.dims[1] = planned.rows.length;
    OUTRIDER_RETURN_IF_ERROR(ChooseType(tensor, planned));
    planned_.push_back(std::move(planned));
    return absl::OkStatus();
  }

  // What the tensor's rows and columns are.
  absl::Status Place(const std::string& role, uint32_t block, uint32_t old_block,
                     PlannedTensor& planned) const {
    const auto width = [&] { return Padded(old_.embedding_length, new_.embedding_length); };
    const auto inner = [&] { return Padded(old_.feed_forward_length, new_.feed_forward_length); };
    const HeadCounts from = OldHeads(old_block);
    const HeadCounts to = {new_.head_count[block], new_.head_count_kv[block]};
    const auto queries = [&](uint32_t length) { return QueryAxis(from, to, length); };
    const auto keys = [&](uint32_t length) { return KeyAxis(from, to, length); };
    const auto is = [&](std::string_view what) { return role == what; };

    if (is("attn_norm.weight") || is("ffn_norm.weight") || is("output_norm.weight")) {
      planned.columns = width();
      planned.scale = std::sqrt(static_cast<float>(old_.embedding_length) /
                                static_cast<float>(new_.embedding_length));
    } else if (is("token_embd.weight") || is("output.weight")) {
      planned.columns = width();
    } else if (is("attn_q.weight")) {
      planned.columns = width(), planned.rows = queries(old_.key_length);
    } else if (is("attn_k.weight")) {
      planned.columns = width(), planned.rows = keys(old_.key_length);
    } else if (is("attn_v.weight")) {
      planned.columns = width(), planned.rows = keys(old_.value_length);
    } else if (is("attn_output.weight")) {
      planned.columns = queries(old_.value_length), planned.rows = width();
    } else if (is("ffn_gate.weight") || is("ffn_up.weight")) {
      planned.columns = width(), planned.rows = inner();
    } else if (is("ffn_down.weight")) {
      planned.columns = inner(), planned.rows = width();
    } else if (is("attn_q.bias")) {
      planned.columns = queries(old_.key_length);
    } else if (is("attn_k.bias")) {
      planned.columns = keys(old_.key_length);
    } else if (is("attn_v.bias")) {
      planned.columns = keys(old_.value_length);
    } else if (is("ffn_gate.bias") || is("ffn_up.bias")) {
      planned.columns = inner();
    } else if (is("attn_output.bias") || is("ffn_down.bias")) {
      planned.columns = width();
    } else if (!is("attn_q_norm.weight") && !is("attn_k_norm.weight") && !is("rope_freqs.weight")) {
      return Unimplemented(path_, ": has tensor ", planned.tensor.name,
                           ", and how that grows is not known");
    }
    return absl::OkStatus();
  }

  absl::Status ChooseType(const ModelTensor& source, PlannedTensor& planned) const {
    ModelTensor& tensor = planned.tensor;
    const bool is_vector = tensor.dims.size() == 1;
    const TensorType wanted = options_.type.value_or(tensor.type);
    const uint32_t block = Info(wanted).block_elements;
    if (!is_vector && tensor.dims[0] % block != 0) {
      return InvalidArgument(path_, ": rows of ", tensor.name, " would have ", tensor.dims[0],
                             " elements, which is no whole number of ", Name(wanted),
                             " blocks; ask for a multiple of ", block);
    }
    if (is_vector) {
      tensor.type = TensorType::kF32;
    } else if (options_.type) {
      tensor.type = MixedType(tensor, new_, *options_.type);
    }
    if (planned.source != nullptr && !IsCopied(planned) &&
        !(CanDequantize(source.type) && CanQuantize(tensor.type))) {
      return Unimplemented(path_, ": ", source.name, " is stored as ", Name(source.type),
                           ", whose blocks would be cut; choose another --type");
    }
    OUTRIDER_ASSIGN_OR_RETURN(tensor.bytes, TensorBytes(tensor.type, tensor.dims));
    return absl::OkStatus();
  }

 public:
  // Whether old rows go into new ones block by block, as they are.
  static bool IsCopied(const PlannedTensor& planned) {
    const uint64_t block = Info(planned.tensor.type).block_elements;
    return planned.source->type == planned.tensor.type && planned.scale == 1 &&
           std::ranges::all_of(planned.columns.runs, [&](const Run& run) {
             return run.to % block == 0 && run.from % block == 0 && run.count % block == 0;
           });
  }

 private:
  const ModelFile& model_;
  const std::string& path_;
  const InflateOptions& options_;
  const Hyperparameters& old_;
  Hyperparameters new_;
  std::vector<PlannedTensor> planned_;
};

// --- the bytes ---

class RowMaker {
 public:
  RowMaker(const ModelFile& model, const PlannedTensor& planned)
      : model_(model),
        planned_(planned),
        copied_(planned.source != nullptr && Planner::IsCopied(planned)),
        sources_(SourceOfEach(planned.rows)) {
    if (planned.source == nullptr) return;
    stored_.resize(RowBytes(planned.source->type, planned.source->dims[0]));
    old_values_.resize(planned.source->dims[0]);
    values_.resize(planned.columns.length);
  }

  // `out` is zeros.
  absl::Status Make(uint64_t row, std::span<std::byte> out) {
    if (planned_.source == nullptr) {
      // A norm of zeros would do too, but would look like damage.
      if (planned_.tensor.name.ends_with("_norm.weight")) {
        const std::vector<float> ones(planned_.columns.length, 1.0f);
        std::memcpy(out.data(), ones.data(), out.size());
      }
      return absl::OkStatus();
    }
    if (sources_[row] < 0) return absl::OkStatus();
    const auto old_row = static_cast<uint64_t>(sources_[row]);
    OUTRIDER_RETURN_IF_ERROR(model_.ReadRows(*planned_.source, old_row, 1, stored_));
    if (copied_) {
      const TensorType type = planned_.tensor.type;
      for (const Run& run : planned_.columns.runs) {
        std::memcpy(out.data() + RowBytes(type, run.to), stored_.data() + RowBytes(type, run.from),
                    RowBytes(type, run.count));
      }
      return absl::OkStatus();
    }
    OUTRIDER_RETURN_IF_ERROR(Dequantize(planned_.source->type, stored_, old_values_));
    std::ranges::fill(values_, 0.0f);
    for (const Run& run : planned_.columns.runs) {
      for (uint64_t i = 0; i < run.count; ++i) {
        values_[run.to + i] = planned_.scale * old_values_[run.from + i];
      }
    }
    return Quantize(planned_.tensor.type, values_, out);
  }

 private:
  const ModelFile& model_;
  const PlannedTensor& planned_;
  const bool copied_;
  const std::vector<int64_t> sources_;
  std::vector<std::byte> stored_;
  std::vector<float> old_values_;
  std::vector<float> values_;
};

// `out` is the tensor as the file is to have it.
absl::Status WriteTensor(const ModelFile& model, const PlannedTensor& planned,
                         const ModelTensor& out, GgufWriter& writer, ContentRecorder& recorder,
                         const InflateProgress& progress) {
  RowMaker maker(model, planned);
  const uint64_t row_bytes = RowBytes(planned.tensor.type, planned.columns.length);
  const uint64_t row_count = planned.rows.length;
  const uint64_t band_rows = std::clamp<uint64_t>(kBandBytes / row_bytes, 1, row_count);
  std::vector<std::byte> band;
  for (uint64_t first = 0; first < row_count; first += band_rows) {
    const uint64_t count = std::min(band_rows, row_count - first);
    band.assign(count * row_bytes, std::byte{0});
    for (uint64_t i = 0; i < count; ++i) {
      OUTRIDER_RETURN_IF_ERROR(
          maker.Make(first + i, std::span(band).subspan(i * row_bytes, row_bytes)));
    }
    OUTRIDER_RETURN_IF_ERROR(writer.Write(band));
    OUTRIDER_RETURN_IF_ERROR(recorder.Add(out, band));
    if (progress) progress(band.size(), planned.tensor.name);
  }
  return absl::OkStatus();
}

}  // namespace

namespace {

// From `wanted` up the fewest key heads among which the queries are shared out evenly and every
// layer's own find room; `wanted`, where no number does.
uint32_t KeyHeadsFor(const Hyperparameters& old, uint32_t query_heads, uint32_t wanted) {
  for (uint32_t count = wanted; count <= query_heads; ++count) {
    if (query_heads % count != 0) continue;
    const auto has_room = [&](uint32_t block) {
      const HeadCounts from = {old.head_count[block], old.head_count_kv[block]};
      return from.key * Copies(from, {query_heads, count}) <= count;
    };
    if (std::ranges::all_of(std::views::iota(0u, old.block_count), has_room)) return count;
  }
  return wanted;
}

}  // namespace

absl::StatusOr<InflateOptions> ShapeLike(std::string_view name, const ModelFile& model,
                                         const std::string& path) {
  struct Shape {
    std::string_view name;
    uint32_t width, blocks, attention_width, kv_width, feed_forward;
  };
  constexpr Shape kShapes[] = {
      {"1b", 2048, 16, 2048, 512, 8192},
      {"1.1b", 2048, 22, 2048, 256, 5632},
      {"3b", 3072, 28, 3072, 1024, 8192},
      {"8b", 4096, 32, 4096, 1024, 14336},
  };
  const auto* const shape = std::ranges::find(kShapes, name, &Shape::name);
  if (shape == std::end(kShapes)) {
    return InvalidArgument("'", name, "' is no shape known here; 1b, 1.1b, 3b and 8b are");
  }
  const uint32_t head_length = model.hyperparameters().key_length;
  if (head_length == 0 || shape->attention_width % head_length != 0 ||
      shape->kv_width % head_length != 0) {
    return InvalidArgument(path, ": has heads of ", head_length,
                           ", which must stay as long and do ", "not fill the ",
                           shape->attention_width, " and ", shape->kv_width, " of ", name,
                           "; say --heads and --kv-heads instead");
  }
  const uint32_t query_heads = shape->attention_width / head_length;
  return InflateOptions{.embedding_length = shape->width,
                        .block_count = shape->blocks,
                        .head_count = query_heads,
                        .kv_head_count = KeyHeadsFor(model.hyperparameters(), query_heads,
                                                     shape->kv_width / head_length),
                        .feed_forward_length = shape->feed_forward};
}

absl::StatusOr<uint64_t> InflatedBytes(const ModelFile& model, const std::string& path,
                                       const InflateOptions& options) {
  Planner planner(model, path, options);
  OUTRIDER_RETURN_IF_ERROR(planner.Plan());
  uint64_t bytes = 0;
  for (const PlannedTensor* const planned : planner.tensors()) bytes += planned->tensor.bytes;
  return bytes;
}

absl::Status Inflate(const ModelFile& model, const std::string& path, const std::string& out_path,
                     const InflateOptions& options, const InflateProgress& progress) {
  Planner planner(model, path, options);
  OUTRIDER_RETURN_IF_ERROR(planner.Plan());
  GgufWriter writer;
  OUTRIDER_RETURN_IF_ERROR(model.AddMetadata(writer));
  AddHyperparameterMetadata(planner.numbers(), writer);
  if (options.type) {
    writer.AddUint32("general.file_type", FileTypeNumber(*options.type));
    writer.AddUint32("general.quantization_version", 2);
  }
  const std::vector<const PlannedTensor*> tensors = planner.tensors();
  std::vector<ModelTensor> written;
  for (const PlannedTensor* const planned : tensors) {
    const ModelTensor& tensor = written.emplace_back(planned->tensor);
    OUTRIDER_RETURN_IF_ERROR(writer.AddTensor(tensor.name, tensor.type, tensor.dims));
  }
  ContentRecorder recorder(planner.numbers(), written, writer);
  OUTRIDER_RETURN_IF_ERROR(writer.Begin(out_path));
  for (size_t i = 0; i < tensors.size(); ++i) {
    OUTRIDER_RETURN_IF_ERROR(Annotate(
        WriteTensor(model, *tensors[i], written[i], writer, recorder, progress), written[i].name));
  }
  OUTRIDER_RETURN_IF_ERROR(recorder.Finish());
  return writer.Commit();
}

// The root mean square r of a state becomes r sqrt(d / D), so what is divided by it is sqrt(D / d)
// times what it was: columns of `down` undo that, rows of `up` make up for the smaller r.
absl::StatusOr<TrainedExits> InflateExits(const TrainedExits& exits, const std::string& exits_path,
                                          const ModelFile& model, const std::string& path,
                                          const InflateOptions& options, uint64_t content_hash) {
  const Hyperparameters& old_numbers = model.hyperparameters();
  if (exits.target.embedding_length != old_numbers.embedding_length ||
      exits.target.layer_count != old_numbers.block_count) {
    return InvalidArgument(exits_path, ": is for a target of ", exits.target.layer_count,
                           " layers of ", exits.target.embedding_length, ", and ", path, " has ",
                           old_numbers.block_count, " of ", old_numbers.embedding_length);
  }
  Planner planner(model, path, options);
  OUTRIDER_RETURN_IF_ERROR(planner.Plan());
  const uint32_t width = old_numbers.embedding_length;
  const uint32_t new_width = planner.numbers().embedding_length;
  const float scale = std::sqrt(static_cast<float>(width) / static_cast<float>(new_width));
  TrainedExits grown = exits;
  grown.target.name = planner.numbers().name;
  grown.target.content_hash = content_hash;
  grown.target.embedding_length = new_width;
  grown.target.layer_count = planner.numbers().block_count;
  for (TrainedExit& exit : grown.exits) {
    exit.layer = planner.NewBlock(exit.layer);
    std::vector<float> down(size_t{exit.rank} * new_width);
    std::vector<float> up(down.size());
    for (uint32_t i = 0; i < exit.rank; ++i) {
      for (uint32_t k = 0; k < width; ++k) {
        down[size_t{i} * new_width + k] = exit.down[size_t{i} * width + k] * scale;
        up[size_t{k} * exit.rank + i] = exit.up[size_t{k} * exit.rank + i] / scale;
      }
    }
    exit.down = std::move(down);
    exit.up = std::move(up);
  }
  return grown;
}

}  // namespace outrider
