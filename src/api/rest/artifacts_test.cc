// SPDX-License-Identifier: Apache-2.0
// Uploads of /v1/artifacts through the router: interrupted and resumed.
#include <deque>
#include <optional>

#include <gmock/gmock.h>

#include "api/rest/rest_fixture.h"
#include "async/signal.h"
#include "async/spawn.h"

namespace cloister::api {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

// A body with these pieces; then the body ends, breaks off, or pauses until stop().
class Arriving final : public BodyReader {
 public:
  enum class Then : uint8_t { kEnds, kBreaksOff, kWaits };

  Arriving(boost::asio::any_io_executor executor, std::deque<std::string> pieces, Then then)
      : changed_(std::move(executor)), pieces_(std::move(pieces)), then_(then) {}

  Task<Result<std::string>> read() override {
    if (!pieces_.empty()) {
      std::string piece = std::move(pieces_.front());
      pieces_.pop_front();
      co_return piece;
    }
    while (then_ == Then::kWaits)
      co_await changed_.wait();
    if (then_ == Then::kBreaksOff) co_return fail(Code::kUnavailable, "request body: not read");
    co_return std::string();
  }
  [[nodiscard]] std::optional<uint64_t> length() const override { return std::nullopt; }
  void stop() override {
    then_ = Then::kBreaksOff;
    changed_.notify();
  }

 private:
  async::Signal changed_;
  std::deque<std::string> pieces_;
  Then then_;
};

class ArtifactsRestTest : public RestTest {
 protected:
  using Then = Arriving::Then;

  void SetUp() override { serve(); }

  api::Task<Answer> uploading(const std::string& query, std::deque<std::string> pieces, Then then) {
    return answer("POST", "/v1/artifacts?path=file" + query, "", {},
                  std::make_shared<Arriving>(io_->get_executor(), std::move(pieces), then));
  }
  Answer upload(const std::string& query, std::deque<std::string> pieces = {},
                Then then = Then::kEnds) {
    return await(uploading(query, std::move(pieces), then));
  }
  void expectProblem(const Answer& answer, int status, const std::string& field) {
    EXPECT_EQ(answer.status, status) << answer.body;
    EXPECT_THAT(answer.body, HasSubstr("\"field\":\"" + field + "\""));
  }
};

TEST_F(ArtifactsRestTest, AnUploadThatBreaksOffGoesOn) {
  EXPECT_EQ(upload("&upload=mine", {"one", "two"}, Then::kBreaksOff).status, 503);
  const Answer kept = request("GET", "/v1/uploads/mine");
  EXPECT_EQ(kept.status, 200);
  EXPECT_EQ(kept.object().at("size").as_int64(), 6);
  EXPECT_EQ(kept.text("path"), "file");
  EXPECT_THAT(kept.text("expires_at"), StartsWith("20"));
  EXPECT_TRUE(kept.object().at("artifact_id").is_null());
  EXPECT_EQ(request("GET", "/v1/uploads").object().at("uploads").as_array().size(), 1U);
  const Answer made =
      upload("&upload=mine&offset=6&sha256=" + base::sha256Hex("onetwothree"), {"three"});
  ASSERT_EQ(made.status, 201) << made.body;
  EXPECT_EQ(made.header("Location"), "/v1/artifacts/" + made.text("id"));
  EXPECT_EQ(request("GET", made.header("Location") + "/content").body, "onetwothree");
  EXPECT_EQ(request("GET", "/v1/uploads/mine").text("artifact_id"), made.text("id"));
  EXPECT_EQ(upload("&upload=mine&offset=11").body, made.body) << "its end is told again";
}

// Also with a link made by a key, although the ledger knows the key's end.
TEST_F(ArtifactsRestTest, AnAnswerToALinkEndsWithTheLink) {
  const Answer made = upload("", {"one"});
  const Answer link =
      request("GET", "/v1/artifacts/" + made.text("id") + "/url?expires_seconds=100");
  Request read;
  read.method = "GET";
  ASSERT_TRUE(parseTarget(link.text("url"), read));
  ASSERT_FALSE(await(router_->admit(read)));
  EXPECT_EQ(await(router_->handle(read)).status, 200);
  EXPECT_EQ(read.credential.id, store_->keyByHash(base::sha256Hex(secret_))->value().id);
  EXPECT_EQ(read.credential.ends_at, base::parseTime(link.text("expires_at")));
}

TEST_F(ArtifactsRestTest, RefusalsNameTheParameter) {
  upload("&upload=mine", {"half"}, Then::kBreaksOff);
  expectProblem(upload("&upload=mine&offset=3", {"x"}), 409, "query.offset");
  expectProblem(upload("&upload=other&offset=3", {"x"}), 404, "query.upload");
  expectProblem(upload("&offset=0", {"x"}), 400, "query.offset");
  expectProblem(upload("&offset=-1", {"x"}), 400, "query.offset");
  expectProblem(upload("&upload=", {"x"}), 400, "query.upload");
  expectProblem(upload("&upload=a%2Fb", {"x"}), 400, "query.upload");
  expectProblem(upload("&sha256=abc", {"x"}), 400, "query.sha256");
  expectProblem(upload("&sha256=" + std::string(64, '0'), {"x"}), 400, "query.sha256");
  EXPECT_EQ(request("GET", "/v1/artifacts").object().at("artifacts").as_array().size(), 0U);
  EXPECT_EQ(upload("&upload=mine&offset=4", {}).status, 201) << "none of that harmed it";
}

TEST_F(ArtifactsRestTest, WhoComesBackEndsTheEarlierRequest) {
  std::optional<Answer> first;
  async::spawn(io_->get_executor(),
               [](api::Task<Answer> upload, std::optional<Answer>& out) -> api::Task<void> {
                 out = co_await std::move(upload);
               }(uploading("&upload=mine", {"half"}, Then::kWaits), first));
  for (int i = 0; i < 1000 && request("GET", "/v1/uploads/mine").status == 404; ++i) {
  }
  EXPECT_TRUE(request("GET", "/v1/uploads/mine").object().at("expires_at").is_null());
  runUntil([&] { return artifacts_->upload(principal(), "mine")->size == 4; });
  const Answer made = upload("&upload=mine&offset=4", {"more"});
  ASSERT_EQ(made.status, 201) << made.body;
  EXPECT_EQ(request("GET", made.header("Location") + "/content").body, "halfmore");
  ASSERT_TRUE(first);
  EXPECT_EQ(first->status, 503);
}

TEST_F(ArtifactsRestTest, WhatIsKeptCanBeDropped) {
  upload("&upload=mine", {"half"}, Then::kBreaksOff);
  EXPECT_EQ(request("DELETE", "/v1/uploads/mine").status, 204);
  EXPECT_EQ(request("DELETE", "/v1/uploads/mine").status, 404);
  EXPECT_EQ(request("GET", "/v1/uploads/mine").status, 404);
}

}  // namespace
}  // namespace cloister::api
