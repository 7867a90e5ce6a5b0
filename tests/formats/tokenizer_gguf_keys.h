// Small tokenizers as GGUF metadata, for tests to bend.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/formats/containers/gguf_file.h"
#include "common/formats/tokenizers/tokenizer_files.h"
#include "tests/formats/gguf_bytes.h"

namespace outrider {

// The keys of a GGUF file by name, so that a test can replace one.
class TokenizerKeys {
 public:
  TokenizerKeys& Text(const std::string& key, std::string_view value) {
    return Set(key, GgufValueType::kString, PackedString(value));
  }
  TokenizerKeys& Id(const std::string& key, uint32_t value) {
    return Set(key, GgufValueType::kUint32, Packed(value));
  }
  TokenizerKeys& Flag(const std::string& key, bool value) {
    return Set(key, GgufValueType::kBool, Packed(static_cast<uint8_t>(value)));
  }
  TokenizerKeys& Texts(const std::string& key, const std::vector<std::string>& values) {
    std::string elements;
    for (const std::string& value : values) elements += PackedString(value);
    return Set(key, GgufValueType::kArray,
               PackedArray(GgufValueType::kString, values.size(), elements));
  }
  TokenizerKeys& Ids(const std::string& key, const std::vector<int32_t>& values) {
    std::string elements;
    for (const int32_t value : values) elements += Packed(value);
    return Set(key, GgufValueType::kArray,
               PackedArray(GgufValueType::kInt32, values.size(), elements));
  }
  TokenizerKeys& Kinds(const std::vector<int32_t>& values) {
    return Ids("tokenizer.ggml.token_type", values);
  }
  TokenizerKeys& Scores(const std::vector<float>& values) {
    std::string elements;
    for (const float value : values) elements += Packed(value);
    return Set("tokenizer.ggml.scores", GgufValueType::kArray,
               PackedArray(GgufValueType::kFloat32, values.size(), elements));
  }
  TokenizerKeys& Without(const std::string& key) {
    keys_.erase(key);
    return *this;
  }

  absl::StatusOr<TokenizerSpec> Read() const {
    GgufBytes file;
    for (const auto& [key, packed] : keys_) file.keys.push_back(packed);
    const std::string bytes = file.Encode();
    const absl::StatusOr<GgufFile> gguf = GgufFile::Parse(AsBytes(bytes), "t.gguf");
    if (!gguf.ok()) return gguf.status();
    return TokenizerFromGguf(*gguf, "t.gguf");
  }

 private:
  TokenizerKeys& Set(const std::string& key, GgufValueType type, std::string_view payload) {
    keys_[key] = PackedKey(key, type, payload);
    return *this;
  }
  std::map<std::string, std::string> keys_;
};

inline TokenizerKeys ByteLevelKeys() {
  return TokenizerKeys()
      .Text("tokenizer.ggml.model", "gpt2")
      .Text("tokenizer.ggml.pre", "gpt-2")
      .Texts("tokenizer.ggml.tokens", {"a", "b", "Ġ", "ab", "<|x|>", "  ", "[PAD6]"})
      .Kinds({1, 1, 1, 1, 3, 4, 5})
      .Texts("tokenizer.ggml.merges", {"a b"});
}

inline TokenizerKeys SentencePieceKeys() {
  return TokenizerKeys()
      .Text("tokenizer.ggml.model", "llama")
      .Texts("tokenizer.ggml.tokens", {"<unk>", "<s>", "</s>", "<0x41>", "▁", "▁a", "a"})
      .Kinds({2, 3, 3, 6, 1, 1, 1})
      .Scores({0, 0, 0, 0, -2, -1, -3});
}

}  // namespace outrider
