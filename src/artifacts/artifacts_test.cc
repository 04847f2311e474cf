// SPDX-License-Identifier: Apache-2.0
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "artifacts/blobs_suite.h"

namespace cloister::artifacts {
namespace {

namespace fs = std::filesystem;

class TempDir {
 public:
  TempDir() {
    std::string name = ::testing::TempDir() + "blobs-XXXXXX";
    path_ = ::mkdtemp(name.data());
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  ~TempDir() { fs::remove_all(path_); }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Blobs that take their directory with them.
class OwnedBlobs : public Blobs {
 public:
  explicit OwnedBlobs(model::Durability durability)
      : blobs_(openLocalBlobs(dir_.path() + "/blobs", durability).value()) {}
  Result<std::unique_ptr<BlobWriter>> create() override { return blobs_->create(); }
  Result<std::string> read(const std::string& id, uint64_t at, size_t n) override {
    return blobs_->read(id, at, n);
  }
  Result<uint64_t> size(const std::string& id) override { return blobs_->size(id); }
  Result<> remove(const std::string& id) override { return blobs_->remove(id); }

 private:
  TempDir dir_;
  std::unique_ptr<Blobs> blobs_;
};

template <model::Durability kDurability>
std::unique_ptr<Blobs> openOwned() {
  return std::make_unique<OwnedBlobs>(kDurability);
}

INSTANTIATE_TEST_SUITE_P(Local, BlobsSuite,
                         ::testing::Values(&openOwned<model::Durability::kProcess>,
                                           &openOwned<model::Durability::kPower>));

std::unique_ptr<Blobs> open(const std::string& dir) {
  return openLocalBlobs(dir, model::Durability::kProcess).value();
}

size_t filesIn(const std::string& dir) {
  size_t n = 0;
  for (const auto& entry : fs::recursive_directory_iterator(dir))
    n += entry.is_regular_file() ? 1 : 0;
  return n;
}

TEST(LocalBlobs, OpeningRemovesWhatACrashLeft) {
  const TempDir dir;
  std::string kept;
  {
    const auto blobs = open(dir.path());
    auto writer = blobs->create().value();
    ASSERT_TRUE(writer->write("kept"));
    kept = writer->finish().value();
  }
  std::ofstream(dir.path() + "/tmp/half") << "half";
  const auto blobs = open(dir.path());
  EXPECT_EQ(filesIn(dir.path()), 1U);
  EXPECT_EQ(blobs->read(kept, 0, 10).value(), "kept");
}

TEST(LocalBlobs, AnAbandonedWriterLeavesNothing) {
  const TempDir dir;
  const auto blobs = open(dir.path());
  ASSERT_TRUE(blobs->create().value()->write("half"));
  EXPECT_EQ(filesIn(dir.path()), 0U);
}

TEST(LocalBlobs, NobodyElseMayRead) {
  const TempDir dir;
  const std::string root = dir.path() + "/blobs";
  const auto blobs = open(root);
  auto writer = blobs->create().value();
  const std::string digest = writer->finish().value();
  struct stat status{};
  ASSERT_EQ(::stat(root.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0700U);
  ASSERT_EQ(::stat((root + "/" + digest.substr(0, 2) + "/" + digest.substr(2)).c_str(), &status),
            0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U);
}

// Writes fail half-way as on a full disk: the kernel takes no more than the file-size limit.
class SmallFiles {
 public:
  SmallFiles() {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit small{4, before_.rlim_max};
    ::signal(SIGXFSZ, SIG_IGN);
    ::setrlimit(RLIMIT_FSIZE, &small);
  }
  SmallFiles(const SmallFiles&) = delete;
  SmallFiles& operator=(const SmallFiles&) = delete;
  ~SmallFiles() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    ::signal(SIGXFSZ, SIG_DFL);
  }

 private:
  rlimit before_{};
};

TEST(LocalBlobs, AFailedWriteIsNeverFinished) {
  const TempDir dir;
  const auto blobs = open(dir.path());
  {
    const SmallFiles full;
    auto writer = blobs->create().value();
    EXPECT_FALSE(writer->write("12345678"));
    EXPECT_FALSE(writer->write(""));
    EXPECT_FALSE(writer->finish());
  }
  EXPECT_EQ(filesIn(dir.path()), 0U);
}

struct TypeCase {
  std::string_view path;
  std::string_view head;
  std::string_view type;
};

TEST(ContentType, IsNeverOneThatRunsScripts) {
  using std::string_view_literals::operator""sv;
  const TypeCase cases[] = {
      {"plot.png", "\x89PNG\r\n\x1a\n..."sv, "image/png"},
      {"plot.txt", "\x89PNG\r\n\x1a\n..."sv, "image/png"},
      {"plot.png", "not a picture"sv, "text/plain; charset=utf-8"},
      {"a.html", "<!doctype html><script>"sv, "text/plain; charset=utf-8"},
      {"a.svg", "<svg xmlns='http://www.w3.org/2000/svg'>"sv, "text/plain; charset=utf-8"},
      {"a.xml", "<?xml version='1.0'?>"sv, "text/plain; charset=utf-8"},
      {"a.xhtml", "\xef\xbb\xbf<html>"sv, "text/plain; charset=utf-8"},
      {"a.js", "alert(1)"sv, "text/plain; charset=utf-8"},
      {"a.html", "\xff\xfe<\0h\0"sv, "application/octet-stream"},
      {"a.json", "{}"sv, "application/json"},
      {"A.CSV", "a,b\n"sv, "text/csv; charset=utf-8"},
      {"a.json", "\0\0"sv, "application/octet-stream"},
      {"a", ""sv, "text/plain; charset=utf-8"},
      {"a", "caf\xc3"sv, "text/plain; charset=utf-8"},
      {"a", "\xc3\x28"sv, "application/octet-stream"},
      {"a", "RIFF....WEBPVP8"sv, "image/webp"},
      {"a", "RIFF"sv, "text/plain; charset=utf-8"},
      {"a", "%PDF-1.7"sv, "application/pdf"},
      {"a",
       "\x7f"
       "ELF\2\1\1"sv,
       "application/octet-stream"},
  };
  for (const TypeCase& each : cases) {
    EXPECT_EQ(sniffContentType(each.path, each.head), each.type) << each.path;
  }
}

}  // namespace
}  // namespace cloister::artifacts
