// SPDX-License-Identifier: Apache-2.0
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/beast/zlib/deflate_stream.hpp>
#include <boost/crc.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/compat/e2b/connect.h"
#include "api/compat/e2b/paths.h"
#include "api/compat/gunzip.h"
#include "api/compat/multipart.h"
#include "api/compat/raised.h"

namespace cloister::api::compat {
namespace {

namespace asio = boost::asio;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

using Files = std::vector<std::pair<std::string, std::string>>;

Task<Result<Files>> readForm(std::string body, size_t piece) {
  size_t at = 0;
  const auto source = [&]() -> Task<Result<std::string>> {
    std::string next = body.substr(at, piece);
    at += next.size();
    co_return next;
  };
  MultipartReader form =
      CO_TRY(MultipartReader::make("multipart/form-data; boundary=\"b b\"", source));
  Files files;
  while (const auto part = CO_TRY(co_await form.next())) {
    std::string content;
    while (true) {
      const std::string more = CO_TRY(co_await form.read());
      if (more.empty()) break;
      content += more;
    }
    files.emplace_back(part->filename.value_or("?"), content);
  }
  co_return files;
}

Result<Files> form(const std::string& body, size_t piece) {
  asio::io_context context;
  auto read = asio::co_spawn(context, readForm(body, piece), asio::use_future);
  context.run();
  return read.get();
}

constexpr char kForm[] =
    "--b b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a/%22b\"\r\n"
    "Content-Type: text/plain\r\n\r\none\r\n--b\r\n--b bx\r\n\r\n--b b\r\n"
    "content-disposition: form-data; name=file; filename=c\r\n\r\n\r\n--b b--\r\nepilogue";

TEST(Multipart, ReadsPartsInPiecesOfAnySize) {
  for (const size_t piece : {size_t{1}, size_t{7}, size_t{10'000}}) {
    const auto files = form(kForm, piece);
    ASSERT_TRUE(files) << files.error().message;
    EXPECT_THAT(*files, ElementsAre(Pair("a/\"b", "one\r\n--b\r\n--b bx\r\n"), Pair("c", "")))
        << piece;
  }
}

TEST(Multipart, RefusesWhatIsCutOffOrMalformed) {
  const std::string whole = kForm;
  const size_t last = whole.find("--b b--");
  for (size_t size = 0; size < last; ++size) {
    EXPECT_FALSE(form(whole.substr(0, size), 16)) << size;
  }
  EXPECT_FALSE(form(std::string(20'000, 'x'), 64));
  EXPECT_FALSE(form("--b b\r\n" + std::string(20'000, 'h') + ": x\r\n\r\n--b b--", 64));
  EXPECT_FALSE(MultipartReader::make("multipart/form-data", nullptr));
}

std::string gzip(const std::string& text) {
  boost::beast::zlib::deflate_stream deflate;
  std::string out(text.size() + 100, '\0');
  boost::beast::zlib::z_params params;
  params.next_in = text.data();
  params.avail_in = text.size();
  params.next_out = out.data();
  params.avail_out = out.size();
  boost::system::error_code error;
  deflate.write(params, boost::beast::zlib::Flush::finish, error);
  out.resize(out.size() - params.avail_out);
  boost::crc_32_type crc;
  crc.process_bytes(text.data(), text.size());
  std::string whole("\x1f\x8b\x08\x08\0\0\0\0\0\x03name\0", 15);
  whole += out;
  for (const auto number : {crc.checksum(), static_cast<uint32_t>(text.size())}) {
    for (int shift = 0; shift < 32; shift += 8)
      whole.push_back(static_cast<char>(number >> shift));
  }
  return whole;
}

Result<std::string> unzip(const std::string& bytes, size_t piece) {
  Gunzip gunzip;
  std::string out;
  for (size_t at = 0; at < bytes.size(); at += piece) {
    gunzip.feed(std::string_view(bytes).substr(at, piece));
    while (true) {
      const std::string more = TRY(gunzip.next());
      if (more.empty()) break;
      out += more;
    }
  }
  if (!gunzip.done()) return fail(Code::kInvalid, "cut off");
  return out;
}

TEST(Gunzip, DecodesInPieces) {
  const std::string text(300'000, 'z');
  for (const size_t piece : {size_t{1}, size_t{50}, size_t{100'000}}) {
    EXPECT_EQ(unzip(gzip(text), piece).value_or("failed"), text) << piece;
  }
  EXPECT_EQ(unzip(gzip(""), 5).value_or("failed"), "");
}

TEST(Gunzip, RefusesWhatIsCutOffOrChanged) {
  const std::string good = gzip("some text that is not too short, some text");
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_FALSE(unzip(good.substr(0, size), 8)) << size;
  }
  for (const size_t at : {size_t{0}, size_t{2}, good.size() - 1, good.size() - 6}) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] + 1);
    EXPECT_FALSE(unzip(bad, 8)) << at;
  }
  EXPECT_FALSE(unzip(good + "more", 8));
}

TEST(Raised, ReadsPythonsTraceback) {
  const std::string text =
      "Traceback (most recent call last):\n  File \"<cell 1>\", line 1, in <module>\n"
      "ValueError: two\nlines\n";
  const auto raised = readTraceback(text);
  ASSERT_TRUE(raised);
  EXPECT_EQ(raised->name, "ValueError");
  EXPECT_EQ(raised->value, "two\nlines");
  EXPECT_EQ(raised->traceback, text);
  EXPECT_EQ(tracebackBegin("warning\n" + text), 8U);
  EXPECT_EQ(tracebackBegin("no Traceback (most recent call last):\n"), std::string::npos);
  EXPECT_EQ(readTraceback("Traceback (most recent call last):\n  a\nKeyboardInterrupt\n")->name,
            "KeyboardInterrupt");
}

TEST(Raised, ReadsJavaScriptsError) {
  const auto raised = readTraceback("TypeError: x is not a function\n    at cell-1:1:1\n");
  ASSERT_TRUE(raised);
  EXPECT_EQ(raised->name, "TypeError");
  EXPECT_EQ(raised->value, "x is not a function");
  EXPECT_FALSE(readTraceback("plain text\n"));
}

TEST(Paths, AreResolvedAsText) {
  using e2b::resolvedPath;
  EXPECT_EQ(resolvedPath(""), "/home/user");
  EXPECT_EQ(resolvedPath("a/./b/../c//d"), "/home/user/a/c/d");
  EXPECT_EQ(resolvedPath("~/x"), "/home/user/x");
  EXPECT_EQ(resolvedPath("../../../.."), "/");
  EXPECT_EQ(resolvedPath("/etc/../tmp/x/"), "/tmp/x");
  EXPECT_FALSE(e2b::servedPath("/etc/passwd", "path"));
  EXPECT_FALSE(e2b::servedPath("../../etc/passwd", "path"));
  EXPECT_FALSE(e2b::servedPath("/home/user2/x", "path"));
}

TEST(Connect, TakesExactlyOneEnvelope) {
  Request request;
  request.headers = {{"content-type", std::string(e2b::kConnectStream)}};
  request.body = e2b::envelope({{"a", 1}});
  EXPECT_EQ(e2b::onlyMessage(request).value_or(""), R"({"a":1})");
  const std::string good = request.body;
  for (const std::string& bad :
       {std::string(), good.substr(0, 4), good.substr(0, good.size() - 1), good + good,
        "\x01" + good.substr(1), std::string("\xff\xff\xff\xff\xff")}) {
    request.body = bad;
    EXPECT_FALSE(e2b::onlyMessage(request)) << bad.size();
  }
  EXPECT_EQ(e2b::endOfStream().substr(5), "{}");
  EXPECT_EQ(e2b::endOfStream()[0], 2);
  const Error error{Code::kNotFound, "why", ""};
  EXPECT_THAT(e2b::endOfStream(&error), HasSubstr(R"("code":"not_found")"));
}

}  // namespace
}  // namespace cloister::api::compat
