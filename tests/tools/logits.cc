// Writes the logits of a model after every one of some tokens, for tests that hold them against
// other programs and other machines.
//
//   logits MODEL ISA OUT TOKEN...      [token][vocabulary] floats into OUT, their hash to stdout
//
// ISA is one of the names of kernels/isa.h, or "best".
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "absl/status/status.h"
#include "common/base/ieee_mode.h"
#include "common/base/status.h"
#include "common/base/thread_pool.h"
#include "common/engine/cpu_engine.h"
#include "common/formats/models/content_hash.h"
#include "common/formats/models/model_file.h"
#include "common/kernels/isa.h"
#include "common/kernels/kernels.h"

namespace outrider {
namespace {

constexpr uint32_t kThreadCount = 2;

absl::StatusOr<std::vector<TokenId>> ParseTokens(std::span<char*> arguments,
                                                 uint32_t vocabulary_size) {
  std::vector<TokenId> tokens;
  for (const char* argument : arguments) {
    const char* const end = argument + std::strlen(argument);
    uint32_t token = 0;
    const auto [parsed, error] = std::from_chars(argument, end, token);
    if (error != std::errc() || parsed != end || token >= vocabulary_size) {
      return InvalidArgument("'", argument, "' is not a token below ", vocabulary_size);
    }
    tokens.push_back(static_cast<TokenId>(token));
  }
  return tokens;
}

absl::Status Run(const std::string& path, const std::string& isa_name, const std::string& out_path,
                 std::span<char*> token_arguments) {
  const ScopedIeeeMode ieee_mode;
  OUTRIDER_ASSIGN_OR_RETURN(
      const Isa isa,
      SelectIsa(isa_name == "best" ? std::nullopt : std::optional<std::string_view>(isa_name)));
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<ThreadPool> pool,
                            ThreadPool::Create(kThreadCount));
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<ModelFile> file, ModelFile::Open(path));
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<TokenId> tokens,
                            ParseTokens(token_arguments, file->hyperparameters().vocabulary_size));
  const auto row_count = static_cast<uint32_t>(tokens.size());
  // A context of these tokens and no more: of factors that go by how long texts may be (Phi's), those
  // that transformers takes for a text of this length.
  const EngineOptions options = {
      .context_length = row_count, .node_count_max = 0, .row_count_max = row_count};
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<CpuEngine> engine,
                            LoadCpuEngine(*file, path, options, KernelsFor(isa), *pool, nullptr));
  OUTRIDER_ASSIGN_OR_RETURN(const SequenceId sequence, engine->Open());
  OUTRIDER_RETURN_IF_ERROR(engine->Reserve(sequence, row_count, 0));
  const size_t vocabulary_size = engine->info().vocabulary_size;
  std::vector<float> logits(row_count * vocabulary_size);
  std::vector<LogitsOfRow> asked;
  for (uint32_t row = 0; row < row_count; ++row) {
    asked.push_back({row, std::span(logits).subspan(row * vocabulary_size, vocabulary_size)});
  }
  const RunPart part = {.sequence = sequence, .chain = tokens};
  EngineRun run = {.parts = {&part, 1}, .logits = asked};
  OUTRIDER_RETURN_IF_ERROR(engine->Run(run));

  std::ofstream out(out_path, std::ios::binary);
  uint64_t hash = 0;
  for (const LogitsOfRow& row : asked) {
    const std::span<const std::byte> bytes = std::as_bytes(row.out);
    hash = HashBytes(bytes, hash);
    out.write(reinterpret_cast<const char*>(bytes.data()),
              static_cast<std::streamsize>(bytes.size()));
  }
  out.close();
  if (!out) return InvalidArgument(out_path, ": cannot be written");
  std::printf("%016llx\n", static_cast<unsigned long long>(hash));
  return absl::OkStatus();
}

}  // namespace
}  // namespace outrider

int main(int argc, char** argv) {
  if (argc < 5) {
    std::fputs("usage: logits MODEL ISA OUT TOKEN...\n", stderr);
    return 2;
  }
  const absl::Status status =
      outrider::Run(argv[1], argv[2], argv[3], std::span(argv + 4, argv + argc));
  if (status.ok()) return 0;
  std::fprintf(stderr, "logits: %s\n", std::string(outrider::Message(status)).c_str());
  return 1;
}
