#include "adapters/training/checkpoint.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "common/base/status.h"
#include "common/formats/containers/gguf_file.h"
#include "common/formats/containers/gguf_writer.h"
#include "common/formats/models/content_hash.h"

namespace outrider {
namespace {

constexpr char kRun[] = "training.run";
constexpr char kStep[] = "training.step";
constexpr char kLosses[] = "training.losses";
constexpr char kGradientNorms[] = "training.gradient_norms";
constexpr char kValidationSteps[] = "training.validation_steps";
constexpr char kValidationLosses[] = "training.validation_losses";
constexpr char kHash[] = "training.hash";

std::span<const std::byte> Bytes(const at::Tensor& tensor) {
  return {reinterpret_cast<const std::byte*>(tensor.data_ptr<float>()),
          static_cast<size_t>(tensor.numel()) * sizeof(float)};
}

// Calls `visit(name, tensor)` for every tensor of a checkpoint, in the file's order. Assignments to
// the tensor stay.
template <typename Parameters, typename State, typename Visit>
absl::Status ForEachTensor(Parameters& parameters, State& state, const Visit& visit) {
  for (size_t i = 0; i < parameters.size(); ++i) {
    OUTRIDER_RETURN_IF_ERROR(visit(parameters[i].name, parameters[i].value));
    OUTRIDER_RETURN_IF_ERROR(visit("m." + parameters[i].name, state.moments[i].first));
    OUTRIDER_RETURN_IF_ERROR(visit("v." + parameters[i].name, state.moments[i].second));
  }
  return absl::OkStatus();
}

void AddNumbers(const TrainingState& state, ContentHash& hash) {
  hash.Add(state.step);
  for (const float loss : state.losses) hash.Add(loss);
  for (const float norm : state.gradient_norms) hash.Add(norm);
  for (const TrainingState::Validation& validation : state.validations) {
    hash.Add(validation.step);
    hash.Add(validation.loss);
  }
}

void AddMetadata(std::span<const std::string> run, const TrainingState& state, uint64_t hash,
                 GgufWriter& writer) {
  std::vector<uint32_t> validation_steps;
  std::vector<float> validation_losses;
  for (const TrainingState::Validation& validation : state.validations) {
    validation_steps.push_back(static_cast<uint32_t>(validation.step));
    validation_losses.push_back(validation.loss);
  }
  writer.AddString("general.architecture", "training-checkpoint");
  writer.AddStrings(kRun, run);
  writer.AddUint64(kStep, state.step);
  writer.AddFloat32s(kLosses, state.losses);
  writer.AddFloat32s(kGradientNorms, state.gradient_norms);
  writer.AddUint32s(kValidationSteps, validation_steps);
  writer.AddFloat32s(kValidationLosses, validation_losses);
  writer.AddUint64(kHash, hash);
}

absl::Status CheckRun(const GgufFile& file, const std::string& path,
                      std::span<const std::string> run) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<std::string_view> was, file.GetStrings(kRun));
  for (size_t i = 0; i < std::max(was.size(), run.size()); ++i) {
    const std::string_view then = i < was.size() ? was[i] : "nothing";
    const std::string_view now = i < run.size() ? std::string_view(run[i]) : "nothing";
    if (then != now) {
      return InvalidArgument(path, ": is the checkpoint of another run (", then, "; now ", now,
                             "); ask for the same again, or remove it to begin anew");
    }
  }
  return absl::OkStatus();
}

absl::Status ReadNumbers(const GgufFile& file, const std::string& path, TrainingState& state) {
  OUTRIDER_ASSIGN_OR_RETURN(state.step, file.GetUint(kStep));
  OUTRIDER_ASSIGN_OR_RETURN(state.losses, file.GetFloats(kLosses));
  OUTRIDER_ASSIGN_OR_RETURN(state.gradient_norms, file.GetFloats(kGradientNorms));
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<uint64_t> steps, file.GetUints(kValidationSteps));
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<float> losses, file.GetFloats(kValidationLosses));
  if (steps.size() != losses.size() || state.losses.size() != state.step ||
      state.gradient_norms.size() != state.step) {
    return DataLoss(path, ": has not as many losses as steps; remove it to begin anew");
  }
  state.validations.clear();
  for (size_t i = 0; i < steps.size(); ++i) state.validations.push_back({steps[i], losses[i]});
  return absl::OkStatus();
}

}  // namespace

absl::Status SaveCheckpoint(const std::string& path, std::span<const std::string> run,
                            std::span<const NamedParameter> parameters,
                            const TrainingState& state) {
  const at::NoGradGuard no_grad;
  GgufWriter writer;
  ContentHash hash;
  AddNumbers(state, hash);
  std::vector<at::Tensor> values;  // on the CPU
  OUTRIDER_RETURN_IF_ERROR(ForEachTensor(
      parameters, state, [&](const std::string& name, const at::Tensor& tensor) -> absl::Status {
        values.push_back(tensor.detach().to(at::kCPU, at::kFloat).contiguous());
        hash.Add(HashBytes(Bytes(values.back()), 0));
        const std::vector<uint64_t> dims(tensor.sizes().rbegin(), tensor.sizes().rend());
        return writer.AddTensor(name, TensorType::kF32, dims);
      }));
  AddMetadata(run, state, hash.value(), writer);
  OUTRIDER_RETURN_IF_ERROR(writer.Begin(path));
  for (const at::Tensor& value : values) OUTRIDER_RETURN_IF_ERROR(writer.Write(Bytes(value)));
  return writer.Commit();
}

absl::Status LoadCheckpoint(const std::string& path, std::span<const std::string> run,
                            std::span<NamedParameter> parameters, TrainingState& state) {
  const at::NoGradGuard no_grad;
  OUTRIDER_ASSIGN_OR_RETURN(const GgufFile file, GgufFile::Open(path));
  OUTRIDER_RETURN_IF_ERROR(CheckRun(file, path, run));
  OUTRIDER_RETURN_IF_ERROR(ReadNumbers(file, path, state));
  ContentHash hash;
  AddNumbers(state, hash);
  OUTRIDER_RETURN_IF_ERROR(ForEachTensor(
      parameters, state, [&](const std::string& name, at::Tensor& tensor) -> absl::Status {
        const GgufTensor* const stored = file.FindTensor(name);
        const std::vector<uint64_t> dims(tensor.sizes().rbegin(), tensor.sizes().rend());
        if (stored == nullptr || stored->type != TensorType::kF32 || stored->dims != dims) {
          return DataLoss(path, ": tensor ", name,
                          " is missing or of another shape; remove the file to begin anew");
        }
        OUTRIDER_ASSIGN_OR_RETURN(const std::vector<std::byte> bytes, file.ReadBytes(*stored));
        hash.Add(HashBytes(bytes, 0));
        at::Tensor value = at::Tensor(tensor.detach().to(at::kCPU).clone());
        std::memcpy(value.data_ptr<float>(), bytes.data(), bytes.size());
        tensor.copy_(value);
        return absl::OkStatus();
      }));
  OUTRIDER_ASSIGN_OR_RETURN(const uint64_t expected, file.GetUint(kHash));
  if (hash.value() != expected) {
    return DataLoss(path,
                    ": is damaged: its contents are not those that were written; remove it "
                    "to begin anew");
  }
  return absl::OkStatus();
}

}  // namespace outrider
