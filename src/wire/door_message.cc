// SPDX-License-Identifier: Apache-2.0
#include "wire/door_message.h"

#include <utility>

#include "base/json.h"
#include "model/shown_text.h"
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

Result<DoorPacket> readWho(DoorPacket packet, Reader& reader) {
  Who& who = packet.who;
  who.number = reader.u32();
  who.client = reader.u32();
  who.client_port = reader.u16();
  who.asked = reader.u32();
  who.asked_port = reader.u16();
  if (!reader.done()) return badPacket("a question of another length");
  return packet;
}

Result<DoorPacket> readProgram(DoorPacket packet, Reader& reader) {
  packet.who.number = reader.u32();
  packet.program = reader.bytes();
  if (reader.done() && packet.program.size() <= kMaxProgram && base::isUtf8(packet.program))
    return packet;
  return badPacket("a program's name of another form");
}

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

std::string encodeWho(uint64_t door, const Who& who) {
  StringWriter writer = beginPacket(DoorMessage::kWho);
  writer.u64(door);
  writer.u32(who.number);
  writer.u32(who.client);
  writer.u16(who.client_port);
  writer.u32(who.asked);
  writer.u16(who.asked_port);
  return writer.take();
}

std::string encodeProgram(uint64_t door, uint32_t number, const std::string& program) {
  StringWriter writer = beginPacket(DoorMessage::kProgram);
  writer.u64(door);
  writer.u32(number);
  const std::string safe =
      base::isUtf8(program) ? program : model::safeText(program, kMaxProgram / 8);
  writer.bytes(base::withoutCutCharacter(std::string_view(safe).substr(0, kMaxProgram)));
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
  packet.type = type;
  packet.door.id = door;
  switch (type) {
    case DoorMessage::kWho:
      return readWho(std::move(packet), reader);
    case DoorMessage::kProgram:
      return readProgram(std::move(packet), reader);
    case DoorMessage::kRefused:
      return readRefusal(door, bytes.substr(kTypeBytes + kIdBytes));
    case DoorMessage::kDetach:
    case DoorMessage::kAttached:
    case DoorMessage::kDetached:
      if (!reader.done()) return badPacket("bytes after its end");
      return packet;
    default:
      return badPacket("no such type");
  }
}

}  // namespace cloister::wire::egress
