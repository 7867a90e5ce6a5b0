// A copy of a GGUF model of F32 weights whose matrices are off by normal noise: a draft that agrees
// with the original more or less often.
//
//   damaged_model stories.gguf 0.1 out.gguf      noise of a tenth of each matrix's own deviation
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>

#include "common/base/status.h"
#include "common/formats/containers/gguf_file.h"

namespace outrider {
namespace {

absl::Status Damage(double deviation, const GgufTensor& tensor, std::span<char> bytes) {
  if (tensor.type != TensorType::kF32) {
    return InvalidArgument(tensor.name, " is not F32, and damage is done to floats");
  }
  std::vector<float> weights(bytes.size() / sizeof(float));
  std::memcpy(weights.data(), bytes.data(), bytes.size());
  double squares = 0;
  for (const float weight : weights) squares += static_cast<double>(weight) * weight;
  const double scale = deviation * std::sqrt(squares / static_cast<double>(weights.size()));
  std::mt19937 random(static_cast<uint32_t>(weights.size()));
  std::normal_distribution<double> normal;
  for (float& weight : weights) weight += static_cast<float>(scale * normal(random));
  std::memcpy(bytes.data(), weights.data(), bytes.size());
  return absl::OkStatus();
}

absl::Status Run(const char* in, double deviation, const char* out) {
  std::ifstream source(in, std::ios::binary);
  std::string bytes(std::istreambuf_iterator<char>(source), {});
  const std::string original = bytes;
  OUTRIDER_ASSIGN_OR_RETURN(const GgufFile file,
                            GgufFile::Parse(std::as_bytes(std::span(original)), in));
  for (const GgufTensor& tensor : file.tensors()) {
    if (tensor.dims.size() < 2) continue;
    OUTRIDER_RETURN_IF_ERROR(
        Damage(deviation, tensor, std::span(bytes).subspan(tensor.offset, tensor.bytes)));
  }
  std::ofstream(out, std::ios::binary) << bytes;
  return absl::OkStatus();
}

}  // namespace
}  // namespace outrider

int main(int argc, char** argv) {
  double deviation = 0;
  const std::string_view text = argc == 4 ? argv[2] : "";
  if (std::from_chars(text.data(), text.data() + text.size(), deviation).ec != std::errc()) {
    std::fputs("usage: damaged_model IN.gguf DEVIATION OUT.gguf\n", stderr);
    return 2;
  }
  const absl::Status status = outrider::Run(argv[1], deviation, argv[3]);
  if (status.ok()) return 0;
  std::fprintf(stderr, "damaged_model: %s\n", std::string(outrider::Message(status)).c_str());
  return 1;
}
