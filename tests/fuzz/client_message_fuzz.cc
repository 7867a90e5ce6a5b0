// Messages from the wire: whatever bytes a device sends, as its first message or its second, they
// are refused or followed, and the target is left with nothing it cannot do.
#include <cstddef>
#include <cstdint>

#include "common/base/check.h"
#include "tests/verification/verifier_world.h"

namespace {

void Deliver(outrider::VerifierWorld& world, const outrider::v1::ClientMessage& message) {
  const auto stream = world.Connect();
  world.Send(stream, message);
  world.Runs(4);
}

void DeliverSecond(outrider::VerifierWorld& world, const outrider::v1::ClientMessage& message) {
  const auto stream = world.Connect("somebody else");
  world.Send(stream, outrider::OpenOf(1, "once"));
  world.Send(stream, outrider::ChainOf(0, 1, outrider::Tokens("abcd")));
  if (world.line(stream).can_send) world.Send(stream, message);
  world.Runs(4);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  outrider::v1::ClientMessage message;
  if (!message.ParseFromArray(data, static_cast<int>(size))) return 0;
  outrider::VerifierWorld world;
  Deliver(world, message);
  DeliverSecond(world, message);
  return 0;
}
