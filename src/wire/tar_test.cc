// SPDX-License-Identifier: Apache-2.0
#include "wire/tar.h"

#include <gtest/gtest.h>

namespace cloister::wire::tar {
namespace {

using files::Kind;

constexpr int64_t kSecond = 1'000'000'000;

Entry file(const std::string& path, uint64_t size = 0) {
  return {.mode = 0640, .size = size, .modified_at = 5 * kSecond, .path = path};
}

// The parts of an archive received in pieces of `step` bytes, contents joined.
struct Read {
  std::vector<Entry> entries;
  std::vector<std::string> contents;
  bool ended = false;
  std::string error;
};

Read readAll(const std::string& archive, size_t step) {
  Read out;
  Reader reader;
  for (size_t at = 0; at < archive.size(); at += step) {
    reader.feed(archive.substr(at, step));
    for (;;) {
      auto part = reader.next();
      if (!part) {
        out.error = part.error().message;
        return out;
      }
      if (!*part) break;
      if (auto* entry = std::get_if<Entry>(&**part)) {
        out.entries.push_back(*entry);
        out.contents.emplace_back();
      } else if (auto* content = std::get_if<Content>(&**part)) {
        out.contents.back() += content->bytes;
      }
    }
  }
  out.ended = reader.ended();
  return out;
}

std::string archiveOf(const Entry& entry, const std::string& content = "") {
  return header(entry) + content + padding(content.size()) + end();
}

TEST(Tar, ReadsWhatItWritesInPiecesOfAnySize) {
  const std::vector<Entry> entries = {
      file("a", 3),
      {.kind = Kind::kDirectory, .mode = 0, .modified_at = 7 * kSecond + 1, .path = "d"},
      {.kind = Kind::kLink, .mode = 0777, .modified_at = 0, .path = "d/l", .target = "../x"},
      {.mode = 0777, .size = 512, .modified_at = kSecond - 1, .path = "d/" + std::string(255, 'n')},
      {.kind = Kind::kDirectory, .mode = 0755, .path = std::string(100, 'e')},
      {.kind = Kind::kLink, .path = "m", .target = std::string(3000, 't')},
      file("\xff\n \x1b"),
      file("last", 1000)};
  std::string archive;
  for (const Entry& entry : entries)
    archive += header(entry) + std::string(entry.size, 'c') + padding(entry.size);
  archive += end();
  for (const size_t step : {1UL, 511UL, 512UL, 513UL, 7000UL, archive.size()}) {
    const Read read = readAll(archive, step);
    EXPECT_EQ(read.error, "");
    EXPECT_TRUE(read.ended);
    ASSERT_EQ(read.entries.size(), entries.size()) << step;
    for (size_t i = 0; i < entries.size(); ++i) {
      EXPECT_TRUE(read.entries[i] == entries[i]) << entries[i].path;
      EXPECT_EQ(read.contents[i], std::string(entries[i].size, 'c'));
    }
  }
}

TEST(Tar, RefusesNamesThatLeadElsewhere) {
  for (const std::string path :
       {"/etc/passwd", "../x", "a/../b", "a//b", "./a", "a/.", "..", "."}) {
    EXPECT_NE(readAll(archiveOf(file(path)), 512).error, "") << path;
    EXPECT_FALSE(isPlainPath(path)) << path;
  }
  EXPECT_FALSE(isPlainPath(""));
  EXPECT_FALSE(isPlainPath(std::string("a\0b", 3)));
  EXPECT_FALSE(isPlainPath(std::string(256, 'n')));
  EXPECT_TRUE(isPlainPath("..a/b.."));
}

// Change each byte of a header: the reader refuses the archive, or its strict rules still hold.
TEST(Tar, ADamagedHeaderIsRefused) {
  const std::string whole = archiveOf(file("name", 3), "abc");
  for (size_t i = 0; i < 512; ++i) {
    if (i == 155) continue;  // the checksum's terminator
    std::string bad = whole;
    bad[i] = static_cast<char>(bad[i] + 1);
    EXPECT_NE(readAll(bad, 512).error, "") << i;
  }
}

std::string withType(const Entry& entry, char type) {
  std::string out = header(entry);
  const int change = type - out[156];
  out[156] = type;
  // The checksum is six octal digits.
  const auto sum = std::stoul(out.substr(148, 6), nullptr, 8) + static_cast<unsigned long>(change);
  char text[8];
  std::snprintf(text, sizeof text, "%06lo", sum);
  return out.replace(148, 6, text);
}

TEST(Tar, RefusesKindsThatAreNotOurs) {
  for (const char type : {'1', '3', '4', '6', '7', 'g', 'L', 'K', 'S', '\0'})
    EXPECT_NE(readAll(withType(file("x"), type) + end(), 512).error, "") << type;
  EXPECT_NE(readAll(withType(file("x", 5), '5') + std::string(512, 'x') + end(), 512).error, "")
      << "a directory with content";
  EXPECT_NE(readAll(withType(file("x"), '2') + end(), 512).error, "") << "a link to nothing";
}

std::string extended(const std::string& records) {
  return withType(file("pax", records.size()), 'x') + records + padding(records.size());
}

TEST(Tar, RefusesExtendedHeadersThatAreNotOurs) {
  for (const std::string records :
       {"13 path=../x\n", "11 path=a\n", "8 path=a\n", "8 path=\n", "path=a\n", " path=a\n",
        "99999999999999999999 path=a\n", "25 GNU.sparse.name=hidden\n", "11 size=99\n",
        "16 mtime=-1.5e3\n", "10 mtime=\n", "13 mtime=1.5\n", "30 mtime=99999999999999999999\n"}) {
    EXPECT_NE(readAll(extended(records) + header(file("x")) + end(), 512).error, "") << records;
  }
  EXPECT_EQ(readAll(extended("10 path=a\n") + header(file("x")) + end(), 512).entries[0].path, "a");
  EXPECT_NE(readAll(extended("10 path=a\n") + extended("10 path=b\n"), 512).error, "");
  EXPECT_NE(readAll(withType(file("pax", 1 << 30), 'x') + std::string(1 << 16, 'x'), 512).error, "")
      << "one that would be gathered for ever";
}

TEST(Tar, NothingComesAfterTheEnd) {
  EXPECT_NE(readAll(archiveOf(file("x")) + "x", 512).error, "");
  EXPECT_NE(readAll(archiveOf(file("x")) + std::string(512, '\0'), 512).error, "");
  EXPECT_FALSE(readAll(header(file("x", 10)) + "abc", 512).ended) << "cut short";
}

}  // namespace
}  // namespace cloister::wire::tar
