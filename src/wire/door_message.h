// SPDX-License-Identifier: Apache-2.0
// The messages between the node and cloister-egress as bytes: the type (u16), then its members. One
// message is one packet of the SOCK_SEQPACKET socket. The decoder is strict.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "wire/egress.h"

namespace cloister::wire::egress {

// Longer packets are refused.
inline constexpr size_t kMaxDoorMessage = 8192;

std::string encodeAttach(const Door& door);
// For kDetach, kAttached and kDetached.
std::string encodeDoorId(DoorMessage type, uint64_t door);
std::string encodeRefused(uint64_t door, const Error& why);
std::string encodeWho(uint64_t door, const Who& who);
// A longer name is cut; bytes that are not UTF-8 are escaped.
std::string encodeProgram(uint64_t door, uint32_t number, const std::string& program);

struct DoorPacket {
  DoorMessage type = DoorMessage::kDetach;
  Door door;                 // of kAttach; of the other types its id alone
  Error why;                 // of kRefused
  Who who = {};              // of kWho; of kProgram its number alone
  std::string program = {};  // of kProgram
};
// kInvalid for every packet that the functions above do not make.
Result<DoorPacket> decodeDoorPacket(std::string_view bytes);

}  // namespace cloister::wire::egress
