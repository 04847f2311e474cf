// SPDX-License-Identifier: Apache-2.0
#include "base/big_endian.h"

#include <gtest/gtest.h>

namespace cloister::base {
namespace {

using namespace std::literals;

TEST(BigEndian, IsReadAsWritten) {
  BigEndianWriter writer;
  writer.u8(0xfe);
  writer.u16(0xfedc);
  writer.u32(0xfedcba98);
  writer.raw("text");
  EXPECT_EQ(writer.size(), 11U);
  const std::string bytes = writer.take();
  EXPECT_EQ(bytes, "\xfe\xfe\xdc\xfe\xdc\xba\x98text");
  BigEndianReader reader(bytes);
  EXPECT_EQ(reader.u8(), 0xfe);
  EXPECT_EQ(reader.u16(), 0xfedc);
  EXPECT_EQ(reader.u32(), 0xfedcba98);
  EXPECT_FALSE(reader.done());
  EXPECT_EQ(reader.take(4), "text");
  EXPECT_TRUE(reader.done());
  EXPECT_EQ(BigEndianReader("\1\2\3").u24(), 0x010203U);
}

TEST(BigEndian, StopsAtTheFirstFault) {
  BigEndianReader reader("\1\2\3"sv);
  EXPECT_EQ(reader.u32(), 0U);
  EXPECT_FALSE(reader.ok());
  EXPECT_EQ(reader.u8(), 0);  // although there was a byte
  EXPECT_EQ(reader.take(0), "");
  EXPECT_TRUE(reader.empty());
  EXPECT_FALSE(reader.done());
  BigEndianReader empty("");
  EXPECT_EQ(empty.take(0), "");
  EXPECT_TRUE(empty.done());
  EXPECT_EQ(empty.take(SIZE_MAX), "");
  EXPECT_FALSE(empty.ok());
}

}  // namespace
}  // namespace cloister::base
