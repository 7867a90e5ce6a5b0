// Many devices in one process, each at its server and with a text to be written at any time.
//
// A thread a device: it takes a prompt, has a reply written, and takes the next one. Which texts those
// are depends on the device's number and the reply's alone, so that whatever way they are written in,
// they can be compared. Devices of one key share a draft as the conversations of one Device do: they
// take turns at it, on as many cores as this process is given.
//
// In the end every moment that tokens came at is printed, every reply, and a hash of each after every
// so many tokens, so that those that were cut short are compared as well: for bench/crowd to read.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "client/device/device.h"
#include "common/base/clock.h"
#include "common/base/program.h"
#include "common/base/status.h"
#include "common/kernels/isa.h"
#include "common/speculation/control/controllers.h"
#include "common/text/tokenizer.h"
#include "common/tokens/token_history.h"

namespace outrider {
namespace {

constexpr const char* kDescription =
    "Many devices in one process, each with a text to be written at any time, to measure a server "
    "with";

constexpr const char* kFooter =
    "Prints, when the seconds are over, a line for every moment that tokens came at and for every "
    "reply; times are those of CLOCK_MONOTONIC, in seconds:\n"
    "  tokens DEVICE REPLY TIME COUNT\n"
    "  reply DEVICE REPLY ASKED FIRST LAST COUNT HASH   (HASH: of its text; 0 if it was cut "
    "short)\n"
    "Devices are given out to the keys in turns.\n"
    "  devices --server 127.0.0.1:7373 --draft draft.gguf --sessions 16 --prompts lines.txt\n"
    "  devices --server 127.0.0.1:7373 --place target --tokenizer target.gguf --key-file a "
    "--key-file "
    "b ...";

struct Flags {
  std::string server;
  std::vector<std::string> key_files;
  std::string place = "device";
  std::string draft;
  std::string tokenizer;
  std::string policy = "auto";
  std::string prompts;
  std::string price_file;
  uint32_t session_count = 1;
  uint32_t prompt_tokens = 0;  // 0: as the prompts are
  uint32_t reply_tokens = 128;
  uint32_t first_reply = 0;
  uint32_t reply_count = 0;  // of each device; 0: until the seconds are over
  double temperature = 0.8;
  double seconds = 10;
  double pause_seconds = 0;
};

double Seconds(MonotonicTime time) {
  return std::chrono::duration<double>(time.time_since_epoch()).count();
}

// What came when, of one device.
struct Arrival {
  uint32_t reply;
  MonotonicTime at;
  uint32_t count;
};
struct Mark {
  uint32_t reply;
  uint32_t count;
  uint64_t hash;  // of the reply's first `count` tokens
};
struct ReplyWritten {
  MonotonicTime asked;
  MonotonicTime first;
  MonotonicTime last;
  uint32_t count = 0;
};

constexpr uint32_t kMarkTokens = 8;

class Watch final : public Conversation::Observer {
 public:
  Watch(uint32_t reply, const std::atomic<bool>& over, std::vector<Arrival>& arrivals,
        std::vector<Mark>& marks)
      : reply_(reply), over_(over), arrivals_(arrivals), marks_(marks) {
    written_.asked = RealClock().Now();
  }

  void OnText(std::string_view /*text*/) override {}
  void OnTokens(std::span<const TokenId> tokens) override {
    if (tokens.empty()) return;
    const auto count = static_cast<uint32_t>(tokens.size());
    written_.last = RealClock().Now();
    if (written_.count == 0) written_.first = written_.last;
    for (const TokenId token : tokens) {
      hash_ = TokenHistory::Extend(hash_, token);
      if (++written_.count % kMarkTokens == 0) marks_.push_back({reply_, written_.count, hash_});
    }
    arrivals_.push_back({reply_, written_.last, count});
  }
  bool Interrupted() override { return over_; }

  const ReplyWritten& written() const { return written_; }

 private:
  const uint32_t reply_;
  const std::atomic<bool>& over_;
  std::vector<Arrival>& arrivals_;
  std::vector<Mark>& marks_;
  ReplyWritten written_{};
  uint64_t hash_ = 0;
};

class Prompts {
 public:
  Prompts(std::vector<std::string> lines, uint32_t token_count, const Tokenizer& tokenizer)
      : lines_(std::move(lines)), token_count_(token_count), tokenizer_(tokenizer) {}

