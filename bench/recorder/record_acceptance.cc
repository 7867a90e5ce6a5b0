#include "bench/recorder/record_acceptance.h"

#include <array>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "client/device/device.h"
#include "client/device/draft.h"
#include "common/base/status.h"
#include "common/base/thread_pool.h"
#include "common/base/units.h"
#include "common/engine/cpu_target.h"
#include "common/formats/models/exits_file.h"
#include "common/formats/models/model_file.h"
#include "common/kernels/kernels.h"
#include "common/speculation/drafting/drafter.h"
#include "common/tokens/token_history.h"

namespace outrider {
namespace {

class Nobody final : public Conversation::Observer {
 public:
  void OnText(std::string_view) override {}
};

struct Written {
  std::vector<TokenId> tokens;  // prompt and reply
  size_t reply_begin;
  int32_t vocabulary_size;
};

absl::StatusOr<Written> WriteAlone(const RecordingAsked& asked, Isa isa) {
  DeviceOptions options;
  options.model = asked.target;
  options.threads = asked.threads;
  options.isa = isa;
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<Device> device, Device::Open(options));
  OUTRIDER_RETURN_IF_ERROR(device->Load(nullptr));
  OUTRIDER_ASSIGN_OR_RETURN(
      const std::unique_ptr<Conversation> conversation,
      device->Converse({.sampling = asked.sampling, .stops = {.max_tokens = asked.tokens}}));
  const std::vector<TokenId> prompt = device->tokenizer().Encode(asked.prompt);
  Nobody nobody;
  OUTRIDER_RETURN_IF_ERROR(conversation->Continue(prompt, /*is_reply=*/false, nobody).status());
  const std::span<const TokenId> tokens = conversation->tokens();
  return Written{
      {tokens.begin(), tokens.end()}, prompt.size(), device->tokenizer().vocabulary_size()};
}

// The target's exits, and a sequence of it that reads the text.
class AskedExits final : private ExitSink {
 public:
  static absl::StatusOr<std::unique_ptr<AskedExits>> Load(const RecordingAsked& asked, Isa isa,
                                                          ThreadPool& pool, uint32_t length) {
    OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<ModelFile> file, ModelFile::Open(asked.target));
    OUTRIDER_ASSIGN_OR_RETURN(
        std::unique_ptr<EngineTarget> target,
        LoadCpuTarget(*file, asked.target,
                      {.context_length = length, .sequence_count_max = 1, .node_count_max = 1},
                      KernelsFor(isa), pool, nullptr));
    OUTRIDER_ASSIGN_OR_RETURN(const TrainedExits exits, ReadExits(asked.exits));
    OUTRIDER_RETURN_IF_ERROR(target->AttachExits(exits, asked.exits, {}));
    OUTRIDER_ASSIGN_OR_RETURN(
        Chooser chooser,
        Chooser::Create(asked.sampling, static_cast<int32_t>(target->info().vocabulary_size)));
    OUTRIDER_ASSIGN_OR_RETURN(const SequenceId sequence, target->CreateSequence());
    return std::unique_ptr<AskedExits>(
        new AskedExits(std::move(target), std::move(chooser), sequence));
  }

  std::span<const uint32_t> depths() const { return target_->info().exit_depths; }

  absl::Status Read(std::span<const TokenId> tokens) {
    return target_->Prefill(sequence_, tokens, nullptr);
  }

  // By exit, what each says comes after the history, which is what was read. Valid until the next
  // call.
  absl::StatusOr<std::span<const ExitGuess>> Guess(const TokenHistory& history,
                                                   std::span<const TokenId> candidates) {
    guesses_.clear();
    const Pass pass = {.sequence = sequence_,
                       .nodes = {},
                       .chooser = &chooser_,
                       .history = &history,
                       .candidates = candidates};
    PassResult result;
    target_->Run({}, {&pass, 1}, {&result, 1});
    OUTRIDER_RETURN_IF_ERROR(result.status);
    return std::span<const ExitGuess>(guesses_);
  }

 private:
  AskedExits(std::unique_ptr<EngineTarget> target, Chooser chooser, SequenceId sequence)
      : target_(std::move(target)), chooser_(std::move(chooser)), sequence_(sequence) {
    target_->HearExits(this);
  }

  void OnGuess(const ExitGuess& guess) override { guesses_.push_back(guess); }

  std::unique_ptr<EngineTarget> target_;
  const Chooser chooser_;
  const SequenceId sequence_;
  std::vector<ExitGuess> guesses_;
};

// That the one choice of this walk is the target's. An exit's calibration is of outcomes: it counts
// on drafted nodes, and says next to nothing of a root that has none. What the exit's own scale
// makes of its scores is of every choice, and the simulator multiplies it down a walk.
double ProbabilityOfChoice(const ExitGuess& guess) {
  return static_cast<double>(UncalibratedProbabilityOf(guess.evidence));
}

