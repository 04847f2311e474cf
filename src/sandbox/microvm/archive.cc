// SPDX-License-Identifier: Apache-2.0
#include "sandbox/microvm/archive.h"

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

}  // namespace cloister::runtime::microvm
