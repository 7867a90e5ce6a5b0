// Who has had how much of the target's time: of every window in which all sessions were at work.
//
//   const Shares shares = SharesOf(simulation, std::chrono::seconds(1));
//   shares.sessions[3].by_window[10]     // of the target's time in the eleventh second
//
// A fair share is an equal part of what its key gets, and every key gets an equal part. It is what
// a session is owed that always wants more; who wants less leaves the rest to the others. And so
// does who can use less: a session has one pass a run, and a key of few sessions may not be able to
// use its equal part, however often it asks. What it can use is a pass of each in every run, as
// large as the largest sessions' are in the mean; `usable` is its part if the target is divided
// fairly among keys that can use so much: nobody could have more, unless somebody had less who has
// no more than he.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "bench/simulator/world/simulation.h"

namespace outrider {

struct Shares {
  struct Of {
    std::string name;
    size_t key;
    double fair;
    double usable = 0;              // of keys
    std::vector<double> by_window;  // of the time that the target was busy in it
    Duration longest_wait{};        // from one part of a run to the next; of keys, any session's

    double least() const;
    double most() const;
    double mean() const;
  };

  Duration window;
  std::vector<Of> sessions;
  std::vector<Of> keys;
};

// After Run(). From when the last session had its first part until the first one was done.
Shares SharesOf(Simulation& simulation, Duration window);

// Of something that is divided, what everybody gets who can use so much of it: as much as anybody
// else, or as much as he can use; the rest is nobody's.
std::vector<double> MaxMinParts(std::span<const double> usable, double whole);

// A picture: a band for each session, as high as its share, over time.
std::string ToSvg(const Shares& shares, const std::string& subtitle);

}  // namespace outrider