  // The same for the same device and reply. One of a given length goes on with the lines that
  // follow, and begins with a number of its own, so that no other one has read it already.
  std::vector<TokenId> Of(uint32_t device, uint32_t reply) const {
    const size_t line = size_t{device} * 7 + reply;
    if (token_count_ == 0) return tokenizer_.Encode(lines_[line % lines_.size()]);
    std::string text = Concat(reply, " of ", device, ":");
    std::vector<TokenId> tokens = tokenizer_.Encode(text);
    for (size_t i = line; tokens.size() < token_count_; ++i) {
      text += Concat(" ", lines_[i % lines_.size()]);
      tokens = tokenizer_.Encode(text);
    }
    tokens.resize(token_count_);
    return tokens;
  }

 private:
  const std::vector<std::string> lines_;
  const uint32_t token_count_;
  const Tokenizer& tokenizer_;
};

class OneDevice {
 public:
  OneDevice(const Flags& flags, uint32_t number, Device& device, const Prompts& prompts,
            const std::atomic<bool>& over)
      : flags_(flags), number_(number), device_(device), prompts_(prompts), over_(over) {
    thread_ = std::thread([this] { status_ = Write(); });
  }

  absl::Status Join() {
    thread_.join();
    return status_;
  }

  void Print() const {
    for (const Arrival& arrival : arrivals_) {
      std::printf("tokens %u %u %.6f %u\n", number_, arrival.reply, Seconds(arrival.at),
                  arrival.count);
    }
    for (const Mark& mark : marks_) {
      std::printf("mark %u %u %u %016llx\n", number_, mark.reply, mark.count,
                  static_cast<unsigned long long>(mark.hash));
    }
    for (uint32_t i = 0; i < replies_.size(); ++i) {
      const ReplyWritten& reply = replies_[i];
      std::printf("reply %u %u %.6f %.6f %.6f %u\n", number_, flags_.first_reply + i,
                  Seconds(reply.asked), Seconds(reply.first), Seconds(reply.last), reply.count);
    }
  }

 private:
  absl::Status Write() {
    for (uint32_t reply = 0; !over_; ++reply) {
      if (flags_.reply_count > 0 && reply == flags_.reply_count) break;
      OUTRIDER_RETURN_IF_ERROR(WriteOne(flags_.first_reply + reply));
      std::this_thread::sleep_for(std::chrono::duration<double>(flags_.pause_seconds));
    }
    return absl::OkStatus();
  }

  absl::Status WriteOne(uint32_t reply) {
    ConversationOptions asked;
    asked.sampling.temperature = flags_.temperature;
    asked.sampling.seed = uint64_t{number_} << 32 | reply;
    asked.stops.at_end_of_generation = false;
    asked.stops.max_tokens = flags_.reply_tokens;
    const std::vector<TokenId> prompt = prompts_.Of(number_, reply);
    OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<Conversation> conversation,
                              device_.Converse(asked));
    Watch watch(reply, over_, arrivals_, marks_);
    const absl::StatusOr<Ending> ending = conversation->Continue(prompt, /*is_reply=*/false, watch);
    replies_.push_back(watch.written());
    return over_ ? absl::OkStatus() : ending.status();
  }

  const Flags& flags_;
  const uint32_t number_;
  Device& device_;
  const Prompts& prompts_;
  const std::atomic<bool>& over_;
  std::vector<Arrival> arrivals_;  // the thread's until it has ended, as are the next three
  std::vector<Mark> marks_;
  std::vector<ReplyWritten> replies_;
  absl::Status status_;
  std::thread thread_;  // last: starts when all above exists
};

absl::StatusOr<std::unique_ptr<Device>> OpenDevice(const Flags& flags,
                                                   const std::string& key_file) {
  static const auto& placements =
      *new std::map<std::string, Placement>{{"device", Placement::kSplit},
                                            {"server", Placement::kServer},
                                            {"target", Placement::kTargetAlone}};
  DeviceOptions options;
  options.server = flags.server;
  options.security.key_file = key_file;
  options.placement = placements.at(flags.place);
  options.tokenizer = flags.tokenizer;
  options.draft.model = flags.draft;
  OUTRIDER_ASSIGN_OR_RETURN(const PolicyKind kind, ParsePolicyKind(flags.policy));
  options.draft.policy.kind = kind;
  options.draft.pass_nodes = ChoosesPassSize(kind) ? 63 : 16;
  options.conversation_count_max = flags.session_count;
  options.price_file = flags.price_file;
  OUTRIDER_ASSIGN_OR_RETURN(options.isa, SelectIsa(std::nullopt));
  OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<Device> device, Device::Open(std::move(options)));
  OUTRIDER_RETURN_IF_ERROR(device->Load([](auto&&...) {}));
  return device;
}

