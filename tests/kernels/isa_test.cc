#include "common/kernels/isa.h"

#include <algorithm>
#include <string>

#include "common/base/status.h"
#include "common/kernels/kernels.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace outrider {
namespace {

TEST(Isa, TheReferencesAreAlwaysThereAndTheBestIsLast) {
  EXPECT_EQ(SupportedIsas().front(), Isa::kScalar);
  EXPECT_EQ(*SelectIsa(std::nullopt), SupportedIsas().back());
  EXPECT_TRUE(std::ranges::is_sorted(SupportedIsas()));
}

TEST(Isa, EachCanBeNamedAndHasATable) {
  for (const Isa isa : SupportedIsas()) {
    ASSERT_TRUE(SelectIsa(Name(isa)).ok());
    EXPECT_EQ(*SelectIsa(Name(isa)), isa);
    EXPECT_EQ(KernelsFor(isa).isa, isa);
  }
}

TEST(Isa, AnUnknownNameIsAnswered) {
  const absl::Status status = SelectIsa("sse9").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(Message(status)), testing::HasSubstr("\"sse9\""));
  EXPECT_THAT(std::string(Message(status)), testing::HasSubstr("scalar"));
}

TEST(Isa, ANameOfAnotherMachineIsAnswered) {
#if defined(__x86_64__)
  const absl::Status status = SelectIsa("i8mm").status();
#else
  const absl::Status status = SelectIsa("amx").status();
#endif
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(Message(status)), testing::HasSubstr("it offers scalar"));
}

}  // namespace
}  // namespace outrider
