// Turns a llama2.c checkpoint (version 0: seven integers, then float32 weights) and its
// tokenizer.bin into a GGUF file, so that the small real model in tests/data/models/stories260k can
// be run through everything.
//
//   llama2c_to_gguf stories260K.bin tok512.bin out.gguf
//
// llama2.c keeps q and k rows in the order GGUF's "llama" wants them (interleaved pairs), so
// weights are copied as they are.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/plain_file.h"
#include "common/base/status.h"
#include "common/formats/containers/gguf_writer.h"
#include "common/formats/models/hyperparameters.h"
#include "common/formats/tokenizers/tokenizer_files.h"

namespace outrider {
namespace {

// Takes typed pieces off the front of a file, or says that it is too short.
class Reader {
 public:
  Reader(std::string_view contents, std::string path)
      : bytes_(std::as_bytes(std::span(contents))), path_(std::move(path)) {}

  absl::StatusOr<std::span<const std::byte>> Take(uint64_t count) {
    if (count > bytes_.size()) {
      return InvalidArgument(path_, ": ends early: ", count, " bytes wanted, ", bytes_.size(),
                             " left");
    }
    const auto piece = bytes_.first(count);
    bytes_ = bytes_.subspan(count);
    return piece;
  }

  template <typename T>
  absl::StatusOr<T> Value() {
    OUTRIDER_ASSIGN_OR_RETURN(const auto piece, Take(sizeof(T)));
    T value;
    std::memcpy(&value, piece.data(), sizeof(T));
    return value;
  }

