// SPDX-License-Identifier: Apache-2.0
// Frames: how messages travel on a stream, between control plane and node and between node and
// runner. 12 bytes of header, then the payload. One generation number covers every message; golden
// files in spec/wire/gen-N hold the encodings still.
//
//   u32 length of the payload   u8 generation   u8 0   u16 type   u32 channel
//
// A length over the receiver's bound, another generation, or an unknown type ends the connection:
// no resynchronisation with a wrong or hostile peer is possible.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

#include "wire/codec.h"

namespace cloister::wire {

inline constexpr uint8_t kGeneration = 1;
inline constexpr size_t kHeaderBytes = 12;

struct FrameHeader {
  uint32_t length = 0;
  uint8_t generation = kGeneration;
  uint16_t type = 0;
  uint32_t channel = 0;
};

inline void encodeHeader(char* out, uint16_t type, uint32_t channel, uint32_t length) {
  Writer w(out, kHeaderBytes);
  w.u32(length);
  w.u8(kGeneration);
  w.u8(0);
  w.u16(type);
  w.u32(channel);
}

// `bytes` has at least kHeaderBytes. False for another generation or a non-zero reserved byte.
inline bool decodeHeader(std::string_view bytes, FrameHeader& header) {
  Reader r(bytes.substr(0, kHeaderBytes));
  header.length = r.u32();
  header.generation = r.u8();
  const uint8_t reserved = r.u8();
  header.type = r.u16();
  header.channel = r.u32();
  return r.done() && header.generation == kGeneration && reserved == 0;
}

}  // namespace cloister::wire
