// Whole files, and what can be done to them: bytes, bits and lengths anywhere, and records
// repeated, exchanged, left out or with a number at an extreme, so that what lies behind still
// reads.
//
// Thirteen bytes of a fuzzer's input are an edit: four of where, one of what, eight of with what.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace outrider {

// A key with its value, or what describes a tensor.
struct Record {
  size_t at;
  std::optional<size_t> count_at;  // where the file says how many of these there are, in 64 bits
};

struct WholeFile {
  std::string bytes;
  std::vector<Record> records = {};  // each ends where the next begins
  size_t records_end = 0;            // before it, all is metadata
  bool is_text = false;
};

WholeFile WholeGguf(std::string bytes);
WholeFile WholeJson(std::string text);

// With the edits that follow an input's first `skipped` bytes.
std::string Spoilt(const WholeFile& file, const uint8_t* data, size_t size, size_t skipped);

// For LLVMFuzzerCustomMutator: two first bytes, each as often as every other whatever covers the
// most code, then edits; as they were, but for a little, or others.
size_t MutateSpoilt(uint8_t* data, size_t size, size_t size_max, unsigned seed);

}  // namespace outrider