 private:
  std::span<const std::byte> bytes_;
  std::string path_;
};

struct Header {
  uint32_t width, feed_forward, blocks, heads, kv_heads, vocabulary, context;
};

absl::StatusOr<Header> ReadHeader(Reader& reader) {
  Header header;
  for (uint32_t* field : {&header.width, &header.feed_forward, &header.blocks, &header.heads,
                          &header.kv_heads, &header.vocabulary, &header.context}) {
    OUTRIDER_ASSIGN_OR_RETURN(const int32_t value, reader.Value<int32_t>());
    if (value <= 0 || value > 1 << 20) {
      return InvalidArgument("header field of ", value,
                             ": not a version-0 checkpoint with a shared classifier");
    }
    *field = static_cast<uint32_t>(value);
  }
  if (header.width % header.heads != 0) return InvalidArgument("width is no multiple of heads");
  return header;
}

Hyperparameters Describe(const Header& header) {
  Hyperparameters numbers;
  numbers.architecture = Architecture::kLlama;
  numbers.name = "stories260k";
  numbers.context_length = header.context;
  numbers.embedding_length = header.width;
  numbers.block_count = header.blocks;
  numbers.feed_forward_length = header.feed_forward;
  numbers.vocabulary_size = header.vocabulary;
  numbers.head_count.assign(header.blocks, header.heads);
  numbers.head_count_kv.assign(header.blocks, header.kv_heads);
  numbers.key_length = numbers.value_length = header.width / header.heads;
  numbers.rope = {.style = RopeStyle::kInterleaved, .dimension_count = numbers.key_length};
  numbers.tied_embeddings = true;
  return numbers;
}

// tokenizer.bin spells spaces as spaces and wraps <s> and </s> in newlines; GGUF wants
// SentencePiece's own spelling.
std::string SentencePieceText(std::string_view text) {
  std::string piece;
  for (const char c : text) {
    if (c == ' ') {
      piece += "\u2581";
    } else {
      piece += c;
    }
  }
  return piece;
}

absl::StatusOr<TokenizerSpec> ReadTokenizer(Reader& reader, uint32_t vocabulary) {
  constexpr TokenId kUnknown = 0, kBos = 1, kEos = 2, kFirstByte = 3, kFirstNormal = 259;
  TokenizerSpec spec;
  spec.model = TokenizerSpec::Model::kSentencePieceBpe;
  spec.byte_fallback = true;
  spec.space_prefix = TokenizerSpec::SpacePrefix::kAlways;
  spec.unknown = kUnknown;
  spec.bos = kBos;
  spec.eos = kEos;
  spec.add_bos = true;
  OUTRIDER_RETURN_IF_ERROR(reader.Value<uint32_t>().status());  // the longest token
  for (uint32_t id = 0; id < vocabulary; ++id) {
    OUTRIDER_ASSIGN_OR_RETURN(const float score, reader.Value<float>());
    OUTRIDER_ASSIGN_OR_RETURN(const uint32_t length, reader.Value<uint32_t>());
    OUTRIDER_ASSIGN_OR_RETURN(const auto bytes, reader.Take(length));
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    spec.tokens.push_back({.text = SentencePieceText(text), .score = score});
  }
  if (spec.tokens.size() < kFirstNormal)
    return InvalidArgument("the vocabulary lacks the byte tokens");
  spec.tokens[kUnknown].kind = TokenKind::kUnknown;
  spec.tokens[kBos] = {.text = "<s>", .kind = TokenKind::kControl};
  spec.tokens[kEos] = {.text = "</s>", .kind = TokenKind::kControl};
  for (TokenId id = kFirstByte; id < kFirstNormal; ++id) {
    spec.tokens[static_cast<size_t>(id)].kind = TokenKind::kByte;
  }
  return spec;
}

struct Slot {
  std::string name;
  std::vector<uint64_t> dims;
  std::span<const std::byte> bytes;
};

// The checkpoint holds all blocks' tensors of one kind together.
absl::StatusOr<std::vector<Slot>> ReadTensors(Reader& reader, const Header& h) {
  const uint64_t kv_width = uint64_t{h.width} / h.heads * h.kv_heads;
  std::vector<Slot> slots;
  const auto take = [&](std::string name, std::vector<uint64_t> dims) -> absl::Status {
    OUTRIDER_ASSIGN_OR_RETURN(const uint64_t count, TensorBytes(TensorType::kF32, dims));
    OUTRIDER_ASSIGN_OR_RETURN(const auto bytes, reader.Take(count));
    slots.push_back({std::move(name), std::move(dims), bytes});
    return absl::OkStatus();
  };
  const auto take_blocks = [&](std::string_view kind,
                               const std::vector<uint64_t>& dims) -> absl::Status {
    for (uint32_t block = 0; block < h.blocks; ++block) {
      OUTRIDER_RETURN_IF_ERROR(take(Concat("blk.", block, ".", kind, ".weight"), dims));
    }
    return absl::OkStatus();
  };
  OUTRIDER_RETURN_IF_ERROR(take("token_embd.weight", {h.width, h.vocabulary}));
  OUTRIDER_RETURN_IF_ERROR(take_blocks("attn_norm", {h.width}));
  OUTRIDER_RETURN_IF_ERROR(take_blocks("attn_q", {h.width, h.width}));
  OUTRIDER_RETURN_IF_ERROR(take_blocks("attn_k", {h.width, kv_width}));
  OUTRIDER_RETURN_IF_ERROR(take_blocks("attn_v", {h.width, kv_width}));
  OUTRIDER_RETURN_IF_ERROR(take_blocks("attn_output", {h.width, h.width}));
  OUTRIDER_RETURN_IF_ERROR(take_blocks("ffn_norm", {h.width}));
  OUTRIDER_RETURN_IF_ERROR(take_blocks("ffn_gate", {h.width, h.feed_forward}));
  OUTRIDER_RETURN_IF_ERROR(take_blocks("ffn_down", {h.feed_forward, h.width}));
  OUTRIDER_RETURN_IF_ERROR(take_blocks("ffn_up", {h.width, h.feed_forward}));
  OUTRIDER_RETURN_IF_ERROR(take("output_norm.weight", {h.width}));
  return slots;
}

absl::Status Run(const char* checkpoint, const char* vocabulary, const char* out) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::string weights, ReadWholeFile(checkpoint));
  OUTRIDER_ASSIGN_OR_RETURN(const std::string tokens, ReadWholeFile(vocabulary));
  Reader weight_reader(weights, checkpoint), token_reader(tokens, vocabulary);
  OUTRIDER_ASSIGN_OR_RETURN(const Header header, ReadHeader(weight_reader));
  OUTRIDER_ASSIGN_OR_RETURN(const TokenizerSpec spec,
                            ReadTokenizer(token_reader, header.vocabulary));
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<Slot> slots, ReadTensors(weight_reader, header));

  GgufWriter writer;
  AddHyperparameterMetadata(Describe(header), writer);
  AddTokenizerMetadata(spec, writer);
  for (const Slot& slot : slots) {
    OUTRIDER_RETURN_IF_ERROR(writer.AddTensor(slot.name, TensorType::kF32, slot.dims));
  }
  OUTRIDER_RETURN_IF_ERROR(writer.Begin(out));
  for (const Slot& slot : slots) OUTRIDER_RETURN_IF_ERROR(writer.Write(slot.bytes));
  return writer.Commit();
}

}  // namespace
}  // namespace outrider

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fputs("usage: llama2c_to_gguf CHECKPOINT.bin TOKENIZER.bin OUT.gguf\n", stderr);
    return 2;
  }
  const absl::Status status = outrider::Run(argv[1], argv[2], argv[3]);
  if (status.ok()) return 0;
  std::fprintf(stderr, "llama2c_to_gguf: %s\n", std::string(outrider::Message(status)).c_str());
  return 1;
}
