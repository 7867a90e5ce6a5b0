#include "common/formats/models/exits_file.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "common/base/quote.h"
#include "common/base/status.h"
#include "common/formats/containers/gguf_file.h"
#include "common/formats/containers/gguf_writer.h"
#include "common/formats/models/tensor_layout.h"
#include "common/formats/tensors/dequantize.h"
#include "common/formats/tensors/quantize.h"

namespace outrider {
namespace {

constexpr std::string_view kArchitecture = "outrider-exits";
constexpr uint64_t kVersion = 1;

std::string CalibrationKey(uint32_t layer, std::string_view mode, std::string_view suffix) {
  return Concat("exits.", layer, ".", mode, ".", suffix);
}

std::string TensorName(uint32_t layer, std::string_view matrix) {
  return Concat("blk.", layer, ".exit_", matrix, ".weight");
}

std::string HashText(uint64_t hash) {
  char text[17];
  std::snprintf(text, sizeof(text), "%016" PRIx64, hash);
  return text;
}

// --- what must hold, read or about to be written ---

bool IsFinite(std::span<const float> values) {
  return std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
}

// `sign` is that of all slopes: 1 or -1.
absl::Status Check(const PiecewiseLinear& function, float sign, const std::string& name,
                   const std::string& key) {
  const auto& [knots, slopes] = function;
  if (knots.empty() && slopes.empty()) return absl::OkStatus();
  if (knots.size() != slopes.size() + 1 || knots.size() > TrainedExits::kKnotsMax) {
    return InvalidArgument(name, ": ", key, " has ", knots.size(), " knots and ", slopes.size(),
                           " slopes; there are at most ", TrainedExits::kKnotsMax,
                           " knots, and a slope between each two");
  }
  for (size_t i = 0; i < knots.size(); ++i) {
    if (!std::isfinite(knots[i]) || (i > 0 && knots[i] <= knots[i - 1])) {
      return InvalidArgument(name, ": ", key, ".knots do not rise at ", i, ", where ", knots[i],
                             " stands");
    }
  }
  for (size_t i = 0; i < slopes.size(); ++i) {
    if (!std::isfinite(slopes[i]) || slopes[i] * sign < 0) {
      return InvalidArgument(name, ": ", key, ".slopes has ", slopes[i], " at ", i, ", and the ",
                             "probability must ", sign > 0 ? "rise" : "fall", " with it");
    }
  }
  return absl::OkStatus();
}

absl::Status Check(const ExitCalibration& calibration, const std::string& name, uint32_t layer,
                   std::string_view mode) {
  const auto key = [&](std::string_view suffix) { return CalibrationKey(layer, mode, suffix); };
  if (!(calibration.kappa > 0) || !std::isfinite(calibration.kappa)) {
    return InvalidArgument(name, ": ", key("kappa"), " is ", calibration.kappa,
                           ", and scores are divided by it: it must be above 0");
  }
  if (!std::isfinite(calibration.bias)) {
    return InvalidArgument(name, ": ", key("bias"), " is ", calibration.bias,
                           ", which is no number");
  }
  OUTRIDER_RETURN_IF_ERROR(Check(calibration.doubt, -1, name, key("doubt")));
  OUTRIDER_RETURN_IF_ERROR(Check(calibration.entropy, -1, name, key("entropy")));
  OUTRIDER_RETURN_IF_ERROR(Check(calibration.margin, 1, name, key("margin")));
  const auto agreement = [&](float weight, std::string_view suffix) -> absl::Status {
    if (weight >= 0 && std::isfinite(weight)) return absl::OkStatus();
    return InvalidArgument(name, ": ", key(suffix), " is ", weight,
                           ", and agreement never makes a guess less likely: it must be 0 or more");
  };
  OUTRIDER_RETURN_IF_ERROR(agreement(calibration.agrees_with_previous, "agrees_with_previous"));
  return agreement(calibration.agrees_with_first_draft, "agrees_with_first_draft");
}

absl::Status Check(const TrainedExit& exit, const ExitsTarget& target, const std::string& name) {
  if (uint64_t{exit.layer} + 1 >= target.layer_count) {
    return InvalidArgument(name, ": an exit after layer ", exit.layer, " of ", target.layer_count,
                           ", counted from 0, leaves nothing to guess");
  }
  if (exit.rank == 0 || exit.rank > target.embedding_length) {
    return InvalidArgument(name, ": the exit after layer ", exit.layer, " has rank ", exit.rank,
                           ", must be 1 to ", target.embedding_length);
  }
  const uint64_t weights = uint64_t{exit.rank} * target.embedding_length;
  if (exit.down.size() != weights || exit.up.size() != weights) {
    return InvalidArgument(name, ": the exit after layer ", exit.layer, " has matrices of ",
                           exit.down.size(), " and ", exit.up.size(), " weights, expected ",
                           weights);
  }
  for (const auto& [matrix, values] : {std::pair{"down", &exit.down}, std::pair{"up", &exit.up}}) {
    if (!IsFinite(*values)) {
      return InvalidArgument(name, ": tensor ", TensorName(exit.layer, matrix),
                             " has weights that are no numbers; train or copy it again");
    }
  }
  if (exit.greedy) OUTRIDER_RETURN_IF_ERROR(Check(*exit.greedy, name, exit.layer, "greedy"));
  if (exit.sampled) OUTRIDER_RETURN_IF_ERROR(Check(*exit.sampled, name, exit.layer, "sampled"));
  return absl::OkStatus();
}

absl::Status CheckFrequentTokens(std::span<const TokenId> tokens, uint32_t vocabulary_size,
                                 const std::string& name) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] < 0 || static_cast<uint32_t>(tokens[i]) >= vocabulary_size) {
      return InvalidArgument(name, ": exits.frequent_tokens has token ", tokens[i],
                             ", and the target's vocabulary ", vocabulary_size);
    }
    if (i > 0 && tokens[i] <= tokens[i - 1]) {
      return InvalidArgument(name, ": exits.frequent_tokens do not rise: ", tokens[i],
                             " comes after ", tokens[i - 1]);
    }
  }
  return absl::OkStatus();
}

