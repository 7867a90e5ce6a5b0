// What `outrider convert` and `inflate` write about a file's weights into its metadata, so that
// nobody has to read all of them to know which model it is:
//
//   outrider.content_hash    u64: of all tensors (content_parts.h)
//   outrider.content_table   u64: of every tensor's name, type and dims, in the file's order
//
// Other programs copy metadata when they make one file from another. A record whose table is not
// the file's own is another file's, and is not there for us. Where the table fits, the hash is
// believed by those who do not read everything; whoever does compares, and says so when it lies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "absl/status/status.h"
#include "common/formats/models/content_parts.h"
#include "common/formats/models/hyperparameters.h"
#include "common/formats/models/model_file.h"

namespace outrider {

class GgufFile;
class GgufWriter;

inline constexpr std::string_view kContentHashKey = "outrider.content_hash";
inline constexpr std::string_view kContentTableKey = "outrider.content_table";

uint64_t HashTensorTable(std::span<const ModelTensor> tensors);

// Makes the record while a file is being written.
//
//   ContentRecorder recorder(hyperparameters, tensors, writer);     // before writer.Begin()
//   ... writer.Write(rows), recorder.Add(tensor, rows) ...
//   OUTRIDER_RETURN_IF_ERROR(recorder.Finish());                    // before writer.Commit()
class ContentRecorder {
 public:
  // `tensors` are those of the file, in its order; they and the writer outlive it.
  ContentRecorder(const Hyperparameters& model, std::span<const ModelTensor> tensors,
                  GgufWriter& writer);

  // Rows of a matrix in any pieces, from its first to its last; a vector in one piece.
  absl::Status Add(const ModelTensor& tensor, std::span<const std::byte> rows);
  absl::Status Finish();

 private:
  ContentHasher hasher_;
  GgufWriter& writer_;
};

// Nothing when there is no record, or another file's.
std::optional<uint64_t> ReadContentRecord(const GgufFile& file,
                                          std::span<const ModelTensor> tensors);

}  // namespace outrider
