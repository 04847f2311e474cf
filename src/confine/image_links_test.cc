// SPDX-License-Identifier: Apache-2.0
#include "confine/image_links.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>

#include "base/id.h"

namespace cloister::runtime {
namespace {

namespace fs = std::filesystem;

TEST(ImageLinks, AreThoseToProgramsOfAnotherName) {
  const fs::path root = fs::temp_directory_path() / ("cloister-links-" + base::randomHex(8));
  for (const char* const directory : {"usr/bin", "usr/local/bin", "usr/sbin", "etc/alternatives"})
    fs::create_directories(root / directory);
  fs::create_symlink("usr/bin", root / "bin");
  const auto program = [&](const char* path) { std::ofstream(root / path) << "x"; };
  const auto link = [&](const char* to, const char* path) { fs::create_symlink(to, root / path); };
  program("usr/bin/mawk");
  program("usr/bin/busybox");
  program("usr/bin/python3.11");
  link("/etc/alternatives/awk", "usr/bin/awk");
  link("/usr/bin/mawk", "etc/alternatives/awk");
  link("../../../../../usr/bin/python3.11", "usr/local/bin/python3");
  link("/usr/bin/mawk", "usr/sbin/mawk");  // the same name
  link("busybox", "usr/bin/sh");           // a multi-call program goes by its link's name
  link("nothing", "usr/bin/dangling");
  link("/etc", "usr/bin/directory");
  link("loop", "usr/bin/loop");
  link("/proc/self/exe", "usr/bin/outside");  // not in the image
  EXPECT_THAT(programLinks(root.string()),
              testing::ElementsAre(model::ProgramLink{"awk", "mawk"},
                                   model::ProgramLink{"python3", "python3.11"}));
  EXPECT_TRUE(programLinks((root / "etc").string()).empty());
  EXPECT_TRUE(programLinks("/no/such/image").empty());
  fs::remove_all(root);
}

}  // namespace
}  // namespace cloister::runtime
