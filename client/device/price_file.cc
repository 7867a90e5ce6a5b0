#include "client/device/price_file.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <utility>

#include "common/base/atomic_file.h"
#include "common/base/status.h"
#include "common/formats/models/content_hash.h"

namespace outrider {
namespace {

// Its first line. Another one is of another program.
constexpr std::string_view kTitle = "outrider prices 3";
constexpr size_t kBytesMax = 128 << 10;
constexpr double kMillisecondsMax = 1e7;
constexpr uint32_t kNodesMax = 1024;

// The word that `line` begins with, which it loses.
std::string_view TakeWord(std::string_view& line) {
  const std::string_view word = line.substr(0, line.find(' '));
  line.remove_prefix(std::min(line.size(), word.size() + 1));
  return word;
}

template <typename Number, typename... Base>
bool Parse(std::string_view word, Number& number, Base... base) {
  const auto end = word.data() + word.size();
  const auto [stopped_at, error] = std::from_chars(word.data(), end, number, base...);
  return error == std::errc() && stopped_at == end;
}

bool ParseBool(std::string_view word, bool& value) {
  value = word == "1";
  return value || word == "0";
}

bool IsTime(double ms) {
  return std::isfinite(ms) && ms >= 0 && ms <= kMillisecondsMax;
}

// The words of one shape, which `line` loses.
bool ParsePass(std::string_view& line, ShapeTime& pass) {
  auto& [shape, ms] = pass;
  return Parse(TakeWord(line), shape.nodes) && shape.nodes <= kNodesMax &&
         Parse(TakeWord(line), shape.leaves) && shape.leaves <= kNodesMax &&
         Parse(TakeWord(line), ms) && IsTime(ms) && ms > 0;
}

}  // namespace

std::string PriceFile::DefaultPath() {
  if (const char* const cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache == '/') {
    return Concat(cache, "/outrider/prices");
  }
  if (const char* const home = std::getenv("HOME"); home != nullptr && *home == '/') {
    return Concat(home, "/.cache/outrider/prices");
  }
  return "";
}

std::optional<Prices> PriceFile::Find(uint64_t key) const {
  for (const Entry& entry : Read()) {
    if (entry.key == key) return entry.prices;
  }
  return std::nullopt;
}

void PriceFile::Keep(uint64_t key, const Prices& prices) const {
  if (path_.empty() || !prices.IsTakingTime()) return;
  std::vector<Entry> entries = Read();
  std::erase_if(entries, [&](const Entry& entry) { return entry.key == key; });
  entries.insert(entries.begin(), {key, prices});
  entries.resize(std::min(entries.size(), kPlaces));
  std::string text = Concat(kTitle, "\n");
  for (const auto& [of, price] : entries) {
    text += Concat(HashDigits(of), " ", price.pass_ms, " ", price.row_ms, " ", price.draft_ms, " ",
                   price.draft_node_ms, " ", price.findings.pass_nodes, " ",
                   int{price.findings.hints}, " ", int{price.findings.at_server});
    for (size_t i = 0; i < std::min(price.passes.size(), kShapesMax); ++i) {
      const auto& [shape, ms] = price.passes[i];
      text += Concat(" ", shape.nodes, " ", shape.leaves, " ", ms);
    }
    text += "\n";
  }
  std::error_code ignored;
  std::filesystem::create_directories(std::filesystem::path(path_).parent_path(), ignored);
  Write(text).IgnoreError();
}

absl::Status PriceFile::Write(const std::string& text) const {
  OUTRIDER_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path_));
  OUTRIDER_RETURN_IF_ERROR(file.Append(text));
  return file.Commit();
}

std::vector<PriceFile::Entry> PriceFile::Read() const {
  std::vector<Entry> entries;
  std::ifstream file(path_, std::ios::binary);
  std::string text(kBytesMax, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  std::string_view left = text;
  if (left.substr(0, left.find('\n')) != kTitle) return entries;
  while (!left.empty() && entries.size() < kPlaces) {
    const std::string_view line = left.substr(0, left.find('\n'));
    left.remove_prefix(std::min(left.size(), line.size() + 1));
    if (const std::optional<Entry> entry = Parse(line)) entries.push_back(*entry);
  }
  return entries;
}

std::optional<PriceFile::Entry> PriceFile::Parse(std::string_view line) {
  Entry entry = {};
  Prices& prices = entry.prices;
  if (!outrider::Parse(TakeWord(line), entry.key, 16)) return std::nullopt;
  for (double* const ms :
       {&prices.pass_ms, &prices.row_ms, &prices.draft_ms, &prices.draft_node_ms}) {
    if (!outrider::Parse(TakeWord(line), *ms) || !IsTime(*ms)) return std::nullopt;
  }
  if (!prices.IsTakingTime()) return std::nullopt;
  Findings& findings = prices.findings;
  if (!outrider::Parse(TakeWord(line), findings.pass_nodes) || findings.pass_nodes < 1 ||
      findings.pass_nodes > kNodesMax) {
    return std::nullopt;
  }
  if (!ParseBool(TakeWord(line), findings.hints) ||
      !ParseBool(TakeWord(line), findings.at_server)) {
    return std::nullopt;
  }
  while (!line.empty()) {
    ShapeTime pass = {};
    if (prices.passes.size() == kShapesMax || !ParsePass(line, pass)) return std::nullopt;
    prices.passes.push_back(pass);
  }
  return entry;
}

}  // namespace outrider
