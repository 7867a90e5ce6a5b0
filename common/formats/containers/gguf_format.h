// What the GGUF reader and writer must agree on: constants of the format and limits of ours.
// GGUF.md says where each comes from.
#pragma once

#include <cstdint>
#include <string_view>

namespace outrider {

constexpr std::string_view kGgufMagic = "GGUF";
constexpr std::string_view kGgufAlignmentKey = "general.alignment";
constexpr std::string_view kGgufSplitNumberKey = "split.no";
constexpr std::string_view kGgufSplitCountKey = "split.count";
constexpr std::string_view kGgufSplitTensorsKey = "split.tensors.count";

constexpr uint64_t kGgufDefaultAlignment = 32;
// Below 8 a tensor could not be read where it lies; no data section starts a gigabyte late.
constexpr uint64_t kGgufSmallestAlignment = 8;
constexpr uint64_t kGgufLargestAlignment = uint64_t{1} << 30;

// Ours: a tensor of type t in panels (tensors/panels.h) has type kGgufPanelTypes + t. GGUF gives out
// small numbers, so that others refuse what they would misread. Another layout takes other numbers.
constexpr uint32_t kGgufPanelTypes = uint32_t{1} << 16;

constexpr uint64_t kGgufLargestString = uint64_t{1} << 30;
constexpr uint64_t kGgufLargestArray = uint64_t{1} << 30;  // elements
constexpr uint64_t kGgufLargestKey = 65535;
constexpr uint64_t kGgufLargestTensorName = 63;

// No real model comes near these. They bound what a hostile file of valid but tiny entries can make
// us remember about it.
constexpr uint64_t kGgufMostKeys = uint64_t{1} << 16;
constexpr uint64_t kGgufMostTensors = uint64_t{1} << 20;

constexpr uint64_t AlignUp(uint64_t value, uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

}  // namespace outrider
