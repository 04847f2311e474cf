// SPDX-License-Identifier: Apache-2.0
// Every value that travels to or from a node or cloister-egress. Each value has a single encoding:
// decoded bytes are written back byte for byte. The first byte chooses the type.
#include <functional>

#include "wire/door_message.h"
#include "wire/egress.h"
#include "wire/node.h"

#include "require.h"

using namespace cloister;

namespace {

template <class Decode, class Encode>
void roundTrip(std::string_view bytes, Decode decode, Encode encode) {
  const auto value = decode(bytes);
  if (!value) return;
  REQUIRE(encode(*value) == bytes);
}

std::string encodeDoorPacket(const wire::egress::DoorPacket& packet) {
  using wire::egress::DoorMessage;
  if (packet.type == DoorMessage::kAttach) return wire::egress::encodeAttach(packet.door);
  if (packet.type == DoorMessage::kWho) return wire::egress::encodeWho(packet.door.id, packet.who);
  if (packet.type == DoorMessage::kProgram)
    return wire::egress::encodeProgram(packet.door.id, packet.who.number, packet.program);
  if (packet.type == DoorMessage::kRefused)
    return wire::egress::encodeRefused(packet.door.id, packet.why);
  return wire::egress::encodeDoorId(packet.type, packet.door.id);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0]) {
    case 'P':
      roundTrip(bytes, wire::decodePermit, wire::encodePermit);
      break;
    case 'W':
      roundTrip(bytes, wire::decodeWalls, wire::encodeWalls);
      break;
    case 'S':
      roundTrip(bytes, wire::decodeSignedPermit, wire::encodeSignedPermit);
      break;
    case 'E':
      roundTrip(bytes, wire::decodeExecSpec, wire::encodeExecSpec);
      break;
    case 'O':
      roundTrip(bytes, wire::decodeOutcome, wire::encodeOutcome);
      break;
    case 'U':
      roundTrip(bytes, wire::decodeUsage, wire::encodeUsage);
      break;
    case 'N':
      roundTrip(bytes, wire::decodeOffer, wire::encodeOffer);
      break;
    case 'L':
      roundTrip(bytes, wire::decodePool, wire::encodePool);
      break;
    case 'X':
      roundTrip(bytes, wire::decodeError, wire::encodeError);
      break;
    case 'I':
      roundTrip(bytes, wire::decodeProvisioned, wire::encodeProvisioned);
      break;
    case 'p':
      roundTrip(bytes, wire::egress::decodeSignedPlan, wire::egress::encodeSignedPlan);
      break;
    case 'b':
      roundTrip(bytes, wire::egress::decodeBatch, wire::egress::encodeBatch);
      break;
    case 'w':
      roundTrip(bytes, wire::egress::decodeWanted, wire::egress::encodeWanted);
      break;
    case 'd':
      roundTrip(bytes, wire::egress::decodeDoor, wire::egress::encodeDoor);
      break;
    case 'D':
      roundTrip(bytes, wire::egress::decodeDoorPacket, encodeDoorPacket);
      break;
    default:
      break;
  }
  return 0;
}
