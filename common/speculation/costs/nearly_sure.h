// Where many share a target, a drafted node has to promise something to be worth its row to all
// (Verdict.least_chance). Where that is so much, hardly any node is taken: a device drafts only what
// may be, and hints are of no use to it. Below it, to leave out more than the target does costs text
// (simulate crowd).
#pragma once

namespace outrider {

inline constexpr double kNearlySure = 0.7;

}  // namespace outrider
