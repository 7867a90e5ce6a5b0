// A number for "these two speak of the same tokens".
//
// FINGERPRINT. FNV-1a, 64 bit (offset basis 0xcbf29ce484222325, prime 0x100000001b3), over this for
// every token in the order of ids, kUnused ones left out:
//     id      u32 little endian
//     class   one byte: 'c' for control and unknown tokens, 't' for text (normal, user-defined and
//             byte tokens)
//     length  u32 little endian, of
//     bytes   what the token prints: a byte token its byte, SentencePiece's U+2581 a space
// Scores, merges, pre-tokeniser, special ids and the like do not count: two sides that agree on the
// fingerprint can exchange ids, which is all the handshake is for. It guards against mistakes, not
// against malice.
#pragma once

#include <cstdint>
#include <string>

#include "common/formats/tokenizers/tokenizer_spec.h"

namespace outrider {

uint64_t TokenizerFingerprint(const TokenizerSpec& spec);

// As sixteen hexadecimal digits, on the wire and in messages.
std::string FingerprintDigits(uint64_t fingerprint);

}  // namespace outrider
