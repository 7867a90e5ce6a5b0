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
constexpr std::string_view kTitle = "outrider prices 5";
constexpr std::string_view kAccepted = "accepted";  // begins a line of two models
constexpr size_t kBytesMax = 192 << 10;
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

std::string WordsOf(const ServerFindings& server) {
  std::string words = Concat(int{server.at_server}, " ", int{server.tries}, " ", server.verdicts,
                             " ", server.length, " ", server.next_long);
  for (const Pace& pace : {server.here, server.there}) {
    words += Concat(" ", pace.verdicts, " ", pace.tokens, " ", pace.ms);
  }
  return words;
}

// The words of it, which `line` loses.
bool ParseServer(std::string_view& line, ServerFindings& server) {
  bool is_good = ParseBool(TakeWord(line), server.at_server);
  is_good &= ParseBool(TakeWord(line), server.tries);
  for (uint32_t* const count : {&server.verdicts, &server.length, &server.next_long}) {
    is_good &= Parse(TakeWord(line), *count);
  }
  for (Pace* const pace : {&server.here, &server.there}) {
    for (double* const sum : {&pace->verdicts, &pace->tokens, &pace->ms}) {
      is_good &= Parse(TakeWord(line), *sum);
    }
  }
  return is_good && server.MakesSense();
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
  for (const Entry& entry : Read().entries) {
    if (entry.key == key) return entry.prices;
  }
  return std::nullopt;
}

void PriceFile::Keep(uint64_t key, const Prices& prices) const {
  if (path_.empty() || !prices.IsTakingTime()) return;
  Contents contents = Read();
  std::erase_if(contents.entries, [&](const Entry& entry) { return entry.key == key; });
  contents.entries.insert(contents.entries.begin(), {key, prices});
  Write(contents);
}

std::optional<Accepted> PriceFile::FindAccepted(uint64_t target, uint64_t draft) const {
  for (const Pair& pair : Read().pairs) {
    if (pair.IsOf(target, draft)) return pair.accepted;
  }
  return std::nullopt;
}

void PriceFile::Add(uint64_t target, uint64_t draft, const Accepted& more) const {
  if (path_.empty() || more.verdicts == 0 || more.nodes == 0) return;
  Contents contents = Read();
  Accepted sum = more;
  for (const Pair& pair : contents.pairs) {
    if (!pair.IsOf(target, draft)) continue;
    sum.verdicts += pair.accepted.verdicts;
    sum.tokens += pair.accepted.tokens;
    sum.nodes += pair.accepted.nodes;
  }
  if (sum.verdicts > kVerdictsMax) {
    sum = {.verdicts = kVerdictsMax,
           .tokens = sum.tokens * kVerdictsMax / sum.verdicts,
           .nodes = sum.nodes * kVerdictsMax / sum.verdicts};
  }
  std::erase_if(contents.pairs, [&](const Pair& pair) { return pair.IsOf(target, draft); });
  contents.pairs.insert(contents.pairs.begin(), {target, draft, sum});
  Write(contents);
}

void PriceFile::Write(const Contents& contents) const {
  std::string text = Concat(kTitle, "\n");
  for (size_t i = 0; i < std::min(contents.pairs.size(), kPlaces); ++i) {
    const auto& [target, draft, accepted] = contents.pairs[i];
    text += Concat(kAccepted, " ", HashDigits(target), " ", HashDigits(draft), " ",
                   accepted.verdicts, " ", accepted.tokens, " ", accepted.nodes, "\n");
  }
  for (size_t n = 0; n < std::min(contents.entries.size(), kPlaces); ++n) {
    const auto& [of, price] = contents.entries[n];
    text += Concat(HashDigits(of), " ", price.pass_ms, " ", price.row_ms, " ", price.draft_ms, " ",
                   price.draft_node_ms, " ", int{price.knows_rows}, " ", price.findings.pass_nodes,
                   " ", int{price.findings.hints}, " ", WordsOf(price.findings.server));
    for (size_t i = 0; i < std::min(price.passes.size(), kShapesMax); ++i) {
      const auto& [shape, ms] = price.passes[i];
      text += Concat(" ", shape.nodes, " ", shape.leaves, " ", ms);
    }
    text += "\n";
  }
  std::error_code ignored;
  std::filesystem::create_directories(std::filesystem::path(path_).parent_path(), ignored);
  WriteText(text).IgnoreError();
}

absl::Status PriceFile::WriteText(const std::string& text) const {
  OUTRIDER_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path_));
  OUTRIDER_RETURN_IF_ERROR(file.Append(text));
  return file.Commit();
}

PriceFile::Contents PriceFile::Read() const {
  Contents contents;
  std::ifstream file(path_, std::ios::binary);
  std::string text(kBytesMax, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  std::string_view left = text;
  if (left.substr(0, left.find('\n')) != kTitle) return contents;
  while (!left.empty() && contents.entries.size() < kPlaces) {
    const std::string_view line = left.substr(0, left.find('\n'));
    left.remove_prefix(std::min(left.size(), line.size() + 1));
    if (const std::optional<Pair> pair = ParsePair(line)) {
      if (contents.pairs.size() < kPlaces) contents.pairs.push_back(*pair);
    } else if (const std::optional<Entry> entry = ParseEntry(line)) {
      contents.entries.push_back(*entry);
    }
  }
  return contents;
}

std::optional<PriceFile::Pair> PriceFile::ParsePair(std::string_view line) {
  if (TakeWord(line) != kAccepted) return std::nullopt;
  Pair pair = {};
  if (!Parse(TakeWord(line), pair.target, 16) || !Parse(TakeWord(line), pair.draft, 16)) {
    return std::nullopt;
  }
  auto& [verdicts, tokens, nodes] = pair.accepted;
  for (uint64_t* const sum : {&verdicts, &tokens, &nodes}) {
    if (!Parse(TakeWord(line), *sum) || *sum > kVerdictsMax * kNodesMax) return std::nullopt;
  }
  // Each verdict commits a token of the target's own, and of what was drafted no more than that.
  const bool makes_sense = verdicts > 0 && verdicts <= tokens && tokens - verdicts <= nodes;
  return makes_sense && line.empty() ? std::optional(pair) : std::nullopt;
}

std::optional<PriceFile::Entry> PriceFile::ParseEntry(std::string_view line) {
  Entry entry = {};
  Prices& prices = entry.prices;
  if (!Parse(TakeWord(line), entry.key, 16)) return std::nullopt;
  for (double* const ms :
       {&prices.pass_ms, &prices.row_ms, &prices.draft_ms, &prices.draft_node_ms}) {
    if (!Parse(TakeWord(line), *ms) || !IsTime(*ms)) return std::nullopt;
  }
  if (!prices.IsTakingTime()) return std::nullopt;
  if (!ParseBool(TakeWord(line), prices.knows_rows)) return std::nullopt;
  Findings& findings = prices.findings;
  if (!Parse(TakeWord(line), findings.pass_nodes) || findings.pass_nodes < 1 ||
      findings.pass_nodes > kNodesMax) {
    return std::nullopt;
  }
  if (!ParseBool(TakeWord(line), findings.hints) || !ParseServer(line, findings.server)) {
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
