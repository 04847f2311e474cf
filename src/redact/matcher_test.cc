// SPDX-License-Identifier: Apache-2.0
#include "redact/matcher.h"

#include <random>

#include <gtest/gtest.h>

namespace cloister::redact {
namespace {

// Bytes that every coding escapes, two characters beyond ASCII, one beyond 16 bits.
const std::string kValue = "s3cr\"t/+ \\%41\xC3\xA9\xE2\x82\xAC\xF0\x9F\x94\x91?&=end";
const std::string kPlain = "ghp_16C7e42F292c6912E7710c838347Ae178B4a";

std::string base64(std::string_view bytes, bool url = false) {
  const std::string_view alphabet =
      url ? "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
          : "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t group = 0;
    const size_t some = std::min(bytes.size() - i, size_t{3});
    for (size_t j = 0; j < 3; ++j) {
      group = group << 8 | (j < some ? static_cast<unsigned char>(bytes[i + j]) : 0U);
    }
    for (size_t j = 0; j <= some; ++j)
      text += alphabet[group >> (18 - 6 * j) & 63];
    if (!url) text.append(3 - some, '=');
  }
  return text;
}

std::string hex(std::string_view bytes, std::string_view before, bool upper = false) {
  const std::string_view digits = upper ? "0123456789ABCDEF" : "0123456789abcdef";
  std::string text;
  for (const char each : bytes) {
    const auto byte = static_cast<unsigned char>(each);
    text.append(before).append({digits[byte >> 4], digits[byte & 15]});
  }
  return text;
}

std::string percent(std::string_view bytes, std::string_view kept, bool upper) {
  std::string text;
  for (const char each : bytes) {
    const bool keeps = std::isalnum(static_cast<unsigned char>(each)) != 0 ||
                       kept.find(each) != std::string_view::npos;
    text += keeps ? std::string(1, each) : hex({&each, 1}, "%", upper);
  }
  return text;
}

std::string form(std::string_view bytes) {
  std::string text;
  for (const char each : bytes)
    text += each == ' ' ? "+" : percent({&each, 1}, "", true);
  return text;
}

// The code units of UTF-8.
std::u16string utf16(std::string_view bytes) {
  std::u16string units;
  for (size_t i = 0; i < bytes.size();) {
    const auto lead = static_cast<unsigned char>(bytes[i]);
    const size_t length = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    char32_t point = length == 1 ? lead : lead & (0x7FU >> length);
    for (size_t j = 1; j < length; ++j)
      point = point << 6 | (bytes[i + j] & 0x3F);
    i += length;
    if (point < 0x10000) {
      units += static_cast<char16_t>(point);
    } else {
      units += static_cast<char16_t>(0xD800 + ((point - 0x10000) >> 10));
      units += static_cast<char16_t>(0xDC00 + ((point - 0x10000) & 0x3FF));
    }
  }
  return units;
}

std::string utf16Bytes(std::string_view bytes, bool little) {
  std::string text;
  for (const char16_t unit : utf16(bytes)) {
    const char low = static_cast<char>(unit & 0xFF);
    const char high = static_cast<char>(unit >> 8);
    text.append({little ? low : high, little ? high : low});
  }
  return text;
}

std::string allEscaped(std::string_view bytes, bool upper) {
  std::string text;
  for (const char16_t unit : utf16(bytes)) {
    text +=
        hex(utf16Bytes("", false), "") + "\\u" +
        hex(std::string{static_cast<char>(unit >> 8), static_cast<char>(unit & 0xFF)}, "", upper);
  }
  return text;
}

std::string escapedSlashes(std::string text) {
  for (size_t at = 0; (at = text.find('/', at)) != std::string::npos; at += 2)
    text.insert(at, "\\");
  return text;
}

std::string lines(const std::string& text, size_t width, const std::string& newline) {
  std::string broken;
  for (size_t i = 0; i < text.size(); i += width) {
    broken += (i == 0 ? "" : newline) + text.substr(i, width);
  }
  return broken;
}

// The least that RFC 8259 section 7 escapes.
std::string jsonString(std::string_view value) {
  std::string text;
  for (const char each : value) {
    if (each == '"' || each == '\\') text += '\\';
    text += each;
  }
  return text;
}

struct Coded {
  std::string coding;
  std::string text;
};

std::vector<Coded> codings(const std::string& value) {
  std::vector<Coded> all = {
      {"raw", value},
      {"hex", hex(value, "")},
      {"upper hex", hex(value, "", true)},
      {"hex with colons", hex(value, ":").substr(1)},
      {"hex of od", lines(hex(value, " ").substr(1), 47, "\n")},
      {"hex of xxd -p", lines(hex(value, ""), 60, "\n")},
      {"escapes of C", hex(value, "\\x")},
      {"percent", percent(value, "-._~", true)},
      {"lower percent", percent(value, "-._~", false)},
      {"percent, slashes kept", percent(value, "-._~/", true)},
      {"percent of JavaScript", percent(value, "-._~!'()*", true)},
      {"percent of all", hex(value, "%", true)},
      {"form", form(value)},
      {"JSON", jsonString(value)},
      {"JSON, slashes escaped", escapedSlashes(jsonString(value))},
      {"JSON, all escaped", allEscaped(value, false)},
      {"JSON, all escaped, upper", allEscaped(value, true)},
      {"UTF-16LE", utf16Bytes(value, true)},
      {"UTF-16BE", utf16Bytes(value, false)},
  };
  for (const bool url : {false, true}) {
    for (const std::string before : {"", "a", "ab"}) {
      for (const std::string after : {"", "y", "yz"}) {
        const std::string text = base64(before + value + after, url);
        const std::string which = (url ? "base64url " : "base64 ") + std::to_string(before.size()) +
                                  std::to_string(after.size());
        all.push_back({which, text});
        all.push_back({which + " in lines", lines(text, 19, "\r\n")});
      }
    }
  }
  return all;
}

std::shared_ptr<const Patterns> patterns() {
  return Patterns::make({{"VALUE", kValue}, {"PLAIN", kPlain}});
}

class EachValue : public testing::TestWithParam<std::pair<std::string, std::string>> {};

// The text between "<" and ">" is replaced whole, except characters of base64 that hold bytes of
// the neighbours alone, padding, and a line break.
void expectOnlyTheMarker(const std::string& text, const std::string& name) {
  const std::string marker = "[secret " + name + "]";
  const size_t at = text.find(marker);
  ASSERT_NE(at, std::string::npos) << text;
  EXPECT_EQ(text.find(marker, at + 1), std::string::npos) << text;
  EXPECT_LE(text.size(), marker.size() + 2 + 8) << text;
  EXPECT_TRUE(text.starts_with("<") && text.ends_with(">")) << text;
}

TEST_P(EachValue, IsFoundInEachCodingAtEachSplit) {
  const auto& [name, value] = GetParam();
  const auto all = patterns();
  for (const Coded& each : codings(value)) {
    SCOPED_TRACE(each.coding);
    const std::string text = "<" + each.text + ">";
    EXPECT_EQ(all->find(text), name);
    const std::string whole = all->redacted(text);
    expectOnlyTheMarker(whole, name);
    for (size_t split = 0; split <= text.size(); ++split) {
      Stream stream(all);
      std::string safe = stream.feed(text.substr(0, split));
      safe += stream.feed(text.substr(split));
      safe += stream.finish();
      ASSERT_EQ(safe, whole) << split;
      ASSERT_EQ(stream.hits(), 1U);
      ASSERT_EQ(stream.firstName(), name);
    }
  }
}

// Whoever refuses a stream has to know before the last bytes are passed on.
TEST_P(EachValue, CountsAsSoonAsItIsComplete) {
  const auto& [name, value] = GetParam();
  for (const Coded& each : codings(value)) {
    Stream stream(patterns());
    stream.feed(each.text);
    EXPECT_EQ(stream.hits(), 1U) << each.coding;
    EXPECT_EQ(stream.firstName(), name) << each.coding;
  }
}

TEST_P(EachValue, IsFoundByteByByteAtEachAlignment) {
  const auto& [name, value] = GetParam();
  const auto all = patterns();
  for (const Coded& each : codings(value)) {
    for (size_t before = 0; before < 5; ++before) {
      SCOPED_TRACE(each.coding + " after " + std::to_string(before));
      Stream stream(all);
      std::string safe;
      const std::string text = std::string(before, '.') + each.text;
      for (const char byte : text)
        safe += stream.feed({&byte, 1});
      safe += stream.finish();
      ASSERT_EQ(stream.hits(), 1U) << safe;
      ASSERT_TRUE(safe.contains("[secret " + name + "]")) << safe;
    }
  }
}

TEST_P(EachValue, IsNotFoundWhereAByteIsMissing) {
  const auto& [name, value] = GetParam();
  const auto all = patterns();
  for (const Coded& each : codings(value.substr(1))) {
    EXPECT_EQ(all->find(each.text), "") << each.coding;
    EXPECT_EQ(all->redacted(each.text), each.text) << each.coding;
  }
}

INSTANTIATE_TEST_SUITE_P(Matcher, EachValue,
                         testing::Values(std::pair{"VALUE", kValue}, std::pair{"PLAIN", kPlain}),
                         [](const auto& each) { return each.param.first; });

std::string inPieces(Stream& stream, const std::string& text, size_t piece) {
  std::string safe;
  for (size_t i = 0; i < text.size(); i += piece)
    safe += stream.feed(text.substr(i, piece));
  return safe + stream.finish();
}

TEST(Matcher, PassesOtherBytesOnUnchanged) {
  std::mt19937 random(7);
  std::string text;
  for (size_t i = 0; i < 200'000; ++i)
    text += static_cast<char>(random());
  const std::string words = "A \\u00e9 50% of %zz \\ud83d \\n deadbeef c2VjcmV0 100%";
  for (const std::string& each : {text, words}) {
    for (const size_t piece : {size_t{1}, size_t{7}, size_t{4096}, each.size()}) {
      Stream stream(patterns());
      EXPECT_TRUE(inPieces(stream, each, piece) == each) << piece;
      EXPECT_EQ(stream.hits(), 0U);
    }
  }
}

TEST(Matcher, CountsOccurrencesAndNamesTheFirst) {
  Stream stream(patterns());
  const std::string text = kPlain + " and " + kValue + kValue + base64(kPlain);
  EXPECT_EQ(inPieces(stream, text, 5),
            "[secret PLAIN] and [secret VALUE][secret VALUE][secret PLAIN]==");
  EXPECT_EQ(stream.hits(), 4U);
  EXPECT_EQ(stream.firstName(), "PLAIN");
}

TEST(Matcher, PrefersTheLongerOfTwoThatBeginAlike) {
  const auto both = Patterns::make({{"SHORT", "abcdefgh"}, {"LONG", "abcdefghijkl"}});
  EXPECT_EQ(both->redacted("(abcdefghijkl)"), "([secret LONG])");
  EXPECT_EQ(both->redacted("(abcdefghijk)"), "([secret SHORT]ijk)");
  EXPECT_EQ(both->redacted("(abcdefgh)"), "([secret SHORT])");
}

TEST(Matcher, CoversOccurrencesThatOverlap) {
  const auto both = Patterns::make({{"ONE", "abcdefgh"}, {"TWO", "efghijkl"}});
  for (size_t piece = 1; piece < 16; ++piece) {
    Stream stream(both);
    EXPECT_EQ(inPieces(stream, "(abcdefghijkl)", piece), "([secret ONE])");
    EXPECT_EQ(stream.hits(), 1U);
  }
}

TEST(Matcher, FindsOneThatIsTheEndOfAnother) {
  const auto both = Patterns::make({{"INNER", "cdefghij"}, {"OUTER", "abcdefghijkl"}});
  EXPECT_EQ(both->redacted("abcdefghij!"), "ab[secret INNER]!");
  EXPECT_EQ(both->redacted("abcdefghijkl!"), "[secret OUTER]!");
}

TEST(Matcher, HoldsNoMoreThanItsBoundOfARepeatedByte) {
  const auto one = Patterns::make({{"A", std::string(16, 'a')}});
  Stream stream(one);
  std::string safe;
  for (size_t i = 0; i < 1000; ++i)
    safe += stream.feed(std::string(1000, 'a'));
  EXPECT_EQ(safe, "[secret A]");
  EXPECT_EQ(stream.feed("b"), "b");
}

// Line feeds of a terminal come as CR LF, and a value's last line feed may be missing.
TEST(Matcher, FindsLinesWithReturns) {
  const auto key = Patterns::make({{"KEY", "-----BEGIN-----\nMIIEvQ\n-----END-----\n"}});
  EXPECT_EQ(key->redacted("x\r\n-----BEGIN-----\r\nMIIEvQ\r\n-----END-----\r\ny"),
            "x\r\n[secret KEY]\r\ny");
  EXPECT_EQ(key->redacted("-----BEGIN-----\nMIIEvQ\n-----END-----"), "[secret KEY]");
}

TEST(Matcher, GivesUpASpellingBeyondItsBound) {
  const auto one = Patterns::make({{"A", "abcdefgh"}});
  Stream stream(one);
  EXPECT_EQ(stream.feed("abcd"), "");
  const std::string returns(100, '\r');
  EXPECT_EQ(stream.feed(returns), "abcd" + returns);
  EXPECT_EQ(stream.feed("efgh!"), "efgh!");
}

TEST(Matcher, PassesALineOnAtOnceUnlessItsEndMayBeginAValue) {
  const auto one = Patterns::make({{"T", "tok_abcdef"}});
  Stream stream(one);
  EXPECT_EQ(stream.feed("Name? "), "Name? ");
  EXPECT_EQ(stream.feed("done.\n"), "done.\n");
  EXPECT_EQ(stream.feed("to"), "");
  EXPECT_EQ(stream.feed("day\n"), "today\n");
}

TEST(Matcher, IsEmptyWithoutValues) {
  for (const auto& none : {Patterns::make({}), Patterns::make({{"A", ""}, {"B", "\n"}})}) {
    EXPECT_TRUE(none->empty());
    EXPECT_EQ(none->find("anything"), "");
    EXPECT_EQ(none->redacted("any\\thing%"), "any\\thing%");
    Stream stream(none);
    EXPECT_EQ(stream.feed("any\\thing%"), "any\\thing%");
  }
  EXPECT_FALSE(patterns()->empty());
}

TEST(Matcher, HasTheGreatestValues) {
  std::mt19937 random(11);
  std::vector<Secret> secrets;
  for (size_t i = 0; i < 32; ++i) {
    std::string value;
    while (value.size() < size_t{64} << 10)
      value += static_cast<char>('a' + random() % 26);
    secrets.push_back({"S" + std::to_string(i), value});
  }
  const auto all = Patterns::make(secrets);
  for (const size_t which : {size_t{0}, size_t{17}, size_t{31}}) {
    const std::string text = "<" + base64(secrets[which].value) + ">";
    Stream stream(all);
    inPieces(stream, text, 10'000);
    EXPECT_EQ(stream.hits(), 1U);
    EXPECT_EQ(stream.firstName(), secrets[which].name);
    EXPECT_EQ(all->redacted(text.substr(0, 80'000)), text.substr(0, 80'000));
  }
}

// A naive search of random small alphabets agrees.
TEST(Matcher, AgreesWithASearchOfEachPosition) {
  std::mt19937 random(3);
  const auto word = [&](size_t size) {
    std::string text;
    while (text.size() < size)
      text += static_cast<char>('k' + random() % 2);
    return text;
  };
  for (int round = 0; round < 300; ++round) {
    std::vector<Secret> secrets;
    for (size_t i = 0; i < 1 + random() % 5; ++i) {
      secrets.push_back({std::to_string(i), word(3 + random() % 6)});
    }
    const std::string text = word(60);
    std::string expected = text;
    for (const Secret& each : secrets) {
      for (size_t at = 0; (at = text.find(each.value, at)) != std::string::npos; ++at) {
        std::fill_n(expected.begin() + static_cast<ptrdiff_t>(at), each.value.size(), '#');
      }
    }
    std::string kept;
    for (const char each : expected)
      kept += each == '#' ? "" : std::string(1, each);
    Stream stream(Patterns::make(secrets));
    std::string got = inPieces(stream, text, 1 + random() % 9);
    for (size_t at = 0; (at = got.find("[secret ")) != std::string::npos;) {
      got.erase(at, got.find(']', at) - at + 1);
    }
    ASSERT_EQ(got, kept) << text;
  }
}

}  // namespace
}  // namespace cloister::redact