absl::Status CheckLayers(std::span<const uint32_t> layers, const std::string& name) {
  if (layers.empty() || layers.size() > TrainedExits::kExitsMax) {
    return InvalidArgument(name, ": has ", layers.size(), " exits, must be 1 to ",
                           TrainedExits::kExitsMax);
  }
  for (size_t i = 1; i < layers.size(); ++i) {
    if (layers[i] <= layers[i - 1]) {
      return InvalidArgument(name, ": exits.layers do not rise: ", layers[i], " comes after ",
                             layers[i - 1]);
    }
  }
  return absl::OkStatus();
}

// --- reading ---

class Reader {
 public:
  Reader(const GgufFile& file, const std::string& name) : file_(file), name_(name) {}

  absl::StatusOr<TrainedExits> Read() {
    OUTRIDER_RETURN_IF_ERROR(CheckKind());
    TrainedExits exits;
    exits.type = TensorType::kF16;  // unless some matrix needs more
    OUTRIDER_RETURN_IF_ERROR(ReadTarget(exits.target));
    OUTRIDER_ASSIGN_OR_RETURN(const std::vector<uint32_t> layers, Counts("exits.layers"));
    OUTRIDER_RETURN_IF_ERROR(CheckLayers(layers, name_));
    OUTRIDER_ASSIGN_OR_RETURN(const std::vector<uint32_t> frequent,
                              Counts("exits.frequent_tokens"));
    for (const uint32_t token : frequent) {
      exits.frequent_tokens.push_back(static_cast<TokenId>(std::min(token, uint32_t{INT32_MAX})));
    }
    OUTRIDER_RETURN_IF_ERROR(
        CheckFrequentTokens(exits.frequent_tokens, exits.target.vocabulary_size, name_));
    for (const uint32_t layer : layers) {
      OUTRIDER_ASSIGN_OR_RETURN(TrainedExit exit, ReadExit(layer, exits.target, exits.type));
      exits.exits.push_back(std::move(exit));
    }
    OUTRIDER_RETURN_IF_ERROR(NothingIsLeft());
    return exits;
  }

 private:
  absl::Status CheckKind() {
    OUTRIDER_ASSIGN_OR_RETURN(const std::string_view kind,
                              file_.GetString(Use("general.architecture")));
    if (kind != kArchitecture) {
      return InvalidArgument(name_, ": holds ", Quote(kind), ", not exit heads, which are ",
                             Quote(kArchitecture));
    }
    OUTRIDER_ASSIGN_OR_RETURN(const uint64_t version, file_.GetUint(Use("exits.version")));
    if (version == kVersion) return absl::OkStatus();
    return Unimplemented(name_, ": is version ", version, " of the exits' format, and this reads ",
                         kVersion, "; train the exits again, or use the program that wrote them");
  }

