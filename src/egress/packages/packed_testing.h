// SPDX-License-Identifier: Apache-2.0
// Packages of npm for tests: tar archives, packed by gzip without compression.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

namespace cloister::egress {

// Bytes of a tar header, in place of the usual ones.
struct TarBytes {
  size_t at;
  std::string bytes;
};

// A tar header with the data and its padding. `type`: of ustar.
inline std::string tarEntry(const std::string& path, std::string_view data, char type = '0',
                            bool good_sum = true, const std::vector<TarBytes>& odd = {}) {
  constexpr size_t kBlock = 512;
  std::string block(kBlock, '\0');
  path.copy(block.data(), 100);
  std::snprintf(block.data() + 124, 12, "%011zo", data.size());
  block[156] = type;
  std::string_view(
      "ustar\0"
      "00",
      8)
      .copy(block.data() + 257, 8);
  for (const TarBytes& each : odd)
    each.bytes.copy(block.data() + each.at, each.bytes.size());
  std::fill_n(block.begin() + 148, 8, ' ');
  uint32_t sum = good_sum ? 0 : 1;
  for (const char c : block)
    sum += static_cast<uint8_t>(c);
  std::snprintf(block.data() + 148, 8, "%06o", sum);
  block.append(data);
  block.resize((block.size() + kBlock - 1) / kBlock * kBlock);
  return block;
}

// A gzip member (RFC 1952) of stored blocks (RFC 1951). Nobody here reads its check sum.
inline std::string gzipped(std::string_view bytes) {
  constexpr size_t kMost = 65'535;
  std::string out("\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03", 10);
  do {
    const std::string_view piece = bytes.substr(0, kMost);
    bytes.remove_prefix(piece.size());
    const auto size = static_cast<uint16_t>(piece.size());
    const auto other = static_cast<uint16_t>(~size);
    out += bytes.empty() ? '\1' : '\0';
    for (const uint16_t number : {size, other}) {
      out += static_cast<char>(number & 0xffU);
      out += static_cast<char>(number >> 8U);
    }
    out += piece;
  } while (!bytes.empty());
  return out + std::string(8, '\0');
}

inline std::string npmPackage(std::string_view manifest, const std::string& more = "") {
  return gzipped(tarEntry("package/package.json", manifest) + more + std::string(1024, '\0'));
}

}  // namespace cloister::egress
