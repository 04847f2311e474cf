// SPDX-License-Identifier: Apache-2.0
#include "rpc/refusal.h"

#include <gmock/gmock.h>
#include <google/rpc/error_details.pb.h>
#include <google/rpc/status.pb.h>
#include <gtest/gtest.h>

namespace cloister::rpc {
namespace {

using grpc::StatusCode;

template <class Detail>
std::optional<Detail> detailOf(const Refusal& refusal) {
  google::rpc::Status status;
  EXPECT_TRUE(status.ParseFromString(refusal.status.error_details()));
  EXPECT_EQ(status.code(), refusal.status.error_code());
  for (const auto& each : status.details()) {
    Detail detail;
    if (each.UnpackTo(&detail)) return detail;
  }
  return std::nullopt;
}

Refusal answered(int status, std::string_view type, std::string_view details = "{}") {
  net::HttpHead head{.status = status, .headers = {{"x-request-id", "req_1"}}};
  return refusalOf(head, R"({"detail":"what","error":{"type":")" + std::string(type) +
                             R"(","message":"what","details":)" + std::string(details) +
                             R"(,"retryable":false}})");
}

TEST(Refusal, TheCodeIsOfTheStatusAndTheType) {
  const auto code = [](int status, std::string_view type) {
    return answered(status, type).status.error_code();
  };
  EXPECT_EQ(code(400, "INVALID_REQUEST"), StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(code(401, "PERMISSION_DENIED"), StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(code(403, "PERMISSION_DENIED"), StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(code(404, "NOT_FOUND"), StatusCode::NOT_FOUND);
  EXPECT_EQ(code(409, "INVALID_REQUEST"), StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(code(413, "INVALID_REQUEST"), StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(code(422, "INVALID_REQUEST"), StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(code(429, "QUOTA_EXCEEDED"), StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(code(500, "INTERNAL"), StatusCode::INTERNAL);
  EXPECT_EQ(code(503, "INTERNAL"), StatusCode::UNAVAILABLE);
  EXPECT_EQ(code(507, "INTERNAL"), StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(code(409, "APPROVAL_REQUIRED"), StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(code(500, "NODE_LOST"), StatusCode::UNAVAILABLE);
  EXPECT_EQ(code(418, ""), StatusCode::FAILED_PRECONDITION);
}

TEST(Refusal, DetailsNameTypeFieldRemedyAndRequest) {
  const Refusal refusal =
      answered(422, "INVALID_REQUEST", R"({"field":"memory_mb","remedy":"ask for less"})");
  EXPECT_EQ(refusal.status.error_message(), "what");
  const auto info = detailOf<google::rpc::ErrorInfo>(refusal);
  ASSERT_TRUE(info);
  EXPECT_EQ(info->reason(), "INVALID_REQUEST");
  EXPECT_EQ(info->metadata().at("remedy"), "ask for less");
  EXPECT_EQ(info->metadata().at("http_status"), "422");
  EXPECT_EQ(info->metadata().at("retryable"), "false");
  EXPECT_EQ(detailOf<google::rpc::BadRequest>(refusal)->field_violations(0).field(), "memory_mb");
  EXPECT_EQ(detailOf<google::rpc::RequestInfo>(refusal)->request_id(), "req_1");
  EXPECT_FALSE(detailOf<google::rpc::RetryInfo>(refusal));
}

TEST(Refusal, RetryAfterIsRetryInfo) {
  net::HttpHead head{.status = 429, .headers = {{"retry-after", "7"}}};
  EXPECT_EQ(detailOf<google::rpc::RetryInfo>(refusalOf(head, ""))->retry_delay().seconds(), 7);
  head.headers["retry-after"] = "999999999";
  EXPECT_EQ(detailOf<google::rpc::RetryInfo>(refusalOf(head, ""))->retry_delay().seconds(), 86'400);
}

TEST(Refusal, AnyBodyGivesAStatus) {
  for (const char* body : {"", "<html>", "[]", R"({"error":1})", R"({"error":{"type":1}})"}) {
    const Refusal refusal = refusalOf({.status = 502, .headers = {}}, body);
    EXPECT_EQ(refusal.status.error_code(), StatusCode::UNAVAILABLE) << body;
    EXPECT_EQ(refusal.status.error_message(), "the service answers with 502");
  }
}

TEST(Refusal, LongMessagesAreCutAtACharacter) {
  std::string message;
  for (int i = 0; i < 1'001; ++i)
    message += "\u00e9";
  const Refusal refusal(Error{Code::kInvalid, "x" + message, "code"});
  EXPECT_EQ(refusal.status.error_message().size(), 1'999U);
  EXPECT_EQ(refusal.status.error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(detailOf<google::rpc::BadRequest>(refusal)->field_violations(0).field(), "code");
}

}  // namespace
}  // namespace cloister::rpc
