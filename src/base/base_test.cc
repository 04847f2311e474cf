// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/clock.h"
#include "base/content_type.h"
#include "base/crypto.h"
#include "base/file.h"
#include "base/id.h"
#include "base/json.h"
#include "base/record_clock.h"

namespace cloister::base {
namespace {

TEST(Errno, SaysTheCause) {
  EXPECT_EQ(errnoError("reading", ENOENT).message, "reading: No such file or directory");
  EXPECT_EQ(errnoError("reading", ENOENT).code, Code::kNotFound);
  EXPECT_EQ(errnoError("writing", ENOSPC).code, Code::kNoSpace);
  for (const int none : {-1, 0x41000006}) {
    EXPECT_EQ(errnoError("reading", none).message, "reading: error " + std::to_string(none));
  }
}

TEST(Id, SortsByTimeAndIsRecognised) {
  const std::string a = newId("exec");
  EXPECT_TRUE(isId("exec", a)) << a;
  EXPECT_FALSE(isId("art", a));
  EXPECT_FALSE(isId("exec", a + "0"));
  EXPECT_NE(a, newId("exec"));
}

TEST(Clock, FormatsRfc3339) {
  EXPECT_EQ(formatTime(1'000'000'000'123'456), "2001-09-09T01:46:40.123Z");
  EXPECT_EQ(formatTime(0), "");
}

TEST(Clock, ARecordsTimesAreInOrderThoughTheWallClockIsSetBack) {
  const int64_t before = wallMicros();
  const RecordClock clock;
  const int64_t began = clock.now();
  EXPECT_GE(began, before);
  setWallOffset(-std::chrono::hours(1));
  EXPECT_LT(wallMicros(), before);
  EXPECT_GE(clock.now(), began);
  const Monotonic when = monotonicNow();
  EXPECT_EQ(clock.at(when + std::chrono::hours(2)) - clock.at(when), 7'200'000'000);
  const RecordClock after_restart(began);
  EXPECT_GE(after_restart.now(), began);
  EXPECT_LT(RecordClock(0).now(), began);
  setWallOffset(Micros(0));
}

TEST(Clock, ReadsTimes) {
  EXPECT_EQ(parseTime("2001-09-09T01:46:40Z"), 1'000'000'000'000'000);
  EXPECT_EQ(parseTime("2001-09-09t01:46:40.1234567z"), 1'000'000'000'123'456);
  EXPECT_EQ(parseTime("2001-09-09 03:16:40+01:30"), 1'000'000'000'000'000);
  EXPECT_EQ(parseTime("2001-09-08T20:46:40-05:00"), 1'000'000'000'000'000);
  EXPECT_EQ(parseTime("1970-01-02"), 86'400'000'000);
  EXPECT_EQ(parseTime("2024-02-29"), 1'709'164'800'000'000);
  for (const char* wrong :
       {"", "2001", "2001-9-9", "2001-02-29", "2001-13-01", "2001-09-09T", "2001-09-09T01:46",
        "2001-09-09T01:46:40", "2001-09-09T24:00:00Z", "2001-09-09T01:60:00Z", "1969-12-31",
        "2001-09-09T01:46:40.Z", "2001-09-09T01:46:40Zx", "2001-09-09T01:46:40+1:00",
        "2001-09-09T01:46:40+24:00", "yesterday", "20010909T014640Z"})
    EXPECT_FALSE(parseTime(wrong)) << wrong;
}

TEST(Crypto, Sha256OfTheStandard) {
  EXPECT_EQ(sha256Hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(md5Hex("abc"), "900150983cd24fb0d6963f7d28e17f72");
  Sha256 pieces;
  pieces.update("a");
  EXPECT_EQ(pieces.hex(), sha256Hex("a"));
  pieces.update("bc");
  EXPECT_EQ(pieces.hex(), sha256Hex("abc"));
}

TEST(Crypto, Base64RoundTripsAndIsStrict) {
  for (const std::string text : {"", "f", "fo", "foo", "foob"}) {
    EXPECT_EQ(fromBase64(toBase64(text)).value(), text);
  }
  for (const char* bad : {"Zg", "Zh==", "Zm9=", "Z===", "Zg==Zg==", "Zm 9", "====", "Zm9v\n"}) {
    EXPECT_FALSE(fromBase64(bad)) << bad;
  }
}

TEST(Crypto, SignsAndRefuses) {
  const SigningKey key = SigningKey::generate();
  const std::string signature = key.sign("permit");
  EXPECT_TRUE(key.verifyKey().verify("permit", signature));
  EXPECT_FALSE(key.verifyKey().verify("permit2", signature));
  EXPECT_FALSE(SigningKey::generate().verifyKey().verify("permit", signature));
  EXPECT_FALSE(key.verifyKey().verify("permit", signature.substr(1)));
  const SigningKey again = SigningKey::fromBase64(key.base64()).value();
  EXPECT_EQ(again.sign("permit"), signature);
}

TEST(Json, RefusesWhatIsNotOneCleanDocument) {
  for (const char* bad : {"", "{", "{} x", R"({"a":1,"a":2})", R"({"a":1,"\u0061":2})", "1e999",
                          R"("\ud800")", "\"\xff\"", "[01]"}) {
    EXPECT_FALSE(parseJson(bad)) << bad;
  }
  EXPECT_FALSE(parseJson(std::string(100'000, '[')));
  EXPECT_EQ(parseJson("[1]", {.max_bytes = 2}).error().code, Code::kTooLarge);
  EXPECT_EQ(parseJson("[1,2,3]", {.max_values = 3}).error().code, Code::kTooLarge);
  EXPECT_TRUE(parseJson(R"([1,"[,{\",{"])", {.max_values = 3}));
  EXPECT_TRUE(parseJson(R"({"a":":\":","b":[{"a":1}]})"));
}

TEST(Json, ReaderNamesTheField) {
  const json::value value = parseJson(R"({"n":3,"s":"x","f":1.5,"u":1})").value();
  ObjectReader reader(value.get_object(), "run");
  EXPECT_EQ(reader.integer("n", 0, 10).value(), 3);
  EXPECT_EQ(reader.integer("n", 4, 10).error().field, "run.n");
  EXPECT_EQ(reader.integer("f", 0, 10).error().field, "run.f");
  EXPECT_EQ(reader.integer("s", 0, 10).error().field, "run.s");
  EXPECT_EQ(reader.text("s").value(), "x");
  EXPECT_EQ(reader.text("absent").value(), std::nullopt);
  EXPECT_EQ(reader.finish().error().field, "run.u");
}

TEST(Json, Utf8IsRfc3629) {
  EXPECT_TRUE(isUtf8("a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"));
  for (const char* bad : {"\x80", "\xc0\xaf", "\xe0\x80\xaf", "\xed\xa0\x80", "\xf5\x80\x80\x80",
                          "\xc3", "\xf4\x90\x80\x80"}) {
    EXPECT_FALSE(isUtf8(bad));
  }
}

TEST(File, WritesAtomicallyWithAnExactMode) {
  const std::string dir = testing::TempDir() + newId("file");
  ASSERT_TRUE(makeDirs(dir + "/a/b", 0700));
  ASSERT_TRUE(writeFileAtomic(dir + "/a/b/k", "secret", 0600));
  EXPECT_EQ(readFile(dir + "/a/b/k").value(), "secret");
  EXPECT_EQ(readFile(dir + "/a/b/k", 3).error().code, Code::kTooLarge);
  EXPECT_EQ(readFile(dir + "/none").error().code, Code::kNotFound);
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
}  // namespace cloister::base
