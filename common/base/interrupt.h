// Ctrl-C as something a loop can look at, so that a command ends between two tokens and still says
// what it did. SIGTERM, with which a machine that shuts down asks the same, counts as one.
#pragma once

namespace outrider {

// From now on the first Ctrl-C only makes Interrupted() true; a second one ends the process as
// ever.
void CatchInterrupt();
bool Interrupted();

}  // namespace outrider
