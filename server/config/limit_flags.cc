#include "server/config/limit_flags.h"

#include <cctype>
#include <chrono>
#include <string>

#include "CLI/CLI.hpp"

namespace outrider {
namespace {

constexpr char kGroup[] = "Limits";
constexpr uint32_t kCountMax = 1u << 20;
constexpr int64_t kSecondsMax = 30 * 24 * 3600;
constexpr int64_t kShutOutSecondsMax = 3600;  // so long each of those addresses is remembered

// --idle-seconds is OUTRIDER_IDLE_SECONDS.
std::string EnvironmentTwin(const std::string& flag) {
  std::string twin = "OUTRIDER_";
  for (const char letter : flag.substr(2)) {
    twin += letter == '-' ? '_' : static_cast<char>(std::toupper(letter));
  }
  return twin;
}

class Adder {
 public:
  explicit Adder(CLI::App& app) : app_(app) {}

  void Count(const std::string& flag, uint32_t& value, uint32_t least, const std::string& text) {
    Finish(app_.add_option(flag, value, text)->check(CLI::Range(least, kCountMax)), flag);
  }

  void Bytes(const std::string& flag, uint64_t& value, uint64_t least, uint64_t most,
             const std::string& text) {
    Finish(app_.add_option(flag, value, text)
               ->transform(CLI::AsSizeValue(/*kb_is_1000=*/true))
               ->check(CLI::Range(least, most)),
           flag);
  }

  void Seconds(const std::string& flag, Duration& value, const std::string& text,
               int64_t most = kSecondsMax) {
    CLI::Option* const option = app_.add_option_function<int64_t>(
        flag, [&value](const int64_t& seconds) { value = std::chrono::seconds(seconds); }, text);
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(value).count();
    option->check(CLI::Range(int64_t{1}, most))->default_str(std::to_string(seconds));
    option->group(kGroup)->envname(EnvironmentTwin(flag));
  }

 private:
  static void Finish(CLI::Option* option, const std::string& flag) {
    option->group(kGroup)->envname(EnvironmentTwin(flag))->capture_default_str();
  }

  CLI::App& app_;
};

}  // namespace

void AddLimitFlags(CLI::App& app, LimitFlags& flags) {
  VerifierConfig& machine = flags.machine;
  Adder add(app);
  add.Count("--open-sessions", machine.session_count_max, 1,
            "Sessions that are kept at a time, with keys and values in memory or waiting for some");
  add.Count("--sessions-per-key", machine.session_count_of_key_max, 0,
            "Of those, one key's, unless its line of --keys says another number, or without keys "
            "one address's; 0: a quarter of them");
  add.Count("--opens-per-minute", machine.opens_per_minute, 0,
            "Sessions that one key, or without keys one address, may open a minute in the mean, "
            "and as many at once; 0: any number");
  add.Count("--streams", machine.stream_count_max, 1, "Calls that are under way at a time");
  add.Count("--streams-per-key", machine.stream_count_of_key_max, 1,
            "Of those, one key's, unless its line of --keys says another number");
  add.Count("--streams-per-address", machine.stream_count_of_origin_max, 1,
            "Of those, one address's");
  add.Count("--streams-per-connection", flags.streams_per_connection_max, 1,
            "Of those, one connection's; whoever wants more makes another");
  add.Count("--messages-per-second", machine.messages_per_second, 0,
            "Messages of a call that are read a second, where an edit counts as sixteen; more are "
            "read later; 0: any number");
  add.Count("--connections", flags.connection_count_max, 1,
            "Connections at a time, or fewer where this process may not have two file descriptors "
            "for each");
  add.Count("--connections-per-address", flags.connection_count_of_origin_max, 1,
            "Of those, one address's (of IPv6, one network's of 64 bits)");
  add.Count("--connects-per-second", flags.connects_per_second, 1,
            "Connections that one address may begin a second, evenly; others wait");
  add.Bytes("--overhead-bytes", flags.overhead_bytes_per_second, 4 << 10, 1 << 30,
            "What a connection may send a second besides messages (headers, pings, what is no "
            "call), and several times that at once; whoever sends more is hung up on");
  add.Seconds(
      "--shut-out-seconds", flags.shut_out,
      "For how long nobody begins a connection from an address where somebody was hung up on "
      "for that",
      kShutOutSecondsMax);
  add.Count("--sketch-nodes", machine.sketch_nodes_max, 1,
            "Drafted tokens that are kept for a session");
  add.Count("--unread-verdicts", machine.unread_verdicts_max, 1,
            "Verdicts of a session that its stream has not taken; then its passes wait");
  add.Count("--unseen-verdicts", machine.unseen_verdicts_max, 1,
            "Verdicts of a session that its device has not said it saw; then its passes wait");
  add.Seconds("--time-to-live-seconds", machine.time_to_live,
              "How long a session is kept that has lost its stream");
  add.Seconds("--handshake-seconds", flags.handshake_max,
              "What a connection may take until it can have a call: TLS, and its first settings");
  add.Seconds("--connection-idle-seconds", flags.connection_idle_max,
              "How long a connection may have no call");
  add.Seconds("--keepalive-seconds", flags.keepalive,
              "After how long a silent connection is asked whether anybody is there; without an "
              "answer in half of that it ends");
  add.Seconds("--first-message-seconds", machine.first_message_max,
              "How long a new call may say nothing");
  add.Seconds("--silence-seconds", machine.silence_max, "How long a device may say nothing");
  add.Seconds("--idle-seconds", machine.idle_max,
              "How long a session may wait for its device before others may have its memory");
  add.Seconds("--prefix-seconds", machine.prefix_max,
              "How long the beginning of a session that has gone is kept for the next one that "
              "begins alike, while nobody needs its memory");
  add.Seconds("--write-seconds", machine.write_max, "How long a device may take to read a message");
  add.Seconds("--retry-seconds", machine.retry_after,
              "After which time those come again for whom there was no room");
  add.Bytes("--header-bytes", flags.header_bytes, 1 << 10, 64 << 10,
            "What one call's headers may take, with those that proxies add");
  add.Bytes("--message-memory", flags.message_bytes, 4 << 10, 64 << 20,
            "Of one message, besides five bytes for each token of a context");
  add.Bytes("--transport-memory", flags.transport_bytes, 16 << 20, uint64_t{1} << 40,
            "What gRPC may take for all that is being read and written");
}

}  // namespace outrider