absl::StatusOr<std::vector<std::string>> ReadLines(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty()) lines.push_back(line);
  }
  if (lines.empty()) return InvalidArgument(path, ": has no line that is a prompt");
  return lines;
}

absl::Status WriteAll(Flags flags) {
  OUTRIDER_ASSIGN_OR_RETURN(std::vector<std::string> lines, ReadLines(flags.prompts));
  if (flags.key_files.empty()) flags.key_files.emplace_back();
  std::vector<std::unique_ptr<Device>> by_key;
  for (const std::string& key_file : flags.key_files) {
    OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<Device> device, OpenDevice(flags, key_file));
    by_key.push_back(std::move(device));
  }
  const Prompts prompts(std::move(lines), flags.prompt_tokens, by_key.front()->tokenizer());
  std::atomic<bool> over = false;
  std::vector<std::unique_ptr<OneDevice>> devices;
  for (uint32_t i = 0; i < flags.session_count; ++i) {
    devices.push_back(
        std::make_unique<OneDevice>(flags, i, *by_key[i % by_key.size()], prompts, over));
  }
  std::fprintf(stderr, "writing\n");
  if (flags.reply_count == 0) {
    std::this_thread::sleep_for(std::chrono::duration<double>(flags.seconds));
    over = true;
  }
  absl::Status status;
  for (const auto& device : devices) status.Update(device->Join());
  for (const auto& device : devices) device->Print();
  std::fflush(stdout);  // what went wrong is said after it
  return status;
}

int Main(int argc, char** argv) {
  CLI::App app(kDescription, "devices");
  app.footer(kFooter);
  Flags flags;
  app.add_option("--server", flags.server, "host:port")->required();
  app.add_option("--key-file", flags.key_files, "Where a key stands; may be given several times");
  app.add_option("--place", flags.place, "device, server or target, as of outrider run")
      ->check(CLI::IsMember({"device", "server", "target"}))
      ->capture_default_str();
  app.add_option("--draft", flags.draft, "What the devices draft with");
  app.add_option("--tokenizer", flags.tokenizer, "As of outrider run; by default the draft's");
  app.add_option("--policy", flags.policy, "As of outrider run")->capture_default_str();
  app.add_option("--prompts", flags.prompts, "A file with a prompt a line")->required();
  app.add_option("--price-file", flags.price_file,
                 "As of outrider run, of all devices; by default every text begins without prices");
  app.add_option("--sessions", flags.session_count, "Devices, each with one text at a time")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option("--prompt-tokens", flags.prompt_tokens,
                 "Makes every prompt so long, and unlike any other; 0: they are as they are")
      ->capture_default_str();
  app.add_option("--tokens", flags.reply_tokens, "Of a reply")->capture_default_str();
  app.add_option("--replies", flags.reply_count, "Of each device; 0: until the seconds are over")
      ->capture_default_str();
  app.add_option("--first-reply", flags.first_reply, "The number that prompts begin at")
      ->capture_default_str();
  app.add_option("--pause", flags.pause_seconds, "Seconds between a device's replies")
      ->capture_default_str();
  app.add_option("--temperature", flags.temperature)->capture_default_str();
  app.add_option("--seconds", flags.seconds)->capture_default_str();
  return RunProgram(app, argc, argv, [&] { return WriteAll(flags); });
}

}  // namespace
}  // namespace outrider

int main(int argc, char** argv) {
  return outrider::Main(argc, argv);
}
