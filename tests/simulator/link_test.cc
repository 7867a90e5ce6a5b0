#include "bench/simulator/world/link.h"

#include <chrono>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace outrider {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Notes what it hears, and when.
class Ear final : public Connection::Listener {
 public:
  explicit Ear(const EventQueue& events) : events_(events), begin_(events.now()) {}

  void OnBytes(std::string_view bytes) override {
    EXPECT_FALSE(ended_) << "bytes after the end";
    heard += bytes;
    last_bytes = Now();
  }
  void OnRoom() override { ++rooms; }
  void OnEnd() override {
    EXPECT_FALSE(ended_) << "ends twice";
    ended_ = true;
    end = Now();
  }

  std::string heard;
  Duration last_bytes{0};
  std::optional<Duration> end;
  int rooms = 0;

 private:
  Duration Now() const { return events_.now() - begin_; }

  const EventQueue& events_;
  const MonotonicTime begin_;
  bool ended_ = false;
};

struct Line {
  explicit Line(const LinkShape& shape, std::optional<Cut> cut = std::nullopt, uint64_t seed = 1)
      : connection(events, shape, seed, cut), device(events), server(events) {
    connection.Attach(End::kDevice, device);
    connection.Attach(End::kServer, server);
  }
  void Run() {
    while (events.RunNext()) {
    }
  }

  EventQueue events;
  Connection connection;
  Ear device;
  Ear server;
};

std::string Digits(size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i) text.push_back(static_cast<char>('0' + i % 10));
  return text;
}

TEST(Link, BytesArriveAfterTheDelayAndTheTimeTheyTakeToLeave) {
  Line line({.delay = milliseconds(30), .bytes_per_second = 1000});
  line.connection.Write(End::kDevice, Digits(100));
  line.connection.Write(End::kDevice, Digits(50));
  line.Run();
  EXPECT_EQ(line.server.heard, Digits(100) + Digits(50));
  EXPECT_EQ(line.server.last_bytes, milliseconds(30 + 150));
  EXPECT_FALSE(line.server.end.has_value());
}

TEST(Link, BothDirectionsAreThemselves) {
  Line line({.delay = milliseconds(10), .bytes_per_second = 1000});
  line.connection.Write(End::kDevice, Digits(1000));
  line.connection.Write(End::kServer, "x");
  line.Run();
  EXPECT_EQ(line.device.last_bytes, milliseconds(11));
  EXPECT_EQ(line.server.last_bytes, milliseconds(1010));
}

TEST(Link, WhateverJitterAndLossDoBytesKeepTheirOrder) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    Line line(
        {.delay = milliseconds(10), .jitter = milliseconds(20), .loss = 0.3, .packet_bytes = 7},
        std::nullopt, seed);
    std::string written;
    for (int i = 0; i < 20; ++i) {
      line.connection.Write(End::kServer, Digits(33));
      written += Digits(33);
      line.events.RunNext();
    }
    line.Run();
    EXPECT_EQ(line.device.heard, written) << "seed " << seed;
  }
}

TEST(Link, JitterIsLateByItsMeanOnAverage) {
  Draw seeds(7);
  double sum_ms = 0;
  constexpr int kCount = 4000;
  for (int i = 0; i < kCount; ++i) {
    Line line({.delay = milliseconds(10), .jitter = milliseconds(5)}, std::nullopt, seeds.Bits());
    line.connection.Write(End::kDevice, "x");
    line.Run();
    sum_ms += static_cast<double>(line.server.last_bytes.count()) * 1e-6;
  }
  EXPECT_NEAR(sum_ms / kCount, 15, 4 * 5 / std::sqrt(kCount));  // four standard errors
}

