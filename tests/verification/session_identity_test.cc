// By what a device finds its session again, and what does not open it.
#include "common/verification/machine/session_identity.h"

#include "gtest/gtest.h"
#include "tests/verification/verifier_world.h"

namespace outrider {
namespace {

struct Named {
  uint64_t bits = 0;
  SessionIdentity::RandomBits random_bits = [this] { return ++bits * 0x9e3779b97f4a7c15; };
  SessionIdentity identity{OpenOf(7, "once").open(),
                           SessionIdentity::HashOf(OpenOf(7, "once").open()), random_bits};
};

v1::Resume ResumeWith(const std::string& token, uint32_t attempt = 9) {
  v1::Resume resume;
  resume.set_token(token);
  resume.set_attempt(attempt);
  return resume;
}

TEST(SessionIdentity, TheSameOpenButForItsAttemptIsItsOwn) {
  Named named;
  v1::Open open = OpenOf(7, "once").open();
  open.set_attempt(3);
  EXPECT_TRUE(named.identity.IsOpenedBy(open, SessionIdentity::HashOf(open)));
  open.add_prompt();
  EXPECT_FALSE(named.identity.IsOpenedBy(open, SessionIdentity::HashOf(open)));
  EXPECT_FALSE(named.identity.IsOpenedBy(OpenOf(8, "once").open(),
                                         SessionIdentity::HashOf(OpenOf(8, "once").open())));
}

TEST(SessionIdentity, AttemptsRise) {
  Named named;
  EXPECT_TRUE(named.identity.IsLate(1));
  EXPECT_FALSE(named.identity.IsLate(2));
  named.identity.Resume(ResumeWith(named.identity.token(), 5));
  EXPECT_TRUE(named.identity.IsLate(5));
}

TEST(SessionIdentity, EveryAttachmentHasATokenOfItsOwn) {
  Named named;
  const std::string first = named.identity.token();
  EXPECT_EQ(first.size(), 16u);
  named.identity.Resume(ResumeWith(first));
  EXPECT_NE(named.identity.token(), first);
  EXPECT_TRUE(named.identity.Admits(ResumeWith(named.identity.token())));
}

TEST(SessionIdentity, TheTokenBeforeIsGoodUntilTheDeviceHasSpoken) {
  Named named;
  const std::string first = named.identity.token();
  named.identity.Resume(ResumeWith(first));
  EXPECT_TRUE(named.identity.Admits(ResumeWith(first)));
  named.identity.DeviceHasToken();
  EXPECT_FALSE(named.identity.Admits(ResumeWith(first)));
}

TEST(SessionIdentity, AnAnswerMayBeLostTwice) {
  Named named;
  const std::string first = named.identity.token();
  named.identity.Resume(ResumeWith(first, 2));
  const std::string second = named.identity.token();
  named.identity.Resume(ResumeWith(first, 3));  // the second was never heard of
  EXPECT_TRUE(named.identity.Admits(ResumeWith(first)));
  EXPECT_FALSE(named.identity.Admits(ResumeWith(second)));
}

TEST(SessionIdentity, NothingElseIsAToken) {
  Named named;
  std::string token = named.identity.token();
  EXPECT_FALSE(named.identity.Admits(ResumeWith("")));
  EXPECT_FALSE(named.identity.Admits(ResumeWith(token + "x")));
  token.back() ^= 1;
  EXPECT_FALSE(named.identity.Admits(ResumeWith(token)));
}

}  // namespace
}  // namespace outrider
