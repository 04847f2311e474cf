// SPDX-License-Identifier: Apache-2.0
#include "sandbox/microvm/archive.h"

#include <charconv>
#include <cstdint>
#include <cstdio>
#include <iterator>

namespace cloister::runtime::microvm {
namespace {

constexpr size_t kAlign = 4;
constexpr char kLast[] = "TRAILER!!!";

void align(std::string& out) {
  out.append((kAlign - out.size() % kAlign) % kAlign, '\0');
}

void addField(std::string& out, size_t value) {
  char digits[9];
  std::snprintf(digits, sizeof digits, "%08zx", value);
  out += digits;
}

void addEntry(std::string& out, size_t number, const ArchiveFile& file) {
  // inode, mode, uid, gid, links, time, size, device and its device, each major and minor, length
  // of the name, and a sum that nobody reads.
  const size_t fields[] = {
      number, file.mode, 0, 0, 1, 0, file.content.size(), 0, 0, 0, 0, file.name.size() + 1, 0};
  static_assert(std::size(fields) == 13);
  out += "070701";
  for (const size_t field : fields)
    addField(out, field);
  out.append(file.name).push_back('\0');
  align(out);
  out.append(file.content);
  align(out);
}

}  // namespace

std::string makeArchive(const std::vector<ArchiveFile>& files) {
  std::string out;
  size_t number = 0;
  for (const ArchiveFile& file : files)
    addEntry(out, ++number, file);
  addEntry(out, 0, {.name = kLast, .mode = 0, .content = {}});
  return out;
}

namespace {

constexpr size_t kMagicBytes = 6;
constexpr size_t kFieldBytes = 8;
constexpr size_t kHeaderBytes = kMagicBytes + 13 * kFieldBytes;
constexpr size_t kContentField = 6;
constexpr size_t kNameField = 11;

// A field of the header at the begin of `bytes`; kNoField if it is no number.
constexpr size_t kNoField = SIZE_MAX;
size_t fieldOf(std::string_view bytes, size_t field) {
  const std::string_view digits = bytes.substr(kMagicBytes + field * kFieldBytes, kFieldBytes);
  uint32_t value = 0;
  const auto [end, error] = std::from_chars(digits.begin(), digits.end(), value, 16);
  return error == std::errc() && end == digits.end() ? value : kNoField;
}

size_t alignedSize(size_t size) {
  return (size + kAlign - 1) / kAlign * kAlign;
}

}  // namespace

bool archiveHas(std::string_view bytes, std::string_view name) {
  while (bytes.size() >= kHeaderBytes && bytes.starts_with("0707")) {
    const size_t content = fieldOf(bytes, kContentField);
    const size_t named = fieldOf(bytes, kNameField);
    if (content == kNoField || named == 0 || named > bytes.size() - kHeaderBytes) return false;
    const std::string_view its = bytes.substr(kHeaderBytes, named - 1);
    if (its == name) return true;
    const size_t whole = alignedSize(kHeaderBytes + named) + alignedSize(content);
    if (its == kLast || whole > bytes.size()) return false;
    bytes.remove_prefix(whole);
  }
  return false;
}

}  // namespace cloister::runtime::microvm
