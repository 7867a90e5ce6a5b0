#include "bench/simulator/world/link.h"

#include <algorithm>
#include <utility>

#include "bench/simulator/world/time_profile.h"
#include "common/base/check.h"

namespace outrider {
Connection::Connection(EventQueue& events, const LinkShape& shape, uint64_t seed,
                       std::optional<Cut> cut)
    : events_(events), shape_(shape), draw_(seed), cut_(cut) {
  OUTRIDER_CHECK(shape.packet_bytes > 0, "a packet holds something");
  for (Side& side : sides_) side.left = events.now() + 2 * shape.handshakes * shape.delay;
}

void Connection::Write(End from, std::string bytes) {
  if (!at(from).open) return;
  for (size_t begin = 0; begin < bytes.size(); begin += shape_.packet_bytes) {
    SendPacket(from, bytes.substr(begin, shape_.packet_bytes));
  }
  at(from).owes_room = true;
  events_.At(at(from).left, [this, from] { OfferRoom(from); });
}

void Connection::Close(End from) {
  Side& side = at(from);
  if (!side.open) return;
  side.open = false;
  const MonotonicTime arrival = ArrivalOf(side, 0);
  events_.At(arrival, [this, from] {
    if (!is_cut_) EndAt(Opposite(from));
  });
}

void Connection::Read(End end, bool reads) {
  Side& side = at(end);
  if (std::exchange(side.reads, reads) == reads || !reads) return;
  events_.After({}, [this, end] { TakeUnread(end); });
}

void Connection::TakeUnread(End end) {
  Side& side = at(end);
  if (!side.reads) return;
  Take(end, std::exchange(side.unread, {}));
  if (std::exchange(side.ends_unread, false)) EndAt(end);
}

void Connection::SendPacket(End from, std::string packet) {
  Side& side = at(from);
  const uint64_t begin = side.written;
  side.written += packet.size();
  const MonotonicTime arrival = ArrivalOf(side, packet.size());
  const bool cuts = cut_ && cut_->from == from && cut_->byte < side.written;
  if (cuts && cut_->byte < begin) return;  // behind the cut
  if (cuts) packet.resize(cut_->byte - begin);
  const End to = Opposite(from);
  events_.At(arrival, [this, to, cuts, packet = std::move(packet)] {
    if (is_cut_) return;
    Arrive(to, packet);
    if (cuts) Break(to);
  });
}

// A packet leaves behind the one before it and arrives behind it.
MonotonicTime Connection::ArrivalOf(Side& side, size_t bytes) {
  const double transmission_s = static_cast<double>(bytes) / shape_.bytes_per_second;
  side.left = std::max(side.left, events_.now()) +
              Scaled(std::chrono::duration_cast<Duration>(std::chrono::seconds(1)), transmission_s);
  Duration late{0};
  if (shape_.jitter.count() > 0) late += Scaled(shape_.jitter, draw_.Exponential());
  while (shape_.loss > 0 && draw_.Happens(shape_.loss)) late += shape_.RepetitionDelay();
  side.arrived = std::max(side.arrived, side.left + shape_.delay + late);
  return side.arrived;
}

void Connection::Arrive(End to, std::string_view bytes) {
  Side& side = at(to);
  if (side.reads && side.unread.empty()) {
    Take(to, bytes);
  } else {
    side.unread += bytes;
  }
}

void Connection::Take(End to, std::string_view bytes) {
  const End from = Opposite(to);
  at(from).taken += bytes.size();
  if (at(to).open && !bytes.empty()) at(to).listener->OnBytes(bytes);
  OfferRoom(from);
}

void Connection::Break(End first_to_know) {
  is_cut_ = true;
  if (cut_->silent) return;
  EndAt(first_to_know);
  events_.After(shape_.delay, [this, other = Opposite(first_to_know)] { EndAt(other); });
}

void Connection::EndAt(End end) {
  Side& side = at(end);
  if (!side.open) return;
  if ((!side.reads || !side.unread.empty()) && !is_cut_) {
    side.ends_unread = true;
    return;
  }
  side.open = false;
  side.listener->OnEnd();
}

void Connection::OfferRoom(End from) {
  Side& side = at(from);
  const bool has_left = side.left <= events_.now();
  if (!side.owes_room || !side.open || !has_left || !IsWindowOpen(side)) return;
  side.owes_room = false;
  side.listener->OnRoom();
}

}  // namespace outrider
