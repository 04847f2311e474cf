// SPDX-License-Identifier: Apache-2.0
#include "cli/file_upload.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/id.h"
#include "net/scripted_testing.h"

namespace cloister::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

const std::string kBody = "hello world";
// A server that accepts the head and the body, and then disconnects.
const std::string kBreaks = "HTTP/1.1 100 Continue\r\n\r\n";

std::string answer(const std::string& status, const std::string& body) {
  return "HTTP/1.1 " + status +
         "\r\nConnection: close\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" +
         body;
}
std::string made(const std::string& sha256) {
  return answer("201 Created", R"({"id": "art_1", "sha256": ")" + sha256 + "\"}");
}

class FileUploadTest : public testing::Test {
 protected:
  FileUploadTest() { std::ofstream(path_) << kBody; }
  ~FileUploadTest() override { std::filesystem::remove(path_); }

  Result<base::json::object> send(const net::Scripted& server) {
    net::BlockingClient client = server.client();
    Source source = TRY(openSource(path_));
    return FileUpload(client, "/v1/artifacts?path=x", std::move(source),
                      [this](Millis time) { pauses_.push_back(time); })
        .run();
  }

  std::string path_ = "/tmp/cloister-test-" + base::randomHex(8);
  std::vector<Millis> pauses_;
};

TEST_F(FileUploadTest, GoesOnAtWhatTheServerHas) {
  const net::Scripted server(
      {kBreaks, answer("200 OK", R"({"size": 5})"), made(base::sha256Hex(kBody))});
  const auto artifact = send(server);
  ASSERT_TRUE(artifact) << artifact.error().message;
  EXPECT_EQ(artifact->at("id"), "art_1");
  ASSERT_EQ(server.requests().size(), 3U);
  EXPECT_THAT(server.requests()[0],
              AllOf(StartsWith("POST /v1/artifacts?path=x&upload="), Not(HasSubstr("&offset="))));
  EXPECT_THAT(server.requests()[1], StartsWith("GET /v1/uploads/"));
  EXPECT_THAT(server.requests()[2], AllOf(HasSubstr("&offset=5 "), HasSubstr("Content-Length: 6")));
  EXPECT_EQ(pauses_, std::vector<Millis>{FileUpload::kFirstPause});
}

TEST_F(FileUploadTest, BeginsAnewWhereNothingIsKept) {
  const net::Scripted server(
      {kBreaks, answer("404 Not Found", "{}"), made(base::sha256Hex(kBody))});
  ASSERT_TRUE(send(server));
  EXPECT_THAT(server.requests()[2], Not(HasSubstr("&offset=")));
}

TEST_F(FileUploadTest, AsksAgainWhereMoreCameMeanwhile) {
  const net::Scripted server({kBreaks, answer("200 OK", R"({"size": 5})"),
                              answer("409 Conflict", R"({"detail": "ends at 7"})"),
                              answer("200 OK", R"({"size": 7})"), made(base::sha256Hex(kBody))});
  ASSERT_TRUE(send(server));
  EXPECT_THAT(server.request(), HasSubstr("&offset=7 "));
}

TEST_F(FileUploadTest, GivesUpAfterAWhile) {
  std::vector<std::string> answers;
  for (int i = 0; i < FileUpload::kMostBreaks; ++i) {
    answers.push_back(kBreaks);
    answers.push_back(answer("200 OK", R"({"size": 0})"));
  }
  answers.push_back(kBreaks);
  const net::Scripted server(answers);
  const auto given_up = send(server);
  ASSERT_FALSE(given_up);
  EXPECT_EQ(given_up.error().code, Code::kUnavailable);
  EXPECT_EQ(pauses_.size(), static_cast<size_t>(FileUpload::kMostBreaks));
  EXPECT_EQ(pauses_.back(), FileUpload::kLongestPause);
}

TEST_F(FileUploadTest, ARefusalIsOne) {
  const net::Scripted before({answer("413 Too Large", R"({"detail": "at most 5"})")});
  const auto refused = send(before);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("at most 5"));
  const net::Scripted gone({""});
  EXPECT_FALSE(send(gone)) << "nothing of it was on its way";
  EXPECT_TRUE(pauses_.empty());
  const net::Scripted after({kBreaks, answer("200 OK", R"({"size": 5})"),
                             answer("429 Too Many", R"({"detail": "no room"})"),
                             "HTTP/1.1 204 No Content\r\n\r\n"});
  EXPECT_EQ(send(after).error().code, Code::kQuota);
  EXPECT_THAT(after.request(), StartsWith("DELETE /v1/uploads/")) << "nobody will go on";
}

TEST_F(FileUploadTest, OtherBytesThanTheFilesAreNoSuccess) {
  const net::Scripted server({kBreaks, answer("200 OK", R"({"size": 5})"),
                              made(base::sha256Hex("others")), "HTTP/1.1 204 No Content\r\n\r\n"});
  const auto wrong = send(server);
  ASSERT_FALSE(wrong);
  EXPECT_THAT(wrong.error().message, HasSubstr("other bytes than the file"));
  EXPECT_THAT(server.request(), StartsWith("DELETE /v1/artifacts/art_1"));
}

TEST_F(FileUploadTest, AServerThatHasMoreThanWasSentIsNotBelieved) {
  const net::Scripted server(
      {kBreaks, answer("200 OK", R"({"size": 12})"), "HTTP/1.1 204 No Content\r\n\r\n"});
  EXPECT_EQ(send(server).error().code, Code::kInternal);
}

}  // namespace
}  // namespace cloister::cli
