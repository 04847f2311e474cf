// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/storage/snapshot_manifest.h"

#include <map>

#include <boost/asio/io_context.hpp>
#include <boost/asio/thread_pool.hpp>
#include <gtest/gtest.h>

#include "async/run_task.h"
#include "base/crypto.h"

namespace cloister::orchestrator {
namespace {

using wire::files::Kind;
using wire::tar::Entry;

class Bytes final : public artifacts::BlobReader {
 public:
  explicit Bytes(std::string bytes) : bytes_(std::move(bytes)) {}
  [[nodiscard]] uint64_t size() const override { return bytes_.size(); }
  artifacts::Task<Result<std::string>> read(uint64_t offset, size_t length) override {
    co_return offset < bytes_.size() ? bytes_.substr(offset, length) : "";
  }

 private:
  std::string bytes_;
};

Entry file(const std::string& path, uint64_t size) {
  return {.mode = 0644, .size = size, .modified_at = 1, .path = path};
}

struct Made {
  std::string manifest;
  std::map<std::string, std::string> chunks;
};

Made make(const std::vector<Entry>& entries, const std::vector<std::string>& chunks) {
  Made made;
  ManifestWriter writer;
  for (const Entry& entry : entries)
    writer.add(entry);
  for (const std::string& chunk : chunks) {
    const std::string digest = base::sha256Hex(chunk);
    writer.add({digest, chunk.size()});
    made.chunks[digest] = chunk;
  }
  writer.finish();
  made.manifest = writer.take();
  EXPECT_EQ(writer.size(), made.manifest.size());
  return made;
}

using boost::asio::awaitable;

awaitable<Result<std::string>> makeArchive(const Made& made, boost::asio::thread_pool& pool) {
  SnapshotArchive archive(
      CO_TRY(co_await ManifestReader::open(std::make_shared<Bytes>(made.manifest), "digest")),
      pool);
  std::string out;
  for (;;) {
    auto step = CO_TRY(co_await archive.next());
    if (std::holds_alternative<SnapshotArchive::End>(step)) co_return out;
    if (const auto* bytes = std::get_if<std::string>(&step)) out += *bytes;
    if (const auto* chunk = std::get_if<model::SnapshotChunk>(&step))
      archive.give(std::make_shared<Bytes>(made.chunks.at(chunk->sha256)));
  }
}

// The archive made of the manifest.
Result<std::string> archiveOf(const Made& made) {
  boost::asio::io_context io;
  boost::asio::thread_pool pool(1);
  return async::runTask(io, makeArchive(made, pool));
}

awaitable<Result<bool>> readBoth(const Made& made) {
  auto reader =
      CO_TRY(co_await ManifestReader::open(std::make_shared<Bytes>(made.manifest), "digest"));
  while (CO_TRY(co_await reader.entry())) {
  }
  while (CO_TRY(co_await reader.chunk())) {
  }
  co_return true;
}

// Reads both lists, as far as possible.
Result<bool> readThrough(const Made& made) {
  boost::asio::io_context io;
  return async::runTask(io, readBoth(made));
}

std::string expected(const std::vector<Entry>& entries, const std::string& content) {
  std::string out;
  size_t at = 0;
  for (const Entry& entry : entries) {
    out +=
        wire::tar::header(entry) + content.substr(at, entry.size) + wire::tar::padding(entry.size);
    at += entry.size;
  }
  return out + wire::tar::end();
}

TEST(SnapshotArchive, IsWhatWasTakenWhereverTheChunksBegin) {
  const std::vector<Entry> entries = {
      {.kind = Kind::kDirectory, .mode = 0, .path = "d"},
      file("d/empty", 0),
      file("d/large", 200'000),
      file("small", 3),
      {.kind = Kind::kLink, .mode = 0777, .path = "l", .target = "/etc/passwd"},
      file("last", 100)};
  std::string content(200'103, 'a');
  for (size_t i = 0; i < content.size(); ++i)
    content[i] = static_cast<char>(i * 7 + i / 300);
  for (const size_t size : {1000UL, 65'536UL, 199'999UL, 200'000UL, 200'103UL}) {
    std::vector<std::string> chunks;
    for (size_t at = 0; at < content.size(); at += size)
      chunks.push_back(content.substr(at, size));
    const auto archive = archiveOf(make(entries, chunks));
    ASSERT_TRUE(archive) << archive.error().message;
    EXPECT_TRUE(*archive == expected(entries, content)) << size;
  }
}

TEST(SnapshotArchive, ManyEntriesAndNone) {
  std::vector<Entry> entries;
  for (int i = 0; i < 5000; ++i)
    entries.push_back(file(std::string(200, 'n') + std::to_string(i), 0));
  EXPECT_TRUE(archiveOf(make(entries, {})).value() == expected(entries, ""));
  EXPECT_EQ(archiveOf(make({}, {})).value(), wire::tar::end());
}

TEST(SnapshotArchive, RefusesAChunkThatIsNotTheOneNamed) {
  Made made = make({file("f", 6)}, {"abcdef"});
  const std::string digest = made.chunks.begin()->first;
  for (const std::string other : {"abcdeF", "abcde", "abcdefg", ""}) {
    made.chunks[digest] = other;
    const auto archive = archiveOf(made);
    ASSERT_FALSE(archive);
    EXPECT_NE(archive.error().message.find(digest), std::string::npos);
  }
}

TEST(SnapshotArchive, RefusesMoreFilesThanChunks) {
  EXPECT_FALSE(archiveOf(make({file("f", 7)}, {"abcdef"})));
}

// Any changed or missing byte gives an error or an archive, never anything else.
TEST(ManifestReader, ADamagedManifestIsNotFollowed) {
  const Made whole = make({file("name", 6), file("second", 0)}, {"abcdef"});
  for (size_t i = 0; i < whole.manifest.size(); ++i) {
    Made cut = whole;
    cut.manifest.resize(i);
    EXPECT_FALSE(archiveOf(cut)) << i;
    for (const int change : {1, 0x80, 0xff}) {
      Made bad = whole;
      bad.manifest[i] = static_cast<char>(bad.manifest[i] ^ change);
      if (const auto read = readThrough(bad); !read) EXPECT_EQ(read.error().code, Code::kInternal);
    }
  }
  Made escaping = make({{.mode = 0644, .path = "../x"}}, {});
  EXPECT_FALSE(archiveOf(escaping));
}

}  // namespace
}  // namespace cloister::orchestrator
