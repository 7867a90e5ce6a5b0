// A thread that runs soon after it has something to do, though others are busy.
//
//   BePrompt();   // first thing on a thread that mostly waits, and that many wait for
//
// The kernel lets a thread that wakes go before those whose turn is longer than its own. So this asks for
// turns of a tenth of a millisecond, where others have three: no more of the processor than they have,
// but the sooner. It takes no privilege, and threads that the caller starts have turns like others.
//
// Best effort: Linux before 6.12 has one length for all. A thread that somebody has taken out of the
// usual policy (chrt) stays as it is.
//
// Prompt or not, who sleeps most goes first when woken, on the core of whoever has woken it. So that is done
// when the mutex has been given up that it wants: else it waits for that at once, until its holder has
// a turn again, and so does everybody else who wants it. On a full core that is after all others.
#pragma once

namespace outrider {

void BePrompt();

}  // namespace outrider
