// SPDX-License-Identifier: Apache-2.0
#include "wire/door_message.h"

#include <utility>

#include "wire/codec.h"
#include "wire/node.h"
#include "wire/string_writer.h"

namespace cloister::wire::egress {
namespace {

StringWriter beginPacket(DoorMessage type) {
  StringWriter writer;
  writer.u16(static_cast<uint16_t>(type));
  return writer;
}

std::unexpected<Error> badPacket(std::string_view why) {
  return fail(Code::kInvalid, "reading a message about a door: " + std::string(why));
}

constexpr size_t kTypeBytes = 2;
constexpr size_t kIdBytes = 8;

Result<DoorPacket> readRefusal(uint64_t door, std::string_view rest) {
  DoorPacket packet;
  packet.type = DoorMessage::kRefused;
  packet.door.id = door;
  packet.why = TRY(decodeError(rest));
  return packet;
}

}  // namespace

std::string encodeAttach(const Door& door) {
  StringWriter writer = beginPacket(DoorMessage::kAttach);
  const std::string encoded = encodeDoor(door);
  writer.raw(encoded.data(), encoded.size());
  return writer.take();
}

std::string encodeDoorId(DoorMessage type, uint64_t door) {
  StringWriter writer = beginPacket(type);
  writer.u64(door);
  return writer.take();
}

std::string encodeRefused(uint64_t door, const Error& why) {
  StringWriter writer = beginPacket(DoorMessage::kRefused);
  writer.u64(door);
  const std::string encoded = encodeError(why);
  writer.raw(encoded.data(), encoded.size());
  return writer.take();
}

Result<DoorPacket> decodeDoorPacket(std::string_view bytes) {
  if (bytes.size() > kMaxDoorMessage) return badPacket("too long");
  Reader reader(bytes);
  const auto type = static_cast<DoorMessage>(reader.u16());
  if (!reader.ok()) return badPacket("cut short");
  if (type == DoorMessage::kAttach) {
    return DoorPacket{.type = type, .door = TRY(decodeDoor(bytes.substr(kTypeBytes))), .why = {}};
  }
  const uint64_t door = reader.u64();
  if (!reader.ok()) return badPacket("cut short");
  DoorPacket packet;
  switch (type) {
    case DoorMessage::kRefused:
      return readRefusal(door, bytes.substr(kTypeBytes + kIdBytes));
    case DoorMessage::kDetach:
    case DoorMessage::kAttached:
    case DoorMessage::kDetached:
      if (!reader.done()) return badPacket("bytes after its end");
      packet.type = type;
      packet.door.id = door;
      return packet;
    default:
      return badPacket("no such type");
  }
}

}  // namespace cloister::wire::egress
