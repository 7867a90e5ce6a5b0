#include "common/text/byte_level_bpe.h"

#include <array>
#include <optional>
#include <utility>

#include "common/base/status.h"
#include "common/text/bpe_model.h"
#include "common/text/merge_table.h"
#include "common/text/pre_tokenizer.h"
#include "common/text/token_lookup.h"

namespace outrider {

namespace {

class ByteLevelBpe final : public BpeModel {
 public:
  ByteLevelBpe(const TokenizerSpec& spec, TokenLookup lookup, MergeTable merges)
      : BpeModel(std::move(lookup), spec.tokens.size(), spec.ignore_merges),
        pre_tokenizer_(spec.pre_tokenizer),
        merges_(std::move(merges)) {
    for (size_t byte = 0; byte < byte_ids_.size(); ++byte) {
      const char text = static_cast<char>(byte);
      const auto id = BpeModel::lookup().Find(std::string_view(&text, 1));
      byte_ids_[byte] = id ? id : spec.unknown;
    }
  }

 private:
  void ForEachPieceOf(std::string_view text,
                      absl::FunctionRef<void(std::string_view)> visit) const override {
    ForEachPiece(pre_tokenizer_, text, visit);
  }

  void MergePiece(std::string_view piece, std::vector<MergeTable::Symbol>& symbols,
                  std::vector<TokenId>& ids) const override {
    symbols.clear();
    for (const char c : piece) {
      if (const auto id = byte_ids_[static_cast<unsigned char>(c)]) symbols.push_back(*id);
    }
    merges_.Apply(symbols);
    ids.insert(ids.end(), symbols.begin(), symbols.end());
  }

  const TokenizerSpec::PreTokenizer pre_tokenizer_;
  const MergeTable merges_;
  std::array<std::optional<TokenId>, 256> byte_ids_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<TextModel>> CreateByteLevelBpe(const TokenizerSpec& spec) {
  TokenLookup lookup(spec);
  OUTRIDER_ASSIGN_OR_RETURN(MergeTable merges, RankedMerges(spec, lookup));
  return std::make_unique<ByteLevelBpe>(spec, std::move(lookup), std::move(merges));
}

}  // namespace outrider
