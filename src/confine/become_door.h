// SPDX-License-Identifier: Apache-2.0
// The process of SpawnRequest::What::kDoor. The process enters the network namespace of a sandbox,
// opens its door there (door.h), and hands out the sockets.
//
// The request's descriptors: a SOCK_SEQPACKET socket for the single answer, and the pidfd of the
// sandbox's first process. The answer is a DoorAnswer with the sockets, or an error's text without
// a descriptor.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "confine/door.h"
#include "confine/spawn_loop.h"

namespace cloister::runtime {

// Travels as bytes, between two processes of the same build. The descriptors follow in the order of
// the members.
struct DoorAnswer {
  static constexpr size_t kMaxText = kMaxAnswer - 5 * sizeof(uint32_t);

  uint32_t transparent = 0;
  uint32_t listeners = 0;
  uint32_t has_log = 0;
  uint32_t has_diag = 0;
  uint32_t text_size = 0;
  char weakened[kMaxText] = {};  // one text a line
};

// A door as its answer, and back. `fds`: the descriptors that came with the answer.
DoorAnswer answerOf(const DoorSockets& door);
// kInternal for bytes of another form, such as an error's text.
Result<DoorAnswer> readDoorAnswer(std::string_view bytes);
Result<DoorSockets> doorOf(std::string_view bytes, std::vector<Fd> fds);

[[noreturn]] void becomeDoor(Birth& birth);

}  // namespace cloister::runtime
