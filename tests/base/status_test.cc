#include "common/base/status.h"

#include <cerrno>
#include <cstdint>

#include "gtest/gtest.h"

namespace outrider {
namespace {

TEST(Concat, JoinsStringsAndNumbers) {
  EXPECT_EQ(Concat("blk.", 3, ".attn_", 'q', std::string(": "), uint64_t{18446744073709551615u},
                   " ", -5, " ", true),
            "blk.3.attn_q: 18446744073709551615 -5 true");
}

TEST(Concat, FloatsReadBack) {
  EXPECT_EQ(Concat(0.1, " ", 1e-5f), "0.1 1e-05");
}

TEST(Status, ErrnoBecomesASentenceWithTheRightCode) {
  const absl::Status status = ErrnoStatus(ENOENT, "model.gguf: cannot open");
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Message(status), "model.gguf: cannot open: No such file or directory");
}

TEST(Status, AnnotateKeepsTheCodeAndOkStaysOk) {
  EXPECT_TRUE(Annotate(absl::OkStatus(), "x").ok());
  const absl::Status status = Annotate(DataLoss("short read"), "a.gguf");
  EXPECT_EQ(status, DataLoss("a.gguf: short read"));
}

absl::StatusOr<int> Half(int value) {
  if (value % 2 != 0) return InvalidArgument(value, " is odd");
  return value / 2;
}

absl::StatusOr<int> Quarter(int value) {
  OUTRIDER_ASSIGN_OR_RETURN(const int half, Half(value));
  OUTRIDER_ASSIGN_OR_RETURN(const int quarter, Half(half));
  return quarter;
}

TEST(Status, AssignOrReturnPassesValuesAndErrorsOn) {
  EXPECT_EQ(*Quarter(12), 3);
  EXPECT_EQ(Quarter(6).status(), InvalidArgument("3 is odd"));
}

}  // namespace
}  // namespace outrider
