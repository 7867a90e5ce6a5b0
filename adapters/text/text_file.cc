#include "adapters/text/text_file.h"

#include <zlib.h>

#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <memory>

#include "common/base/status.h"
#include "common/text/unicode/unicode.h"

namespace outrider {
namespace {

constexpr unsigned kChunkBytes = 1 << 20;
// Text is held in memory whole; more than this is a corpus for another kind of trainer, or a small
// file that unpacks without end.
constexpr size_t kMaxTextBytes = size_t{4} << 30;

struct CloseGz {
  void operator()(gzFile_s* file) const { gzclose(file); }
};

absl::Status CheckUtf8(const std::string& path, std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    const Utf8Sequence sequence = FirstSequence(text.substr(at));
    if (sequence.state != Utf8Sequence::State::kWhole) {
      return InvalidArgument(path, ": byte ", at,
                             " of the text is no UTF-8; convert the file, with iconv for example");
    }
    at += sequence.length;
  }
  return absl::OkStatus();
}

std::string_view Trimmed(std::string_view text) {
  constexpr std::string_view kWhite = " \t\r\n\f\v";
  const size_t first = text.find_first_not_of(kWhite);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kWhite) + 1 - first);
}

}  // namespace

absl::StatusOr<std::string> ReadTextFile(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    return InvalidArgument(path, ": is a directory, not a text file");
  }
  errno = 0;
  const std::unique_ptr<gzFile_s, CloseGz> file(gzopen(path.c_str(), "rb"));
  if (file == nullptr) return ErrnoStatus(errno, path + ": cannot open");
  gzbuffer(file.get(), kChunkBytes);
  std::string text;
  while (true) {
    const size_t before = text.size();
    text.resize(before + kChunkBytes);
    const int count = gzread(file.get(), text.data() + before, kChunkBytes);
    if (count < 0) {
      int code = 0;
      return DataLoss(path, ": cannot be unpacked after ", before,
                      " bytes of text: ", gzerror(file.get(), &code));
    }
    text.resize(before + static_cast<size_t>(count));
    if (count == 0) break;
    if (text.size() > kMaxTextBytes) {
      return InvalidArgument(path, ": holds more than ", kMaxTextBytes,
                             " bytes of text; split it and train on a part");
    }
  }
  // A file that ends in the middle of its compressed data is read to there without an error.
  int code = Z_OK;
  gzerror(file.get(), &code);
  if (code == Z_BUF_ERROR) return DataLoss(path, ": ends in the middle of its compressed data");
  OUTRIDER_RETURN_IF_ERROR(CheckUtf8(path, text));
  return text;
}

std::vector<std::string_view> Documents(std::string_view text) {
  std::vector<std::string_view> documents;
  size_t begin = 0;  // of the document
  const auto end_document = [&](size_t end) {
    const std::string_view document = Trimmed(text.substr(begin, end - begin));
    if (!document.empty()) documents.push_back(document);
  };
  for (size_t line = 0; line < text.size();) {
    const size_t line_end = std::min(text.find('\n', line), text.size());
    if (Trimmed(text.substr(line, line_end - line)) == kEndOfText) {
      end_document(line);
      begin = line_end;
    }
    line = line_end + 1;
  }
  end_document(text.size());
  return documents;
}

}  // namespace outrider
