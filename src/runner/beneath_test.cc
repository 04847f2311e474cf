// SPDX-License-Identifier: Apache-2.0
#include "runner/beneath.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "base/fd.h"
#include "wire/files_codec.h"
#include "wire/string_writer.h"

namespace cloister::runner {
namespace {

class BeneathTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string path = std::filesystem::temp_directory_path() / "cloister-beneath.XXXXXX";
    ASSERT_NE(mkdtemp(path.data()), nullptr);
    path_ = path;
    dir_.reset(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    ASSERT_TRUE(dir_);
  }
  void TearDown() override { std::filesystem::remove_all(path_); }

  std::string path_;
  base::Fd dir_;
};

// The kernel gives the holder of a lease 45 s to release the file.
TEST_F(BeneathTest, ALeaseIsAFailureOfItsOwn) {
  base::Fd leased(openat(dir_.get(), "leased", O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_TRUE(leased);
  const auto before = signal(SIGIO, SIG_IGN);  // the kernel's request to release
  ASSERT_EQ(fcntl(leased.get(), F_SETLEASE, F_WRLCK), 0) << errno;
  EXPECT_EQ(openBeneath(dir_.get(), "leased", O_RDONLY | O_NONBLOCK), -1);
  const int error = errno;
  EXPECT_EQ(error, ENOLCK);
  wire::StringWriter said;
  said.u32(static_cast<uint32_t>(error));
  said.bytes("leased");
  const Error told = wire::files::failure(said.take());
  EXPECT_EQ(told.code, Code::kUnavailable);
  EXPECT_TRUE(told.message.contains("has a lease on a file")) << told.message;
  EXPECT_EQ(fcntl(leased.get(), F_SETLEASE, F_UNLCK), 0);
  EXPECT_TRUE(base::Fd(openBeneath(dir_.get(), "leased", O_RDONLY | O_NONBLOCK)));
  signal(SIGIO, before);
}

}  // namespace
}  // namespace cloister::runner
