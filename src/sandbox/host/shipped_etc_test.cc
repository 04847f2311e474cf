// SPDX-License-Identifier: Apache-2.0
#include "sandbox/host/shipped_etc.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/crypto.h"
#include "base/id.h"
#include "confine/mount_plan.h"

namespace cloister::runtime {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

const std::string kDigest(32, 'a');

TEST(ShippedEtc, NamesOfWhatIsInstalledAreRead) {
  const std::string status =
      "Package: one\nStatus: install ok installed\nVersion: 1\nConffiles:\n /etc/one " + kDigest +
      "\n /etc/with space " + kDigest + "\n /etc/gone " + kDigest + " obsolete\n /usr/lib/x " +
      kDigest + "\n /etc/../root/x " + kDigest + "\n /etc/short abc\n" +
      "Description: x\n /etc/not-a-file " + kDigest + "\n\n" +
      "Package: two\nStatus: deinstall ok config-files\nConffiles:\n /etc/two " + kDigest + "\n\n" +
      "Package: three\nConffiles:\n /etc/three " + kDigest + "\nStatus: hold ok installed\n" +
      "Conffiles:\n /etc/held " + kDigest;
  EXPECT_THAT(namesInDpkgStatus(status),
              ElementsAre(ShippedName{"/etc/one", kDigest}, ShippedName{"/etc/with space", kDigest},
                          ShippedName{"/etc/held", kDigest}));
  EXPECT_THAT(namesInDpkgStatus(""), IsEmpty());
  EXPECT_THAT(namesInUcfHashes(kDigest + "  /etc/R/Renviron\n" + kDigest + "  /var/x\nx\n"),
              ElementsAre(ShippedName{"/etc/R/Renviron", kDigest}));
}

class ShippedRoot : public ::testing::Test {
 protected:
  ShippedRoot() {
    fs::create_directories(root_ / "var/lib/dpkg");
    fs::create_directories(root_ / "etc/deep");
  }
  ~ShippedRoot() override { fs::remove_all(root_); }

  void put(const std::string& path, const std::string& content, mode_t mode = 0644) {
    std::ofstream(root_ / path) << content;
    ::chmod((root_ / path).c_str(), mode);
  }
  // Adds a file as shipped by a package.
  void ship(const std::string& path, const std::string& content) {
    status_ += " /" + path + " " + base::md5Hex(content) + "\n";
    put("var/lib/dpkg/status", status_);
  }
  std::vector<std::string> paths() {
    std::vector<std::string> all;
    for (const ShippedFile& each : shippedEtc(root_).value_or(std::vector<ShippedFile>()))
      all.push_back(each.path);
    return all;
  }

  const fs::path root_ = "/tmp/cloister-test-" + base::randomHex(8);
  std::string status_ = "Package: p\nStatus: install ok installed\nConffiles:\n";
};

TEST_F(ShippedRoot, OnlyWhatNobodyHasChangedAndAnybodyMayRead) {
  EXPECT_FALSE(shippedEtc(root_)) << "no dpkg";
  ship("etc/changed", "shipped");
  put("etc/changed", "token = secret");
  ship("etc/deep/kept", "shipped");
  put("etc/deep/kept", "shipped");
  ship("etc/closed", "shipped");
  put("etc/closed", "shipped", 0640);
  ship("etc/link", "of the machine");
  put("etc/machine", "of the machine");
  fs::create_symlink("machine", root_ / "etc/link");
  ship("etc/missing", "shipped");
  put("etc/own", "nobody ships it");
  const auto files = shippedEtc(root_);
  ASSERT_TRUE(files);
  ASSERT_EQ(files->size(), 1U);
  EXPECT_EQ(files->front().path, "etc/deep/kept");
  EXPECT_EQ(files->front().content, "shipped");
  EXPECT_GT(files->front().modified, 0);
}

TEST_F(ShippedRoot, LinksLeadNowhereElse) {
  fs::create_directories(root_ / "etc");
  fs::create_symlink("/proc/self", root_ / "etc/self");
  fs::create_symlink("../../../../../../etc", root_ / "etc/up");
  ship("etc/self/status", "x");
  put("etc/plain", "shipped");
  ship("etc/up/plain", "shipped");
  EXPECT_THAT(paths(), ElementsAre("etc/up/plain")) << "within the image";
}

// Shipped files become part of a root, and the rest of /etc does not.
TEST_F(ShippedRoot, ItIsInTheRootOfASandbox) {
  fs::create_directories(root_ / "etc/alternatives");
  fs::create_directories(root_ / "usr");
  fs::create_symlink("/usr/bin/mawk", root_ / "etc/alternatives/awk");
  fs::create_symlink("/usr/share/man/man1/mawk.1.gz", root_ / "etc/alternatives/awk.1.gz");
  put("etc/alternatives/notes", "of the machine");
  ship("etc/deep/kept", "shipped");
  put("etc/deep/kept", "shipped");
  ship("etc/hostname", "shipped");
  put("etc/hostname", "shipped");
  const RootSource source{.image_root = root_, .layered = false, .etc = shippedEtc(root_)};
  std::vector<std::string> targets;
  for (const MountStep& step : rootSteps(source)) {
    const bool made = step.op == MountStep::Op::kFile && step.content == "shipped";
    if (made || step.source.starts_with("/usr/")) targets.push_back(step.target);
  }
  EXPECT_THAT(targets, ElementsAre("etc/alternatives/awk", "etc/deep/kept"));
}

}  // namespace
}  // namespace cloister::runtime
