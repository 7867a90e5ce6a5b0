#include "common/tokens/truncation.h"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "common/base/portable_math.h"

namespace outrider {
namespace {

constexpr float kImpossible = -std::numeric_limits<float>::infinity();

bool Before(const Candidate& a, const Candidate& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.token < b.token);
}

// Brings the first `count` in order to the front.
void SelectFirst(std::vector<Candidate>::iterator begin, size_t count,
                 std::vector<Candidate>::iterator end) {
  if (count < static_cast<size_t>(end - begin)) {
    std::nth_element(begin, begin + static_cast<ptrdiff_t>(count), end, Before);
  }
}

// A logit that at least k tokens reach, as high as is cheap to find. The largest of each block are
// that many different tokens, so the k-th largest of those has k tokens at or above it.
float LogitOfAtLeast(size_t k, std::span<const float> logits, std::vector<Candidate>& scratch) {
  constexpr size_t kBlock = 32;
  const size_t block_count = logits.size() / kBlock;
  if (k > block_count) return kImpossible;
  scratch.clear();
  for (size_t block = 0; block < block_count; ++block) {
    const float* x = logits.data() + block * kBlock;
    float largest = x[0];
    for (size_t i = 1; i < kBlock; ++i) largest = x[i] > largest ? x[i] : largest;
    scratch.push_back({static_cast<TokenId>(block), largest, 0});
  }
  const auto kth = scratch.begin() + static_cast<ptrdiff_t>(k - 1);
  std::nth_element(scratch.begin(), kth, scratch.end(), Before);
  return kth->logit;
}

// Drops candidates too light to be among those that reach top_p: together they weigh less than half
// of what may be left out. Half, so that the rounding of sums cannot matter; where top_p leaves no
// room for that nothing is dropped.
void DropTail(double top_p, double total, std::vector<Candidate>& candidates) {
  constexpr double kRoomMin = 1e-8;  // sums of 2^24 weights round by less than 2^-28
  const double room = 1 - top_p;
  if (room < kRoomMin) return;
  const double least = room * total / 2 / static_cast<double>(candidates.size());
  std::erase_if(candidates, [&](const Candidate& candidate) { return candidate.weight < least; });
}

}  // namespace

double WeightOf(float logit, float largest, double temperature) {
  return portable::Exp((static_cast<double>(logit) - static_cast<double>(largest)) / temperature);
}

void KeepTopK(std::span<const float> logits, size_t k, float largest, double temperature,
              std::vector<Candidate>& candidates) {
  const float least = LogitOfAtLeast(k, logits, candidates);
  candidates.clear();
  for (size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] < least || logits[i] == kImpossible) continue;
    candidates.push_back({static_cast<TokenId>(i), logits[i], 0});
  }
  if (candidates.size() > k) {
    SelectFirst(candidates.begin(), k, candidates.end());
    candidates.resize(k);
    std::sort(candidates.begin(), candidates.end(),
              [](const Candidate& a, const Candidate& b) { return a.token < b.token; });
  }
  for (Candidate& candidate : candidates) {
    candidate.weight = WeightOf(candidate.logit, largest, temperature);
  }
}

void KeepTopP(double top_p, std::vector<Candidate>& candidates) {
  double total = 0;
  for (const Candidate& candidate : candidates) total += candidate.weight;
  DropTail(top_p, total, candidates);
  const double enough = top_p * total;
  double sum = 0;
  size_t sorted = 0;
  for (size_t chunk = 64; sorted < candidates.size(); chunk *= 4) {  // few are needed, as a rule
    const size_t end = sorted + std::min(chunk, candidates.size() - sorted);
    const auto begin = candidates.begin() + static_cast<ptrdiff_t>(sorted);
    SelectFirst(begin, end - sorted, candidates.end());
    std::sort(begin, candidates.begin() + static_cast<ptrdiff_t>(end), Before);
    for (; sorted < end; ++sorted) {
      sum += candidates[sorted].weight;
      if (sum < enough) continue;
      candidates.resize(sorted + 1);
      return;
    }
  }
}

}  // namespace outrider