TEST(Link, ALostPacketIsLateByItsRepetitionAndHoldsUpThoseBehindIt) {
  // With half of all packets lost, the arrival of the last is a sum of whole repetitions.
  Line line({.delay = milliseconds(10), .loss = 0.5, .repetition = seconds(1)}, std::nullopt, 3);
  for (int i = 0; i < 20; ++i) line.connection.Write(End::kDevice, "x");
  line.Run();
  EXPECT_EQ(line.server.heard.size(), 20u);
  EXPECT_GE(line.server.last_bytes, seconds(1));
  EXPECT_EQ(line.server.last_bytes % seconds(1), milliseconds(10));
}

// A cut at byte n: exactly n bytes arrive, and both ends hear of it.
TEST(Link, ACutLetsExactlyTheBytesBeforeItThrough) {
  const std::string text = Digits(50);
  for (const End from : {End::kDevice, End::kServer}) {
    for (uint64_t byte = 0; byte < text.size(); ++byte) {
      Line line({.delay = milliseconds(10), .packet_bytes = 8}, Cut{from, byte});
      line.connection.Write(from, text);
      line.Run();
      const Ear& reader = from == End::kDevice ? line.server : line.device;
      const Ear& writer = from == End::kDevice ? line.device : line.server;
      EXPECT_EQ(reader.heard, text.substr(0, byte));
      EXPECT_EQ(reader.end, milliseconds(10));
      EXPECT_EQ(writer.end, milliseconds(20));
    }
  }
}

TEST(Link, ACutAtAByteThatIsNeverWrittenIsNone) {
  Line line({.delay = milliseconds(10)}, Cut{End::kDevice, 50});
  line.connection.Write(End::kDevice, Digits(50));
  line.Run();
  EXPECT_EQ(line.server.heard, Digits(50));
  EXPECT_FALSE(line.server.end.has_value());
}

TEST(Link, WhatIsWrittenAfterACutGoesNowhere) {
  Line line({.delay = milliseconds(10)}, Cut{End::kDevice, 0});
  line.connection.Write(End::kDevice, "x");
  line.events.After(milliseconds(15), [&] {
    line.connection.Write(End::kDevice, "into the void");
    line.connection.Write(End::kServer, "knows already");
  });
  line.Run();
  EXPECT_EQ(line.server.heard, "");
  EXPECT_EQ(line.device.heard, "");
}

TEST(Link, AClosedEndIsHeardOfAfterItsBytes) {
  Line line({.delay = milliseconds(10), .bytes_per_second = 1000});
  line.connection.Write(End::kServer, Digits(20));
  line.connection.Close(End::kServer);
  line.connection.Write(End::kDevice, "nobody is there");
  line.Run();
  EXPECT_EQ(line.device.heard, Digits(20));
  EXPECT_EQ(line.device.end, milliseconds(30));
  EXPECT_EQ(line.server.heard, "");
  EXPECT_FALSE(line.server.end.has_value());
}

TEST(Link, WhoDoesNotReadStopsTheWriterAtTheWindow) {
  Line line({.delay = milliseconds(10), .window_bytes = 100});
  line.connection.Read(End::kDevice, false);
  line.connection.Write(End::kServer, Digits(60));
  line.Run();
  EXPECT_EQ(line.server.rooms, 1);
  line.connection.Write(End::kServer, Digits(60));
  line.Run();
  EXPECT_EQ(line.server.rooms, 1);
  EXPECT_EQ(line.device.heard, "");
  line.connection.Read(End::kDevice, true);
  line.Run();
  EXPECT_EQ(line.server.rooms, 2);
  EXPECT_EQ(line.device.heard, Digits(60) + Digits(60));
}

TEST(Link, WhoDoesNotReadHearsOfTheEndAfterTheBytes) {
  Line line({.delay = milliseconds(10)});
  line.connection.Read(End::kDevice, false);
  line.connection.Write(End::kServer, "last words");
  line.connection.Close(End::kServer);
  line.Run();
  EXPECT_FALSE(line.device.end.has_value());
  line.connection.Read(End::kDevice, true);
  line.Run();
  EXPECT_EQ(line.device.heard, "last words");
  EXPECT_TRUE(line.device.end.has_value());
}

}  // namespace
}  // namespace outrider