  absl::Status ReadTarget(ExitsTarget& target) {
    OUTRIDER_ASSIGN_OR_RETURN(const std::string_view model,
                              file_.GetString(Use("exits.target.name")));
    target.name = model;
    OUTRIDER_ASSIGN_OR_RETURN(const std::string_view hash,
                              file_.GetString(Use("exits.target.content_hash")));
    const auto [end, error] =
        std::from_chars(hash.data(), hash.data() + hash.size(), target.content_hash, 16);
    if (error != std::errc() || hash != HashText(target.content_hash)) {
      return InvalidArgument(name_, ": key \"exits.target.content_hash\" is ", Quote(hash),
                             ", expected sixteen hexadecimal digits");
    }
    OUTRIDER_ASSIGN_OR_RETURN(target.embedding_length, Count("exits.target.embedding_length"));
    OUTRIDER_ASSIGN_OR_RETURN(target.layer_count, Count("exits.target.layer_count"));
    OUTRIDER_ASSIGN_OR_RETURN(target.vocabulary_size, Count("exits.target.vocabulary_size"));
    return absl::OkStatus();
  }

  absl::StatusOr<TrainedExit> ReadExit(uint32_t layer, const ExitsTarget& target,
                                       TensorType& type) {
    TrainedExit exit;
    exit.layer = layer;
    const std::string down = TensorName(layer, "down");
    const GgufTensor* const tensor = file_.FindTensor(down);
    // A matrix of one row may be written as a vector.
    exit.rank = tensor == nullptr ? 0
                : tensor->dims.size() == 1
                    ? 1
                    : static_cast<uint32_t>(std::min<uint64_t>(tensor->dims[1], UINT32_MAX));
    OUTRIDER_ASSIGN_OR_RETURN(exit.down, Matrix(down, target.embedding_length, exit.rank, type));
    OUTRIDER_ASSIGN_OR_RETURN(
        exit.up, Matrix(TensorName(layer, "up"), exit.rank, target.embedding_length, type));
    OUTRIDER_ASSIGN_OR_RETURN(exit.greedy, Calibration(layer, "greedy"));
    OUTRIDER_ASSIGN_OR_RETURN(exit.sampled, Calibration(layer, "sampled"));
    OUTRIDER_RETURN_IF_ERROR(Check(exit, target, name_));
    return exit;
  }

  absl::StatusOr<std::vector<float>> Matrix(const std::string& name, uint64_t columns,
                                            uint64_t rows, TensorType& type) {
    const GgufTensor* const tensor = file_.FindTensor(name);
    if (tensor == nullptr) return NotFound(name_, ": has no tensor ", name);
    used_tensors_.insert(name);
    std::vector<uint64_t> dims = tensor->dims;
    while (dims.size() > 2 && dims.back() == 1) dims.pop_back();
    if (dims.size() == 1) dims.push_back(1);
    if (dims != std::vector<uint64_t>{columns, rows}) {
      return InvalidArgument(name_, ": tensor ", name, " is ", FormatDims(tensor->dims),
                             ", expected ", FormatDims(std::array{columns, rows}));
    }
    if (tensor->type != TensorType::kF32 && tensor->type != TensorType::kF16) {
      return InvalidArgument(name_, ": tensor ", name, " is ", Name(tensor->type),
                             ", and exits are F32 or F16");
    }
    if (tensor->type == TensorType::kF32) type = TensorType::kF32;
    std::vector<float> values(columns * rows);
    OUTRIDER_ASSIGN_OR_RETURN(const std::vector<std::byte> bytes, file_.ReadBytes(*tensor));
    OUTRIDER_RETURN_IF_ERROR(Dequantize(tensor->type, bytes, values));
    return values;
  }

  absl::StatusOr<std::optional<ExitCalibration>> Calibration(uint32_t layer,
                                                             std::string_view mode) {
    const auto key = [&](std::string_view suffix) { return CalibrationKey(layer, mode, suffix); };
    if (file_.Find(key("kappa")) == nullptr) return std::optional<ExitCalibration>();
    ExitCalibration calibration;
    OUTRIDER_ASSIGN_OR_RETURN(calibration.kappa, Number(key("kappa")));
    OUTRIDER_ASSIGN_OR_RETURN(calibration.bias, Number(key("bias")));
    OUTRIDER_ASSIGN_OR_RETURN(calibration.doubt, Function(key("doubt")));
    OUTRIDER_ASSIGN_OR_RETURN(calibration.entropy, Function(key("entropy")));
    OUTRIDER_ASSIGN_OR_RETURN(calibration.margin, Function(key("margin")));
    OUTRIDER_ASSIGN_OR_RETURN(calibration.agrees_with_previous,
                              Number(key("agrees_with_previous")));
    OUTRIDER_ASSIGN_OR_RETURN(calibration.agrees_with_first_draft,
                              Number(key("agrees_with_first_draft")));
    return std::optional(std::move(calibration));
  }

