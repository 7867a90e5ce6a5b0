// Somebody who looks at a target's passes between its layers, and knows whose rows they are.
//
//   target.Observe(&exits);                      // null: nobody
//
// Every run of the transformer that passes take part in is announced, then seen after each layer
// but the last. Prompts are not seen. What an observer does cannot change a bit of what the target
// says.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/model/layer_observer.h"
#include "common/model/target.h"

namespace outrider {

// A pass in a run: its root is batch row `root_row`, its nodes the rows after that.
struct RunningPass {
  size_t index;  // which of the passes of the call
  const Pass* pass;
  uint32_t length;  // of the sequence, and so the position of what comes after the root
  uint32_t root_row;

  uint32_t row_count() const { return static_cast<uint32_t>(1 + pass->nodes.size()); }
};

class PassObserver : public LayerObserver {
 public:
  // The passes of the run that begins, by rising root_row; rows without gaps from 0 on. They stay
  // where they are until the run is over. Rows are not to be dropped.
  virtual void BeginRun(std::span<const RunningPass> passes) = 0;
};

}  // namespace outrider
