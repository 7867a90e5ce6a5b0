// How long a thread's turns are while others want its core too. Who wakes goes before those whose turn is longer than
// its own, so a short one is had soon and a long one late; nobody has more of the processor than before.
//
//   BePrompt();    // first thing on a thread that mostly waits, and that many wait for: 0.1 ms
//   BePatient();   // on one that computes what nobody stands still for: 30 ms, where others have one to three
//
// It takes no privilege, and threads that the caller starts have turns like others.
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
void BePatient();

}  // namespace outrider
