// A SentencePiece model: a serialised ModelProto (sentencepiece_model.proto) of which we need the
// pieces, a few training settings and how text is normalised.
//
// What the file leaves open is read as Hugging Face and llama.cpp do: BPE (Llama 2) puts bos in
// front, unigram (T5) puts eos behind, and the prefix space stands before every text between
// special tokens.
#include <optional>
#include <string>
#include <string_view>

#include "common/base/status.h"
#include "common/formats/tokenizers/protobuf_wire.h"
#include "common/formats/tokenizers/tokenizer_files.h"
#include "common/formats/tokenizers/vocabulary.h"

namespace outrider {
namespace {

using Model = TokenizerSpec::Model;

// Field numbers of sentencepiece_model.proto.
namespace model_field {
enum : uint32_t { kPieces = 1, kTrainer = 2, kNormalizer = 3 };
}
namespace piece_field {
enum : uint32_t { kText = 1, kScore = 2, kType = 3 };
}
namespace trainer_field {
enum : uint32_t {
  kModelType = 3,
  kWhitespaceAsSuffix = 24,
  kByteFallback = 35,
  kUnknownId = 40,
  kBosId = 41,
  kEosId = 42,
  kPaddingId = 43,
};
}
namespace normalizer_field {
enum : uint32_t {
  kCharsmap = 2,
  kAddDummyPrefix = 3,
  kRemoveExtraWhitespaces = 4,
  kEscapeWhitespaces = 5,
};
}

// With the defaults of sentencepiece_model.proto.
struct Settings {
  uint64_t model_type = 1;
  bool whitespace_as_suffix = false;
  bool byte_fallback = false;
  int32_t unknown_id = 0;
  int32_t bos_id = 1;
  int32_t eos_id = 2;
  int32_t padding_id = -1;
  std::string_view charsmap;
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = true;
  bool escape_whitespaces = true;
};

absl::Status Broken(const Vocabulary& vocabulary, std::string_view part, size_t position) {
  return InvalidArgument(vocabulary.name(), ": is no SentencePiece model or a damaged one: the ",
                         part, " makes no sense from byte ", position, " on");
}

absl::Status ReadPiece(std::string_view message, Vocabulary& vocabulary) {
  const size_t id = vocabulary.spec().tokens.size();
  ProtobufReader piece(message);
  std::string_view text;
  float score = 0;
  uint64_t type = static_cast<uint64_t>(TokenKind::kNormal);
  while (piece.Next()) {
    if (piece.field() == piece_field::kText) text = piece.bytes();
    if (piece.field() == piece_field::kScore) score = piece.float32();
    if (piece.field() == piece_field::kType) type = piece.varint();
  }
  if (!piece.ok()) return Broken(vocabulary, Concat("piece ", id), piece.position());
  if (type < static_cast<uint64_t>(TokenKind::kNormal) ||
      type > static_cast<uint64_t>(TokenKind::kByte)) {
    return InvalidArgument(vocabulary.name(), ": piece ", id, " has the unknown type ", type);
  }
  return vocabulary.Place(static_cast<int64_t>(id), text, static_cast<TokenKind>(type), score);
}

absl::Status ReadTrainer(std::string_view message, const Vocabulary& vocabulary,
                         Settings& settings) {
  ProtobufReader trainer(message);
  while (trainer.Next()) {
    switch (trainer.field()) {
      case trainer_field::kModelType:
        settings.model_type = trainer.varint();
        break;
      case trainer_field::kWhitespaceAsSuffix:
        settings.whitespace_as_suffix = trainer.boolean();
        break;
      case trainer_field::kByteFallback:
        settings.byte_fallback = trainer.boolean();
        break;
      case trainer_field::kUnknownId:
        settings.unknown_id = trainer.int32();
        break;
      case trainer_field::kBosId:
        settings.bos_id = trainer.int32();
        break;
      case trainer_field::kEosId:
        settings.eos_id = trainer.int32();
        break;
      case trainer_field::kPaddingId:
        settings.padding_id = trainer.int32();
        break;
      default:
        break;
    }
  }
  return trainer.ok() ? absl::OkStatus() : Broken(vocabulary, "trainer_spec", trainer.position());
}

absl::Status ReadNormalizer(std::string_view message, const Vocabulary& vocabulary,
                            Settings& settings) {
  ProtobufReader normalizer(message);
  while (normalizer.Next()) {
    switch (normalizer.field()) {
      case normalizer_field::kCharsmap:
        settings.charsmap = normalizer.bytes();
        break;
      case normalizer_field::kAddDummyPrefix:
        settings.add_dummy_prefix = normalizer.boolean();
        break;
      case normalizer_field::kRemoveExtraWhitespaces:
        settings.remove_extra_whitespaces = normalizer.boolean();
        break;
      case normalizer_field::kEscapeWhitespaces:
        settings.escape_whitespaces = normalizer.boolean();
        break;
      default:
        break;
    }
  }
  return normalizer.ok() ? absl::OkStatus()
                         : Broken(vocabulary, "normalizer_spec", normalizer.position());
}

absl::Status ReadModel(std::string_view bytes, Vocabulary& vocabulary, Settings& settings) {
  ProtobufReader model(bytes);
  while (model.Next()) {
    if (model.field() == model_field::kPieces) {
      OUTRIDER_RETURN_IF_ERROR(ReadPiece(model.bytes(), vocabulary));
    } else if (model.field() == model_field::kTrainer) {
      OUTRIDER_RETURN_IF_ERROR(ReadTrainer(model.bytes(), vocabulary, settings));
    } else if (model.field() == model_field::kNormalizer) {
      OUTRIDER_RETURN_IF_ERROR(ReadNormalizer(model.bytes(), vocabulary, settings));
    }
  }
  return model.ok() ? absl::OkStatus() : Broken(vocabulary, "file", model.position());
}

absl::Status ApplySettings(const Settings& settings, const std::string& name, TokenizerSpec& spec) {
  if (settings.model_type != 1 && settings.model_type != 2) {
    return Unimplemented(name, ": is a SentencePiece model of type ", settings.model_type,
                         "; only unigram (1) and BPE (2) are supported");
  }
  if (settings.whitespace_as_suffix) {
    return Unimplemented(name,
                         ": puts spaces behind words (treat_whitespace_as_suffix), which is "
                         "not supported");
  }
  if (!settings.escape_whitespaces) {
    return Unimplemented(name,
                         ": leaves spaces as they are (escape_whitespaces is off), which is "
                         "not supported");
  }
  spec.model = settings.model_type == 1 ? Model::kUnigram : Model::kSentencePieceBpe;
  spec.byte_fallback = settings.byte_fallback;
  spec.fuse_unknown = true;
  spec.precompiled_charsmap = settings.charsmap;
  spec.remove_extra_whitespace = settings.remove_extra_whitespaces;
  spec.space_prefix = settings.add_dummy_prefix ? TokenizerSpec::SpacePrefix::kAlways
                                                : TokenizerSpec::SpacePrefix::kNever;
  // A space that survived at the front is the prefix already.
  spec.space_prefix_once = settings.add_dummy_prefix && settings.remove_extra_whitespaces;
  return absl::OkStatus();
}

// Ids below zero mean that the model has no such token.
absl::Status SetSpecials(const Settings& settings, Vocabulary& vocabulary) {
  TokenizerSpec& spec = vocabulary.spec();
  const struct {
    std::string_view role;
    int32_t id;
    std::optional<TokenId>& target;
  } specials[] = {
      {"unknown", settings.unknown_id, spec.unknown},
      {"bos", settings.bos_id, spec.bos},
      {"eos", settings.eos_id, spec.eos},
      {"padding", settings.padding_id, spec.padding},
  };
  for (const auto& [role, id, target] : specials) {
    if (id >= 0) OUTRIDER_RETURN_IF_ERROR(vocabulary.SetSpecial(role, id, target));
  }
  spec.add_bos = spec.model == Model::kSentencePieceBpe && spec.bos.has_value();
  spec.add_eos = spec.model == Model::kUnigram && spec.eos.has_value();
  return absl::OkStatus();
}

// User-defined tokens that hold spaces (Gemma's runs of them) are spelled with U+2581, and found when
// the text's are too. Behind a prefix their own text would be prefixed: there they are found before.
void FindSpacesWhereTheyAre(TokenizerSpec& spec) {
  for (TokenizerSpec::AddedToken& added : spec.added_tokens) {
    if (added.special || added.text.find(kSpaceMark) == std::string::npos) continue;
    if (spec.space_prefix == TokenizerSpec::SpacePrefix::kNever) {
      added.normalized = true;
      continue;
    }
    for (size_t at = 0; (at = added.text.find(kSpaceMark, at)) != std::string::npos; ++at) {
      added.text.replace(at, kSpaceMark.size(), " ");
    }
  }
}

}  // namespace

absl::StatusOr<TokenizerSpec> TokenizerFromSentencePiece(std::string_view bytes,
                                                         const std::string& name) {
  TokenizerSpec spec;
  spec.model = Model::kSentencePieceBpe;  // either kind spells its texts plainly
  Settings settings;
  Vocabulary vocabulary(name, spec);
  OUTRIDER_RETURN_IF_ERROR(ReadModel(bytes, vocabulary, settings));
  OUTRIDER_RETURN_IF_ERROR(ApplySettings(settings, name, spec));
  OUTRIDER_RETURN_IF_ERROR(vocabulary.AddByKind());
  FindSpacesWhereTheyAre(spec);
  OUTRIDER_RETURN_IF_ERROR(vocabulary.Finish());
  OUTRIDER_RETURN_IF_ERROR(SetSpecials(settings, vocabulary));
  return spec;
}

}  // namespace outrider
