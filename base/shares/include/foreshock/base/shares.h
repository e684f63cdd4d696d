// Who may take how much of room that is bounded: the one rule of the agent's spool, of the server's queue and
// of its connections.
//
// Up to half of it everybody takes what he needs. Beyond, no one of n takes more than an n-th, so that one
// who brings much cannot keep the others out while nothing leaves; and the last sixteenth is for those that
// hold less than that.
#pragma once

#include <cstdint>

namespace foreshock {

enum class Room {
  kFree,
  kFull,   // no room for this
  kShare,  // there is room, but who asks has his share
};

// holders: how many hold something at all; own: what who asks holds himself, of `taken`.
inline Room RoomFor(uint64_t bytes, uint64_t own, uint64_t taken, uint64_t limit, uint64_t holders) {
  if (taken + bytes <= limit / 2) return Room::kFree;
  const uint64_t reserve = own + bytes > limit / 16 ? limit / 16 : 0;
  if (taken + bytes > limit - reserve) return Room::kFull;
  const bool alone = own == 0 || holders < 2;
  return alone || own + bytes <= limit / holders ? Room::kFree : Room::kShare;
}

}  // namespace foreshock
