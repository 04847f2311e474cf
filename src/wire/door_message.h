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

struct DoorPacket {
  DoorMessage type = DoorMessage::kDetach;
  Door door;  // of kAttach; of the other types its id alone
  Error why;  // of kRefused
};
// kInvalid for every packet that the functions above do not make.
Result<DoorPacket> decodeDoorPacket(std::string_view bytes);

}  // namespace cloister::wire::egress
