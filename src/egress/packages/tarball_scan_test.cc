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

// npm runs the scripts of bundled packages, too.
TEST(TarballScanTest, FindsScriptsOfBundledPackages) {
  const std::string evil = R"({"scripts":{"install":"x"}})";
  for (const char* folder : {"node_modules/a", "node_modules/@s/a", "node_modules/a/node_modules/b",
                             "node_modules/@s/a/node_modules/@t/b"}) {
    const std::string place = std::string("package/") + folder;
    EXPECT_EQ(scanned(npmPackage(kPlain, tarEntry(place + "/package.json", evil))),
              "of a bundled package, it has the script install");
    EXPECT_EQ(scanned(npmPackage(kPlain, tarEntry(place + "/binding.gyp", "{}"))),
              std::string("its ") + folder + " has a binding.gyp");
  }
  for (const char* place : {"package/lib/package.json", "package/test/node_modules/a/package.json",
                            "package/node_modules/a/test/package.json"}) {
    EXPECT_EQ(scanned(npmPackage(kPlain, tarEntry(place, evil))), "") << place;
    EXPECT_EQ(scanned(npmPackage(kPlain, tarEntry(place, "{ no JSON"))), "") << place;
  }
}

// Each entry is a readme for one reader and a binding.gyp for another: with or without the prefix
// of POSIX, the slash of an empty one, the records of pax.
TEST(TarballScanTest, FindsWhatOneReaderCallsAScript) {
  constexpr size_t kMagic = 257;
  constexpr size_t kPrefix = 345;
  const std::string found = "it has a binding.gyp";
  const auto entry = [](const std::string& name, const std::vector<TarBytes>& odd) {
    return tarEntry(name, "{}", '0', true, odd);
  };
  const std::string readme = tarEntry("package/readme", "{}");
  const std::string gyp = tarEntry("package/binding.gyp", "{}");
  const auto pax = [](const std::string& record, char type) {
    return tarEntry("x", paxRecord(record), type);
  };
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"a global path, which npm ignores", pax("path=package/readme", 'g') + gyp},
      {"a global path, which others take", pax("path=package/binding.gyp", 'g') + readme},
      {"a path that is no UTF-8, which npm ignores", pax("path=package/\xff", 'x') + gyp},
      {"a prefix under another version, which npm ignores",
       entry("package/binding.gyp", {{kMagic + 6, "01"}, {kPrefix, "more/package"}})},
      {"a prefix under another version, which others take",
       entry("binding.gyp", {{kMagic + 6, "01"}, {kPrefix, "package"}})},
      {"an empty prefix whose last bytes are set", entry("binding.gyp", {{kPrefix + 130, "x"}})}};
  for (const auto& [what, more] : cases)
    EXPECT_EQ(scanned(npmPackage(kPlain, more)), found) << what;
}

// npm skips such a header alone, and reads the data behind it as headers.
TEST(TarballScanTest, RefusesDataThatAReaderTakesForHeaders) {
  constexpr size_t kLink = 157;
  const std::string hidden = tarEntry("package/binding.gyp", "{}");
  const std::vector<TarBytes> link = {{kLink, "target"}};
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"a file with a target", tarEntry("package/a", hidden, '0', true, link)},
      {"a file without a name", tarEntry("", hidden)},
      {"a file with a global name alone",
       tarEntry("g", paxRecord("path=package/a"), 'g') + tarEntry("", hidden)},
      {"a file with an empty name",
       tarEntry("x", paxRecord("path="), 'x') + tarEntry("package/a", hidden)},
      {"a folder's name", tarEntry("package/a/", hidden)},
      {"a folder's name by pax",
       tarEntry("x", paxRecord("path=package/a/"), 'x') + tarEntry("package/a", hidden)},
      {"a link without a target", tarEntry("package/a", "", '2')},
      {"a long name with a target", tarEntry("package/a", hidden, 'L', true, link)},
      {"a pax header without a name", tarEntry("", hidden, 'x')},
      {"a size before a long name", tarEntry("x", paxRecord("size=512"), 'x') +
                                        tarEntry("package/a", "package/b", 'L') + hidden},
      {"a record within a record",
       tarEntry("x", "41 comment=a\n28 path=package/binding.gyp\n", 'x') +
           tarEntry("package/a", "{}")}};
  for (const auto& [what, more] : cases)
    EXPECT_TRUE(scanned(npmPackage(kPlain, more)).starts_with("unreadable")) << what;
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
