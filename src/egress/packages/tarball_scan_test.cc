// SPDX-License-Identifier: Apache-2.0
#include "egress/packages/tarball_scan.h"

#include <boost/beast/zlib/deflate_stream.hpp>
#include <gtest/gtest.h>

#include "egress/packages/packed_testing.h"

namespace cloister::egress {
namespace {

constexpr std::string_view kPlain = R"({"name":"demo","version":"1.0.0"})";

// The result of the scan: "", the scripts, or "unreadable: …". In pieces of `step` bytes.
std::string scanned(std::string_view packed, size_t step = 16 << 10) {
  TarballScan scan;
  Result<> good;
  for (size_t at = 0; at < packed.size() && good; at += step)
    good = scan.feed(packed.substr(at, step));
  if (good) good = scan.end();
  return good ? scan.scripts() : "unreadable: " + good.error().message;
}

std::string paxRecord(const std::string& text) {
  size_t length = text.size() + 3;
  if (std::to_string(length).size() > 1) ++length;
  return std::to_string(length) + " " + text + "\n";
}

TEST(TarballScanTest, FindsNothingInAPlainPackage) {
  const std::string packed = npmPackage(kPlain, tarEntry("package/index.js", "1"));
  for (const size_t step : {size_t{1}, size_t{7}, size_t{1000}})
    EXPECT_EQ(scanned(packed, step), "") << step;
}

TEST(TarballScanTest, FindsScripts) {
  for (const std::string script : {"preinstall", "install", "postinstall"}) {
    EXPECT_EQ(scanned(npmPackage(R"({"scripts":{")" + script + R"(":"x"}})")),
              "it has the script " + script);
  }
  EXPECT_EQ(scanned(npmPackage(R"({"scripts":{"test":"x"}})")), "");
}

TEST(TarballScanTest, FindsBindingGyp) {
  for (const char* path : {"package/binding.gyp", "other/binding.gyp", "package/./binding.gyp",
                           "package//binding.gyp"}) {
    EXPECT_EQ(scanned(npmPackage(kPlain, tarEntry(path, "{}"))), "it has a binding.gyp") << path;
  }
  EXPECT_EQ(scanned(npmPackage(kPlain, tarEntry("package/src/binding.gyp", "{}"))), "");
  EXPECT_EQ(scanned(npmPackage(kPlain, tarEntry("binding.gyp", "{}"))), "");
}

TEST(TarballScanTest, ReadsLongNames) {
  const std::string evil = R"({"scripts":{"install":"x"}})";
  const std::string pax = tarEntry("PaxHeader/x", paxRecord("path=package/package.json"), 'x');
  EXPECT_EQ(scanned(npmPackage(kPlain, pax + tarEntry("package/readme", evil))),
            "it has the script install");
  const std::string gnu = tarEntry("././@LongLink", std::string("package/package.json\0", 21), 'L');
  EXPECT_EQ(scanned(npmPackage(kPlain, gnu + tarEntry("package/readme", evil))),
            "it has the script install");
  const std::string global = tarEntry("g", paxRecord("path=package/package.json"), 'g');
  EXPECT_EQ(scanned(npmPackage(kPlain, global + tarEntry("package/readme", evil))),
            "it has the script install");
}

TEST(TarballScanTest, ASizeOfPaxCounts) {
  const std::string hidden = tarEntry("package/binding.gyp", "{}");
  const std::string pax = tarEntry("PaxHeader/x", paxRecord("size=" + std::to_string(512)), 'x');
  // Without pax the next header would be the hidden entry.
  EXPECT_EQ(scanned(npmPackage(kPlain, pax + tarEntry("package/a", "") + hidden)),
            "unreadable: its archive cannot be read: a malformed header");
}

TEST(TarballScanTest, ReadsEveryMemberOfGzip) {
  const std::string second = gzipped(tarEntry("package/binding.gyp", "{}"));
  EXPECT_EQ(scanned(npmPackage(kPlain) + second), "it has a binding.gyp");
}

TEST(TarballScanTest, RefusesWhatTwoReadersCouldReadDifferently) {
  for (const std::string& more :
       {tarEntry("package/a", "x", '0', false), tarEntry("package/a", "x", 'S'),
        tarEntry("package/a", "x", '5'), tarEntry("g", paxRecord("size=1"), 'g'),
        tarEntry("x", "7 path=", 'x'), tarEntry("x", "99 path=a\n", 'x')}) {
    EXPECT_TRUE(scanned(npmPackage(kPlain, more)).starts_with("unreadable")) << more.substr(0, 20);
  }
  const std::string whole = npmPackage(kPlain);
  for (const std::string& packed :
       {std::string("PK\3\4"), std::string(), whole.substr(0, whole.size() - 20),
        whole + "trailing", whole.substr(0, 5), gzipped(tarEntry("package/a", "x")),
        npmPackage("{"), npmPackage("[]"),
        npmPackage(R"({"scripts":{},"scripts":{"install":"x"}})")}) {
    EXPECT_TRUE(scanned(packed).starts_with("unreadable")) << packed.size();
  }
}

TEST(TarballScanTest, EndsABomb) {
  // Zeros in the smallest form: a packed byte stands for a thousand.
  namespace zlib = boost::beast::zlib;
  const std::string zeros(64 << 20, '\0');
  std::string packed(1 << 20, '\0');
  zlib::deflate_stream stream;
  zlib::z_params params;
  params.next_in = zeros.data();
  params.avail_in = zeros.size();
  params.next_out = packed.data();
  params.avail_out = packed.size();
  boost::system::error_code error;
  stream.write(params, zlib::Flush::finish, error);
  packed.resize(packed.size() - params.avail_out);
  ASSERT_GT(zeros.size() / packed.size(), 500U);
  const std::string head("\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03", 10);
  EXPECT_EQ(scanned(head + packed),
            "unreadable: its archive cannot be read: it unpacks to far more bytes than it has");
}

}  // namespace
}  // namespace cloister::egress
