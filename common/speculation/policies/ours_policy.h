// Ours: what is drafted, sent and waited for is what brings the next commit soonest.
//
// The text leaves what was drafted sooner or later; then the target stands still until the device
// has heard of it and has drafted something new, a round trip at the least. A node on the text's
// way puts that off by the tokens below it. So a node's worth is `reach`, the chance that the text
// passes it, in the light of hints: whether the running pass has taken it or not makes no
// difference, and pre-drafting is not a phase of its own.
//
//   Expand   the nodes with the most reach; as many in a batch as make the most reach per time
//   Join     candidates by their reach, first children before others, as long as the time that a node may save is worth the bytes
//            and the drafting that it takes, and as the sketch does not fill up between two
//            verdicts: it is to hold the most probable nodes, and there is always one more that is
//            less probable
//   Send     while a pass runs, when the delay would be worse than one message more. When the
//            target stands still, waiting for the batch that is under way makes the coming pass
//            better and everything later. It is worth it while
//
//              expected tokens that the batch adds      expected tokens of the pass now
//              -----------------------------------  >  --------------------------------
//                     time of the batch                 time of the pass, queue and all
//
//            (a token that misses this pass costs its share of another; LEVER's rule, on time
//            alone). What it adds is what the pass has places for, less what their rows cost. Where
//            draft and target take turns, that share is one of all that goes by between two
//            verdicts, and to the right stands how fast text has been coming. Where they do not,
//            a batch that is not waited for is not lost: it goes on beside the pass, and the next
//            one has it. So it is waited for only where it adds half as much again
//
// A target that does not stand still but writes on alone passes shallow nodes by before they come.
// There a node's worth is the best chance, among it and what may come below it, to be reached and
// to arrive ahead of the text.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "common/speculation/policies/tree_policy.h"

namespace outrider {

class OursPolicy : public TreePolicy {
 public:
  static constexpr double kFloorMax = 1.0 / 16;

  // `ahead`: what joins while a pass runs is sent at once, so that the next pass can start the
  // moment this one ends. Otherwise it is held until the verdict, and the next pass starts when it
  // is worth it: better where a pass takes far longer than drafting and the round trip.
  explicit OursPolicy(bool ahead) : ahead_(ahead) {}

  std::string_view name() const override { return ahead_ ? "ours" : "awaited"; }
  void Join(const DraftView& draft, std::vector<uint32_t>& candidates) override;
  void Expand(const DraftView& draft, std::vector<Expansion>& batch) override;
  Sending Send(const DraftView& draft, bool drafting) override;
  void Learn(const DraftView& draft, const DraftVerdict& verdict) override;

  // The least reach of what is grown.
  double Floor(const DraftView& draft) const;

 private:
  // What a node's children claim on average in this draft, the most probable first.
  using Claims = std::array<double, 4>;

  void ReserveFor(const DraftView& draft);
  const Claims& AverageClaims(const DraftView& draft);
  void WorthByDepth(const DraftView& draft);
  void ChooseBatch(const DraftView& draft);
  double FormPass(const DraftView& draft);
  double BatchGain(const DraftView& draft, double tokens_per_ms);
  static bool IsWorthHolding(const DraftView& draft);

  const bool ahead_;
  double fullness_ = 0;  // what the floor has to be for the sketch to have room
  // Scratch.
  std::vector<uint32_t> batch_;
  std::vector<uint32_t> pass_;
  std::vector<double> worth_;          // by depth: what reach is to be multiplied with
  std::vector<uint32_t> child_count_;  // by node
  std::vector<double> children_;       // what they may reach
  Claims claims_ = {};
  std::vector<uint8_t> taken_;  // by node
  std::vector<uint8_t> is_leaf_;
};

}  // namespace outrider