  absl::StatusOr<PiecewiseLinear> Function(const std::string& key) {
    PiecewiseLinear function;
    OUTRIDER_ASSIGN_OR_RETURN(function.knots, file_.GetFloats(Use(key + ".knots")));
    OUTRIDER_ASSIGN_OR_RETURN(function.slopes, file_.GetFloats(Use(key + ".slopes")));
    return function;
  }

  absl::StatusOr<float> Number(const std::string& key) {
    OUTRIDER_ASSIGN_OR_RETURN(const double value, file_.GetFloat(Use(key)));
    return static_cast<float>(value);
  }

  absl::StatusOr<uint32_t> Count(std::string_view key) {
    OUTRIDER_ASSIGN_OR_RETURN(const uint64_t value, file_.GetUint(Use(key)));
    if (value > 0 && value <= INT32_MAX) return static_cast<uint32_t>(value);
    return InvalidArgument(name_, ": key ", Quote(key), " is ", value, ", must be 1 to ",
                           INT32_MAX);
  }

  absl::StatusOr<std::vector<uint32_t>> Counts(std::string_view key) {
    OUTRIDER_ASSIGN_OR_RETURN(const std::vector<uint64_t> values, file_.GetUints(Use(key)));
    std::vector<uint32_t> counts;
    for (const uint64_t value : values) {
      if (value > UINT32_MAX) {
        return InvalidArgument(name_, ": key ", Quote(key), " has ", value, ", above ", UINT32_MAX);
      }
      counts.push_back(static_cast<uint32_t>(value));
    }
    return counts;
  }

  template <typename Key>
  const Key& Use(const Key& key) {
    used_keys_.insert(std::string(key));
    return key;
  }

  // A key of ours that nobody has asked for says something we would ignore.
  absl::Status NothingIsLeft() const {
    for (const GgufKeyValue& entry : file_.metadata()) {
      if (entry.key.starts_with("exits.") && !used_keys_.contains(entry.key)) {
        return InvalidArgument(name_, ": key ", Quote(entry.key), " is none of exit heads'");
      }
    }
    for (const GgufTensor& tensor : file_.tensors()) {
      if (!used_tensors_.contains(tensor.name)) {
        return InvalidArgument(name_, ": tensor ", Quote(tensor.name),
                               " belongs to none of the exits of exits.layers");
      }
    }
    return absl::OkStatus();
  }

  const GgufFile& file_;
  const std::string& name_;
  std::set<std::string, std::less<>> used_keys_;
  std::set<std::string, std::less<>> used_tensors_;
};

// --- writing ---

absl::Status Check(const TrainedExits& exits, const std::string& name) {
  if (exits.type != TensorType::kF32 && exits.type != TensorType::kF16) {
    return InvalidArgument(name, ": exits are written as F32 or F16, not ", Name(exits.type));
  }
  const ExitsTarget& target = exits.target;
  for (const auto& [key, value] : {std::pair{"embedding_length", target.embedding_length},
                                   std::pair{"layer_count", target.layer_count},
                                   std::pair{"vocabulary_size", target.vocabulary_size}}) {
    if (value == 0 || value > INT32_MAX) {
      return InvalidArgument(name, ": exits.target.", key, " is ", value, ", must be 1 to ",
                             INT32_MAX);
    }
  }
  std::vector<uint32_t> layers;
  for (const TrainedExit& exit : exits.exits) layers.push_back(exit.layer);
  OUTRIDER_RETURN_IF_ERROR(CheckLayers(layers, name));
  for (const TrainedExit& exit : exits.exits) {
    OUTRIDER_RETURN_IF_ERROR(Check(exit, target, name));
  }
  return CheckFrequentTokens(exits.frequent_tokens, target.vocabulary_size, name);
}

