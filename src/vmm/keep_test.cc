// SPDX-License-Identifier: Apache-2.0
#include "vmm/keep.h"

#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include <gtest/gtest.h>

#include "wire/driver.h"
#include "wire/frame.h"

namespace cloister::vmm {
namespace {

constexpr size_t kPage = 4'096;

std::string order(uint16_t type, uint32_t channel = 0, uint32_t length = 0) {
  std::string bytes(wire::kHeaderBytes, '\0');
  wire::encodeHeader(bytes.data(), type, channel, length);
  return bytes;
}

TEST(Keep, TakesOneOrderAndNothingElse) {
  constexpr auto kKeep = static_cast<uint16_t>(wire::driver::ToDriver::kKeep);
  const auto takes = [](const std::string& bytes) {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    const Fd ours(ends[0]);
    Fd theirs(ends[1]);
    EXPECT_EQ(::send(theirs.get(), bytes.data(), bytes.size(), 0),
              static_cast<ssize_t>(bytes.size()));
    theirs.reset();
    return takeOrder(ours.get());
  };
  EXPECT_TRUE(takes(order(kKeep)));
  EXPECT_FALSE(takes(""));
  EXPECT_FALSE(takes(order(kKeep).substr(0, 11)));
  EXPECT_FALSE(takes(order(kKeep + 1)));
  EXPECT_FALSE(takes(order(kKeep, 1)));
  EXPECT_FALSE(takes(order(kKeep, 0, 1)));
  EXPECT_FALSE(takes(std::string(12, '\xff')));
}

TEST(Keep, AnswersInOneFrame) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
  const Fd ours(ends[0]);
  const Fd theirs(ends[1]);
  char bytes[4'096];
  answerOrder(ours.get(), nullptr);
  EXPECT_EQ(::recv(theirs.get(), bytes, sizeof bytes, 0), ssize_t{wire::kHeaderBytes});
  Fault fault;
  fault.add(std::string(5'000, 'x'));
  answerOrder(ours.get(), &fault);
  const ssize_t size = ::recv(theirs.get(), bytes, sizeof bytes, 0);
  wire::FrameHeader header;
  ASSERT_TRUE(wire::decodeHeader({bytes, wire::kHeaderBytes}, header));
  EXPECT_EQ(header.type, static_cast<uint16_t>(wire::driver::FromDriver::kNotKept));
  EXPECT_EQ(static_cast<size_t>(size), wire::kHeaderBytes + header.length);
  EXPECT_LE(header.length, wire::driver::kMaxReason);
}

class EmptyPages : public testing::Test {
 protected:
  size_t blocks() {
    struct stat status{};
    EXPECT_EQ(::fstat(file_.get(), &status), 0);
    return static_cast<size_t>(status.st_blocks) * 512;
  }
  void drop() { dropEmptyPages(("/proc/self/fd/" + std::to_string(file_.get())).c_str()); }

  Fd file_{::memfd_create("pages", 0)};
};

TEST_F(EmptyPages, TakeNoMemoryAndTheOthersStay) {
  std::string content(400 * kPage, '\0');
  for (const size_t page : {0U, 7U, 63U, 64U, 200U, 399U})
    content[page * kPage + page % kPage] = 'x';
  ASSERT_EQ(::pwrite(file_.get(), content.data(), content.size(), 0),
            static_cast<ssize_t>(content.size()));
  ASSERT_GE(blocks(), content.size());
  drop();
  EXPECT_LE(blocks(), 6 * kPage);
  std::string after(content.size() + 1, '?');
  ASSERT_EQ(::pread(file_.get(), after.data(), after.size(), 0),
            static_cast<ssize_t>(content.size()));
  after.pop_back();
  EXPECT_TRUE(after == content);
}

TEST_F(EmptyPages, OfWhatIsSealedOrNotThereAreLeftAlone) {
  drop();
  EXPECT_EQ(blocks(), 0U);
  dropEmptyPages("/nonexistent");
  ASSERT_EQ(::pwrite(file_.get(), "tail", 4, 2 * kPage), 4);
  drop();
  char tail[4];
  EXPECT_EQ(::pread(file_.get(), tail, sizeof tail, 2 * kPage), 4);
  EXPECT_EQ(std::string(tail, 4), "tail");
}

}  // namespace
}  // namespace cloister::vmm
