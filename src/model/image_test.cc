// SPDX-License-Identifier: Apache-2.0
#include "model/image.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cloister::model {
namespace {

using ::testing::HasSubstr;

Image example() {
  return {.name = "python-3.12",
          .digest = "sha256:" + std::string(64, 'a'),
          .source = "oci",
          .reference = "sha256:" + std::string(64, '0'),
          .env = {{"PATH", "/usr/bin:/bin"}, {"LANG", ""}},
          .size_bytes = 12'345,
          .files = 7,
          .created = "2026-01-02T03:04:05.678Z",
          .squashfs = true,
          .verified = VerifiedImage{.reference = "r.example/a@sha256:" + std::string(64, '0'),
                                    .key = "sha256:" + std::string(64, '1'),
                                    .sbom = {}}};
}

TEST(Image, IsReadAsItWasWritten) {
  Image image = example();
  EXPECT_EQ(parseImage(toJson(image)).value(), image);
  image.reference.clear();
  image.env.clear();
  image.verified.reset();
  EXPECT_EQ(parseImage(toJson(image)).value(), image);
}

TEST(Image, NamesAreBounded) {
  for (const char* good : {"a", "0", "python-3.12", "a_b.c-d"})
    EXPECT_TRUE(validImageName(good)) << good;
  EXPECT_TRUE(validImageName(std::string(63, 'x')));
  for (const char* bad : {"", "host", ".a", "-a", "_a", "A", "a/b", "a b", "..", "a\n", "ä"})
    EXPECT_FALSE(validImageName(bad)) << bad;
  EXPECT_FALSE(validImageName(std::string(64, 'x')));
}

TEST(Image, RefusesWhatIsNone) {
  const auto refused = [](auto change, const char* why) {
    base::json::object object = toJsonObject(example());
    change(object);
    const auto parsed = parseImage(base::toJson(object));
    ASSERT_FALSE(parsed) << why;
    EXPECT_THAT(parsed.error().message, HasSubstr(why));
  };
  using O = base::json::object;
  refused([](O& o) { o["name"] = "../x"; }, "name");
  refused([](O& o) { o.erase("name"); }, "name");
  refused([](O& o) { o["digest"] = "sha256:12"; }, "digest");
  refused([](O& o) { o["digest"] = "sha256:" + std::string(64, 'A'); }, "digest");
  refused([](O& o) { o["source"] = "the web"; }, "source");
  refused([](O& o) { o["reference"] = "x"; }, "reference");
  refused([](O& o) { o["files"] = -1; }, "files");
  refused([](O& o) { o["created"] = ""; }, "created");
  refused([](O& o) { o["squashfs"] = "yes"; }, "squashfs");
  refused([](O& o) { o["more"] = 1; }, "more");
  refused([](O& o) { o["verified"] = O(); }, "verified.reference");
  refused([](O& o) { o["verified"].as_object()["key"] = "x"; }, "verified.key");
  refused([](O& o) { o["verified"].as_object()["sbom"] = "sha256:1"; }, "verified.sbom");
  refused([](O& o) { o["verified"].as_object()["more"] = 1; }, "verified.more");
  refused([](O& o) { o["env"] = O{{"A=B", "c"}}; }, "env");
  refused([](O& o) { o["env"] = O{{"A", std::string_view("\0", 1)}}; }, "env.A");
  refused([](O& o) { o["env"] = O{{"A", 1}}; }, "env.A");
  refused([](O& o) { o["env"] = O{{"A", std::string(33'000, 'x')}}; }, "32768 bytes");
  refused(
      [](O& o) {
        for (int i = 0; i < 65; ++i)
          o["env"].as_object()["A" + std::to_string(i)] = "";
      },
      "at most 64");
  EXPECT_FALSE(parseImage("[]"));
  EXPECT_FALSE(parseImage(""));
}

}  // namespace
}  // namespace cloister::model
