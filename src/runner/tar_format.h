// SPDX-License-Identifier: Apache-2.0
// The blocks of a tar archive, for the writer tar.cc and for untar.cc.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cloister::runner {

inline constexpr size_t kBlock = 512;

// pax(1), "ustar Interchange Format".
struct TarHeader {
  char name[100];
  char mode[8];
  char uid[8];
  char gid[8];
  char size[12];
  char mtime[12];
  char checksum[8];
  char type;
  char link[100];
  char magic[6];
  char version[2];
  char owner[32];
  char group[32];
  char major[8];
  char minor[8];
  char prefix[155];
  char pad[12];
};
static_assert(sizeof(TarHeader) == kBlock);

constexpr uint64_t padding(uint64_t size) {
  return (kBlock - size % kBlock) % kBlock;
}

// The sum of the header's bytes, its own field taken as blanks.
inline uint32_t checksumOf(const TarHeader& header) {
  uint32_t sum = 0;
  const auto* bytes = reinterpret_cast<const unsigned char*>(&header);
  for (size_t i = 0; i < kBlock; ++i)
    sum += bytes[i];
  for (const char c : header.checksum)
    sum += ' ' - static_cast<unsigned char>(c);
  return sum;
}

}  // namespace cloister::runner