// How often exits were right, and what they said of that.
class ExitRecord {
 public:
  explicit ExitRecord(size_t exit_count) : right_(exit_count), claimed_(exit_count) {}

  void Add(TokenId token, std::span<const ExitGuess> guesses) {
    ++places_;
    for (const ExitGuess& guess : guesses) {
      right_[guess.exit] += guess.outcome.next == token ? 1 : 0;
      claimed_[guess.exit] += ProbabilityOfChoice(guess);
    }
  }

  // As a comment of the trace.
  std::string Text() const {
    std::string text = "# of these places exits are right, and claim to be, in";
    for (size_t i = 0; i < right_.size(); ++i) {
      text += Concat(i == 0 ? " " : ", ", Fixed(right_[i] / places_, 2), " (",
                     Fixed(claimed_[i] / places_, 2), ")");
    }
    return text + "\n";
  }

 private:
  double places_ = 0;
  std::vector<double> right_;
  std::vector<double> claimed_;
};

void AppendPlace(TokenId token, std::span<const Proposal> proposals,
                 std::span<const ExitGuess> guesses, std::string& text) {
  text += Concat("place ", token, " draft");
  for (const Proposal& proposal : proposals) {
    text += Concat(" ", proposal.token, ":", Fixed(proposal.confidence, 4));
  }
  if (!guesses.empty()) text += " exits";
  for (const ExitGuess& guess : guesses) {
    text += Concat(" ", guess.outcome.next, ":", Fixed(ProbabilityOfChoice(guess), 3), ":",
                   Fixed(guess.evidence.largest_softmax, 3));
  }
  text += "\n";
}

}  // namespace

absl::StatusOr<std::string> RecordAcceptance(const RecordingAsked& asked) {
  OUTRIDER_ASSIGN_OR_RETURN(const Isa isa, SelectIsa(std::nullopt));
  OUTRIDER_ASSIGN_OR_RETURN(const Written written, WriteAlone(asked, isa));
  OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<ThreadPool> pool, ThreadPool::Create(asked.threads));
  const auto context = static_cast<uint32_t>(written.tokens.size());
  OUTRIDER_ASSIGN_OR_RETURN(
      const std::unique_ptr<Draft> draft,
      Draft::Load(asked.draft, "cpu",
                  {.context_length = context, .node_count_max = 1, .conversation_count_max = 1},
                  KernelsFor(isa), std::move(pool), nullptr));
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<Drafter> drafter,
                            draft->NewDrafter(asked.sampling));

  TokenHistory history({.vocabulary_size = draft->vocabulary_size(),
                        .capacity = written.tokens.size(),
                        .counts_tokens = asked.sampling.penalizes()});
  const std::span<const TokenId> tokens = written.tokens;
  OUTRIDER_RETURN_IF_ERROR(history.Append(tokens.first(written.reply_begin)));
  history.StartReply();
  std::string text = Concat("outrider-trace 1\nvocabulary ", written.vocabulary_size, "\nprompt");
  for (const TokenId token : history.tokens()) text += Concat(" ", token);
  text += "\n";
  std::unique_ptr<ThreadPool> exit_pool;
  std::unique_ptr<AskedExits> exits;
  if (!asked.exits.empty()) {
    OUTRIDER_ASSIGN_OR_RETURN(exit_pool, ThreadPool::Create(asked.threads));
    OUTRIDER_ASSIGN_OR_RETURN(exits, AskedExits::Load(asked, isa, *exit_pool, context));
    text += "exits";
    for (const uint32_t depth : exits->depths()) text += Concat(" ", Fixed(depth / 1000.0, 3));
    text += "\n";
    OUTRIDER_RETURN_IF_ERROR(exits->Read(history.tokens()));
  }
  constexpr std::array<Drafter::Context, 1> kHere = {
      {{DraftedNode::kRoot, RecordingAsked::kGuesses}}};
  Proposals proposals;
  std::vector<TokenId> candidates;
  ExitRecord record(exits != nullptr ? exits->depths().size() : 0);
  for (const TokenId token : tokens.subspan(written.reply_begin)) {
    OUTRIDER_RETURN_IF_ERROR(drafter->Propose(history, {}, kHere, proposals));
    std::span<const ExitGuess> guesses;
    if (exits != nullptr) {
      candidates.clear();
      for (const Proposal& proposal : proposals.children()[0]) candidates.push_back(proposal.token);
      OUTRIDER_ASSIGN_OR_RETURN(guesses, exits->Guess(history, candidates));
      OUTRIDER_RETURN_IF_ERROR(exits->Read({&token, 1}));
      record.Add(token, guesses);
    }
    AppendPlace(token, proposals.children()[0], guesses, text);
    OUTRIDER_RETURN_IF_ERROR(history.Append({&token, 1}));
  }
  if (exits != nullptr) text += record.Text();
  return text;
}

}  // namespace outrider
