// What models are trained on: text files, plain or gzip'd, in which a line "<|endoftext|>" ends one
// document and begins the next.
//
//   OUTRIDER_ASSIGN_OR_RETURN(const std::string text, ReadTextFile("books.txt.gz"));
//   for (std::string_view document : Documents(text)) ...
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace outrider {

inline constexpr std::string_view kEndOfText = "<|endoftext|>";

// The whole file, unpacked where it is gzip'd (which its first bytes say, not its name).
// InvalidArgument, naming the place, for what is no UTF-8: a model learns broken characters as
// faithfully as whole ones. DataLoss for a gzip'd file that is cut or damaged.
absl::StatusOr<std::string> ReadTextFile(const std::string& path);

// Views into `text`, without the white space around each; those that are nothing but white space
// are left out.
std::vector<std::string_view> Documents(std::string_view text);

}  // namespace outrider
