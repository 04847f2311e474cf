// SPDX-License-Identifier: Apache-2.0
#include "cli/tar.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include "base/file.h"
#include "cli/fresh.h"
#include "cli/render/terminal.h"

namespace cloister::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class Unpacking : public testing::Test {
 protected:
  void SetUp() override { ASSERT_NE(::mkdtemp(dir_.data()), nullptr); }
  void TearDown() override { std::filesystem::remove_all(dir_); }

  // The bytes of an archive of the files made by `script`.
  std::string archive(const std::string& script) {
    const std::string from = dir_ + "/from";
    EXPECT_EQ(::mkdir(from.c_str(), 0755), 0);
    EXPECT_EQ(::system(("cd " + from + " && " + script).c_str()), 0);
    auto tar = Tar::packing(from);
    std::string bytes;
    for (std::string piece = *tar->read(); !piece.empty(); piece = *tar->read())
      bytes += piece;
    std::filesystem::remove_all(from);
    return bytes;
  }

  // Unpacks and checks the archive.
  Result<> unpack(const std::string& bytes) {
    FreshDirectory fresh = TRY(FreshDirectory::make(dir_ + "/to"));
    Tar tar = TRY(Tar::unpacking(fresh.path()));
    TRY(tar.write(bytes));
    TRY(tar.finish());
    TRY(checkUnpacked(fresh.path()));
    return fresh.keep();
  }

  std::string dir_ = testing::TempDir() + "tar-test.XXXXXX";
};

TEST_F(Unpacking, WhatWasPacked) {
  const auto done = unpack(archive("mkdir -p d/e && echo hi > d/f && ln -s /etc d/l"));
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(*base::listDir(dir_), std::vector<std::string>{"to"});
  EXPECT_THAT(*base::listDir(dir_ + "/to/d"), ElementsAre("e", "f", "l"));
  EXPECT_EQ(*base::readFile(dir_ + "/to/d/f"), "hi\n");
}

TEST_F(Unpacking, SpecialFilesAreRefusedAndNothingStays) {
  const auto done = unpack(archive("mkdir d && mkfifo d/p"));
  ASSERT_FALSE(done);
  EXPECT_THAT(done.error().message, HasSubstr("no file, directory or link"));
  EXPECT_THAT(*base::listDir(dir_), IsEmpty());
}

TEST_F(Unpacking, SetUserIdGoes) {
  ASSERT_TRUE(unpack(archive("touch s && chmod 6755 s")));
  struct stat status{};
  ASSERT_EQ(::stat((dir_ + "/to/s").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07000, 0u);
}

TEST_F(Unpacking, RubbishAndCutArchivesLeaveNothing) {
  EXPECT_FALSE(unpack(std::string(10'240, 'x')));
  EXPECT_FALSE(unpack(archive("head -c 100000 /dev/zero > f").substr(0, 50'000)));
  EXPECT_THAT(*base::listDir(dir_), IsEmpty());
}

TEST_F(Unpacking, OnlyWhereNothingIs) {
  ASSERT_EQ(::mkdir((dir_ + "/to").c_str(), 0755), 0);
  const std::string bytes = archive("touch f");
  ASSERT_TRUE(unpack(bytes));
  EXPECT_THAT(*base::listDir(dir_ + "/to"), ElementsAre("f"));
  EXPECT_THAT(unpack(bytes).error().message, HasSubstr("there already"));
}

TEST_F(Unpacking, AFileHasItsNameOnceItIsKept) {
  const std::string path = dir_ + "/f";
  {
    const auto dropped = FreshFile::make(path, 0600);
    ASSERT_TRUE(dropped && writeTo(dropped->fd(), "half"));
    EXPECT_FALSE(std::filesystem::exists(path));
  }
  EXPECT_THAT(*base::listDir(dir_), IsEmpty());
  auto kept = FreshFile::make(path, 0640);
  ASSERT_TRUE(kept && writeTo(kept->fd(), "whole") && kept->keep());
  EXPECT_EQ(*base::readFile(path), "whole");
}

}  // namespace
}  // namespace cloister::cli
