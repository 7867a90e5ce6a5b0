// A connection between a device and a server in virtual time: two ordered streams of bytes.
//
//   Connection connection(events, shape, seed, /*cut=*/std::nullopt);
//   connection.Attach(End::kDevice, device);
//   connection.Attach(End::kServer, server);
//   connection.Write(End::kDevice, frame);     // server.OnBytes() a while later, perhaps in pieces
//
// What is written travels in packets. A packet leaves when the one before it has left (`rate`),
// arrives after `delay` and a random `jitter`, and never before the one before it: this is TCP, on
// which time can be disordered but bytes cannot. A lost packet arrives when its repetition does,
// and holds up what is behind it.
//
// A cut breaks the connection at a byte of one direction: every byte before it arrives, it and what
// is behind it never do. The end that waited for it hears of the break then, the other end a delay
// later; until it does, it goes on writing into the void. Of a silent cut nobody ever hears.
//
// An end reads as fast as bytes arrive unless it stops reading; then the window fills, and the
// other end is not told of room (OnRoom) until it is read.
//
// Memory:  packets under way. Threads: one. A connection outlives the events that it has scheduled:
// whoever makes connections keeps them to the end.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "bench/simulator/world/chance.h"
#include "bench/simulator/world/event_queue.h"

namespace outrider {

enum class End { kDevice, kServer };

inline End Opposite(End end) {
  return end == End::kDevice ? End::kServer : End::kDevice;
}

struct LinkShape {
  Duration delay{0};  // one way
  // The mean of what a packet is late besides, exponentially distributed.
  Duration jitter{0};
  double bytes_per_second = std::numeric_limits<double>::infinity();
  double loss = 0;  // of packets; a repetition may be lost as well
  // How much later a lost packet's repetition arrives. Nothing: three one-way delays, and 10 ms for
  // the sender to notice, about what a tail loss probe takes.
  std::optional<Duration> repetition = std::nullopt;
  uint32_t handshakes = 0;  // round trips before a connection carries the first byte
  uint32_t packet_bytes = 1400;
  uint32_t window_bytes = 65536;

  Duration RepetitionDelay() const {
    return repetition.value_or(3 * delay + std::chrono::milliseconds(10));
  }
};

// Breaks a connection: of what `from` writes, byte number `byte` (the first is 0) never arrives.
struct Cut {
  End from;
  uint64_t byte;
  bool silent = false;
};

class Connection {
 public:
  // What happens at one end.
  class Listener {
   public:
    virtual ~Listener() = default;
    virtual void OnBytes(std::string_view bytes) = 0;
    // All that was written has left, and the window is open.
    virtual void OnRoom() = 0;
    // The other end has closed, or the link is cut. Nothing comes after this.
    virtual void OnEnd() = 0;
  };

  Connection(EventQueue& events, const LinkShape& shape, uint64_t seed, std::optional<Cut> cut);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void Attach(End end, Listener& listener) { at(end).listener = &listener; }

  // Ignored at an end that is closed. No listener is called before this or Close() returns.
  void Write(End from, std::string bytes);
  // The other end hears of it after the bytes that were written; this one hears nothing more.
  void Close(End from);
  // While an end does not read, what arrives there waits. No listener is called before this
  // returns.
  void Read(End end, bool reads);

  bool is_cut() const { return is_cut_; }
  // Would write more, and has to wait until the other end reads.
  bool is_held_up(End from) const {
    const Side& side = at(from);
    return side.open && side.owes_room && !IsWindowOpen(side);
  }
  bool open(End end) const { return at(end).open; }
  uint64_t bytes_written(End from) const { return at(from).written; }

  // What changes from now on; what is under way arrives as it would have.
  void Reshape(const LinkShape& shape) { shape_ = shape; }

 private:
  // One end, and the direction that begins there.
  struct Side {
    Listener* listener = nullptr;
    bool open = true;
    bool reads = true;
    bool owes_room = false;    // OnRoom() is due once the window opens
    uint64_t written = 0;      // bytes, in all
    uint64_t taken = 0;        // of them, by the other end
    MonotonicTime left{};      // when the last packet has left
    MonotonicTime arrived{};   // when it arrives
    std::string unread;        // has arrived here while this end did not read
    bool ends_unread = false;  // and then the end
  };

  Side& at(End end) { return sides_[static_cast<size_t>(end)]; }
  const Side& at(End end) const { return sides_[static_cast<size_t>(end)]; }

  bool IsWindowOpen(const Side& side) const {
    return side.written - side.taken < shape_.window_bytes;
  }
  void SendPacket(End from, std::string packet);
  MonotonicTime ArrivalOf(Side& side, size_t bytes);
  void Arrive(End to, std::string_view bytes);
  void Take(End to, std::string_view bytes);
  void TakeUnread(End end);
  void Break(End first_to_know);
  void EndAt(End end);
  void OfferRoom(End from);

  EventQueue& events_;
  LinkShape shape_;
  Draw draw_;
  const std::optional<Cut> cut_;
  bool is_cut_ = false;
  Side sides_[2];
};

}  // namespace outrider