void AddCalibration(const ExitCalibration& calibration, uint32_t layer, std::string_view mode,
                    GgufWriter& writer) {
  const auto key = [&](std::string_view suffix) { return CalibrationKey(layer, mode, suffix); };
  const auto add = [&](std::string_view suffix, const PiecewiseLinear& function) {
    writer.AddFloat32s(key(suffix) + ".knots", function.knots);
    writer.AddFloat32s(key(suffix) + ".slopes", function.slopes);
  };
  writer.AddFloat32(key("kappa"), calibration.kappa);
  writer.AddFloat32(key("bias"), calibration.bias);
  add("doubt", calibration.doubt);
  add("entropy", calibration.entropy);
  add("margin", calibration.margin);
  writer.AddFloat32(key("agrees_with_previous"), calibration.agrees_with_previous);
  writer.AddFloat32(key("agrees_with_first_draft"), calibration.agrees_with_first_draft);
}

void AddMetadata(const TrainedExits& exits, GgufWriter& writer) {
  const ExitsTarget& target = exits.target;
  writer.AddString("general.architecture", kArchitecture);
  writer.AddString("general.name", Concat("exits of ", target.name));
  writer.AddUint32("exits.version", kVersion);
  writer.AddString("exits.target.name", target.name);
  writer.AddString("exits.target.content_hash", HashText(target.content_hash));
  writer.AddUint32("exits.target.embedding_length", target.embedding_length);
  writer.AddUint32("exits.target.layer_count", target.layer_count);
  writer.AddUint32("exits.target.vocabulary_size", target.vocabulary_size);
  std::vector<uint32_t> layers;
  for (const TrainedExit& exit : exits.exits) layers.push_back(exit.layer);
  writer.AddUint32s("exits.layers", layers);
  writer.AddUint32s("exits.frequent_tokens", std::vector<uint32_t>(exits.frequent_tokens.begin(),
                                                                   exits.frequent_tokens.end()));
  for (const TrainedExit& exit : exits.exits) {
    if (exit.greedy) AddCalibration(*exit.greedy, exit.layer, "greedy", writer);
    if (exit.sampled) AddCalibration(*exit.sampled, exit.layer, "sampled", writer);
  }
}

absl::Status WriteMatrix(TensorType type, const std::vector<float>& values, GgufWriter& writer) {
  std::vector<std::byte> bytes(RowBytes(type, values.size()));
  OUTRIDER_RETURN_IF_ERROR(Quantize(type, values, bytes));
  return writer.Write(bytes);
}

}  // namespace

ExitsChoice ChooseExits(const std::string& asked, const std::string& model) {
  if (asked == "none") return {};
  if (!asked.empty()) return {.path = asked, .was_asked = true};
  std::error_code ignored;
  std::filesystem::path path = model;
  if (std::filesystem::is_directory(path, ignored)) {
    path /= "exits.gguf";
  } else {
    path.replace_extension(".exits.gguf");
  }
  if (!std::filesystem::exists(path, ignored)) return {};
  return {.path = path.string()};
}

absl::StatusOr<TrainedExits> ReadExits(const std::string& path) {
  OUTRIDER_ASSIGN_OR_RETURN(const GgufFile file, GgufFile::Open(path));
  return Reader(file, path).Read();
}

absl::StatusOr<TrainedExits> ParseExits(std::span<const std::byte> bytes, const std::string& name) {
  OUTRIDER_ASSIGN_OR_RETURN(const GgufFile file, GgufFile::Parse(bytes, name));
  return Reader(file, name).Read();
}

absl::Status WriteExits(const TrainedExits& exits, const std::string& path) {
  OUTRIDER_RETURN_IF_ERROR(Check(exits, path));
  GgufWriter writer;
  AddMetadata(exits, writer);
  const uint64_t width = exits.target.embedding_length;
  for (const TrainedExit& exit : exits.exits) {
    OUTRIDER_RETURN_IF_ERROR(writer.AddTensor(TensorName(exit.layer, "down"), exits.type,
                                              std::array{width, uint64_t{exit.rank}}));
    OUTRIDER_RETURN_IF_ERROR(writer.AddTensor(TensorName(exit.layer, "up"), exits.type,
                                              std::array{uint64_t{exit.rank}, width}));
  }
  OUTRIDER_RETURN_IF_ERROR(writer.Begin(path));
  for (const TrainedExit& exit : exits.exits) {
    OUTRIDER_RETURN_IF_ERROR(
        Annotate(WriteMatrix(exits.type, exit.down, writer), TensorName(exit.layer, "down")));
    OUTRIDER_RETURN_IF_ERROR(
        Annotate(WriteMatrix(exits.type, exit.up, writer), TensorName(exit.layer, "up")));
  }
  return writer.Commit();
}

}  // namespace outrider
