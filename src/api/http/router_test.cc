// SPDX-License-Identifier: Apache-2.0
#include "api/http/router.h"

#include <filesystem>
#include <future>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/id.h"
#include "store/open.h"
#include "store/rows/keys.h"

namespace cloister::api {
namespace {

namespace asio = boost::asio;
using testing::HasSubstr;

Task<Result<Response>> ok(Request& request) {
  Response response;
  response.body = request.params.empty() ? "" : request.params[0];
  co_return response;
}

Task<Result<Response>> bad(Request&) {
  co_return fail(Code::kConflict, "clashes");
}

std::vector<Route> routes() {
  return {
      {.method = "GET", .pattern = "/open", .access = anyone(), .query = {}, .handle = ok},
      {.method = "GET",
       .pattern = "/local",
       .access = needs(Permission::kMetricsRead, Access::Or::kLocal),
       .query = {},
       .handle = ok},
      {.method = "GET",
       .pattern = "/v1/things",
       .access = needs(Permission::kExecutionRead),
       .query = {"limit", "all"},
       .handle = ok},
      {.method = "POST",
       .pattern = "/v1/things",
       .access = needs(Permission::kExecutionRun),
       .query = {},
       .handle = bad,
       .json_body = true},
      {.method = "GET",
       .pattern = "/v1/things/{id}",
       .access = needs(Permission::kExecutionRead),
       .query = {},
       .handle = ok},
      {.method = "POST",
       .pattern = "/v1/things/{id}:poke",
       .access = needs(Permission::kExecutionRun),
       .query = {},
       .handle = ok},
      {.method = "DELETE",
       .pattern = "/v1/things/{id}",
       .access = needs(Permission::kTenantErase),
       .query = {},
       .handle = ok},
  };
}

class RouterTest : public testing::Test {
 protected:
  RouterTest() {
    std::filesystem::create_directory(dir_);
    store::SqliteOptions options;
    options.path = dir_ + "/ledger.db";
    store_ = store::openSqlite(std::move(options)).value();
    agent_ = enrol("tenant-a", model::Role::kAgent);
    admin_ = enrol("default", model::Role::kAdmin);
    authenticator_ = std::make_unique<auth::Authenticator>(*store_);
    router_ = std::make_unique<Router>(routes(), *authenticator_, metrics_);
  }
  ~RouterTest() override {
    store_.reset();
    std::filesystem::remove_all(dir_);
  }

  std::string enrol(const std::string& tenant, model::Role role) {
    model::Principal principal;
    principal.tenant = tenant;
    principal.roles = role;
    const auth::NewKey key = auth::makeKey(principal, "test", 0);
    std::promise<bool> stored;
    model::AuditEvent event;
    event.action = "key.created";
    event.subject = key.record.id;
    event.principal = principal;
    store_->write(store::writing(store::putKey, key.record, event),
                  [&](Result<> result) { stored.set_value(result.has_value()); });
    EXPECT_TRUE(stored.get_future().get());
    return key.secret;
  }

  // The status decided by the head alone, 0 if the handler may go on.
  int admit(std::string method, std::string_view target, std::vector<Header> headers = {},
            bool local = true, bool body = false) {
    request_ = Request{};
    request_.method = std::move(method);
    request_.headers = std::move(headers);
    request_.local = local;
    request_.has_body = body;
    EXPECT_TRUE(parseTarget(target, request_));
    asio::io_context context;
    auto refused = asio::co_spawn(context, router_->admit(request_), asio::use_future);
    context.run();
    refused_ = refused.get();
    return refused_ ? refused_->status : 0;
  }

  Response handle() {
    asio::io_context context;
    auto response = asio::co_spawn(context, router_->handle(request_), asio::use_future);
    context.run();
    return response.get();
  }

  std::string dir_ = (std::filesystem::temp_directory_path() / base::newId("router_test")).string();
  std::unique_ptr<store::Store> store_;
  std::string agent_;
  std::string admin_;
  std::unique_ptr<auth::Authenticator> authenticator_;
  ServiceMetrics metrics_;
  std::unique_ptr<Router> router_;
  Request request_;
  std::optional<Response> refused_;
};

// Event streams last as long as the client wants: no tenant may keep out others with streams.
TEST_F(RouterTest, LeavesRoomForOtherTenants) {
  router_ = std::make_unique<Router>(routes(), *authenticator_, metrics_, 2);
  const std::vector<Header> agent = {{"authorization", "Bearer " + agent_}};
  std::vector<Request> streams;
  for (int i = 0; i < 2; i++) {
    ASSERT_EQ(admit("GET", "/v1/things", agent), 0);
    streams.push_back(std::exchange(request_, {}));
  }
  EXPECT_EQ(admit("GET", "/v1/things", agent), 429);
  EXPECT_NE(refused_->body.find("http.requests_per_tenant"), std::string::npos) << refused_->body;
  EXPECT_EQ(admit("GET", "/open"), 0);
  EXPECT_EQ(admit("GET", "/v1/things", {{"authorization", "Bearer " + admin_}}), 0);
  streams.pop_back();
  EXPECT_EQ(admit("GET", "/v1/things", agent), 0);
}

// As an interface of another service: a header and a form of errors of its own.
class OtherDialect : public Dialect {
 public:
  [[nodiscard]] std::string_view prefix() const override { return "other"; }
  [[nodiscard]] std::string_view credential(const Request& request) const override {
    return request.header("x-other-key");
  }
  [[nodiscard]] std::optional<Result<auth::Identity>> ownIdentity(
      const Request& request) const override {
    if (request.header("x-other-token") != "good") return std::nullopt;
    auth::Identity identity;
    identity.principal.tenant = "by-token";
    return identity;
  }
  void refuse(const Request& /*request*/, Response& response) const override {
    response.body = "other: " + response.failure->message;
  }
};

TEST_F(RouterTest, AsksADialectBelowItsPrefix) {
  const OtherDialect dialect;
  auto table = routes();
  table.push_back({.method = "GET",
                   .pattern = "/other/things",
                   .access = needs(Permission::kExecutionRead),
                   .query = {},
                   .handle = ok});
  router_ = std::make_unique<Router>(std::move(table), *authenticator_, metrics_, 10,
                                     std::vector<const Dialect*>{&dialect});
  EXPECT_EQ(admit("GET", "/other/things", {{"x-other-key", agent_}}), 0);
  EXPECT_EQ(request_.principal.tenant, "tenant-a");
  EXPECT_EQ(admit("GET", "/other/things", {{"x-other-token", "good"}}), 0);
  EXPECT_EQ(request_.principal.tenant, "by-token");
  EXPECT_EQ(admit("GET", "/other/things?unknown=1", {{"x-other-key", agent_}}), 0);
  // The parser leaves the query of these to the router.
  const auto unread = [&](const std::string& query) {
    request_.target = "/other/things?" + query;
    request_.bad_query = "query parameter given twice: a";
    request_.query.clear();
    asio::io_context context;
    auto refused = asio::co_spawn(context, router_->admit(request_), asio::use_future);
    context.run();
    return !refused.get();
  };
  EXPECT_TRUE(unread("a=1&a=2"));
  EXPECT_EQ(request_.query.size(), 2U) << "a name may be repeated";
  EXPECT_FALSE(unread("a=%zz"));
  // Neither header is one of /v1, nor the other way round.
  EXPECT_EQ(admit("GET", "/v1/things", {{"x-other-key", agent_}}), 401);
  EXPECT_EQ(admit("GET", "/v1/things", {{"x-other-token", "good"}}), 401);
  EXPECT_EQ(admit("GET", "/other/things", {{"x-api-key", agent_}}), 401);
  router_->finish(request_, *refused_);
  EXPECT_THAT(refused_->body, testing::StartsWith("other: the credential is missing"));
  EXPECT_EQ(admit("GET", "/other/nothing"), 404);
  router_->finish(request_, *refused_);
  EXPECT_THAT(refused_->body, testing::StartsWith("other: "));
  EXPECT_EQ(admit("GET", "/nothing"), 404);
  const std::string before = refused_->body;
  router_->finish(request_, *refused_);
  EXPECT_EQ(refused_->body, before);
}

TEST_F(RouterTest, LetsInByAccess) {
  EXPECT_EQ(admit("GET", "/open"), 0);
  EXPECT_EQ(admit("GET", "/local"), 0);
  EXPECT_EQ(admit("GET", "/local", {}, false), 401);
  EXPECT_EQ(admit("GET", "/local", {{"x-api-key", agent_}}, false), 403);
  EXPECT_EQ(admit("GET", "/local", {{"x-api-key", admin_}}, false), 0);
  EXPECT_EQ(admit("GET", "/v1/things"), 401);
  EXPECT_EQ(admit("GET", "/v1/things", {{"authorization", "Bearer " + agent_}}), 0);
  EXPECT_EQ(request_.principal.tenant, "tenant-a");
  EXPECT_EQ(admit("GET", "/v1/things", {{"authorization", "bearer " + agent_}}), 0);
  EXPECT_EQ(admit("GET", "/v1/things", {{"authorization", "Basic " + agent_}}), 401);
  EXPECT_EQ(admit("GET", "/v1/things", {{"authorization", "Bearer " + agent_ + "x"}}), 401);
  // An unknown scheme is an answer, and other headers are not tried.
  EXPECT_EQ(admit("GET", "/v1/things", {{"authorization", "Basic x"}, {"x-api-key", agent_}}), 401);
  EXPECT_EQ(admit("DELETE", "/v1/things/1", {{"x-api-key", agent_}}), 403);
  EXPECT_THAT(refused_->body, HasSubstr(R"("permission":"tenant.erase")"));
  EXPECT_EQ(admit("DELETE", "/v1/things/1", {{"x-api-key", admin_}}), 0);
}

TEST_F(RouterTest, AnAnswerIsForItsCredential) {
  int told = 0;
  for (const bool with_key : {true, false}) {
    request_ = Request{};
    request_.method = "GET";
    request_.local = true;
    if (with_key) request_.headers = {{"x-api-key", agent_}};
    request_.answer_for_credential = [&] { ++told; };
    EXPECT_TRUE(parseTarget(with_key ? "/v1/things" : "/open", request_));
    asio::io_context context;
    auto refused = asio::co_spawn(context, router_->admit(request_), asio::use_future);
    context.run();
    EXPECT_FALSE(refused.get());
    EXPECT_EQ(told, 1) << "a route that needs none is for nobody's";
    EXPECT_EQ(request_.credential.id, request_.principal.key_id);
    EXPECT_TRUE(router_->stands(request_.credential));
  }
  EXPECT_FALSE(router_->stands({"jwt_1", 1}));
}

TEST_F(RouterTest, FindsRoutesByAVerb) {
  const std::vector<Header> key = {{"x-api-key", agent_}};
  EXPECT_EQ(admit("POST", "/v1/things/a:poke", key), 0);
  EXPECT_EQ(handle().body, "a");
  EXPECT_EQ(request_.route, "/v1/things/{id}:poke");
  EXPECT_EQ(admit("POST", "/v1/things/a:b:poke", key), 0);
  EXPECT_EQ(handle().body, "a:b");
  for (const std::string_view path : {"/v1/things/:poke", "/v1/things/a:push"}) {
    EXPECT_EQ(admit("POST", path, key), 404) << path;
  }
  EXPECT_EQ(admit("POST", "/v1/things/a", key), 405);
  EXPECT_EQ(admit("GET", "/v1/things/sha256:0a", key), 0) << "a digest is no verb";
  EXPECT_EQ(handle().body, "sha256:0a");
  EXPECT_EQ(admit("POST", "/v1/things/sha256:0a:poke", key), 0);
  EXPECT_EQ(handle().body, "sha256:0a");
  EXPECT_EQ(admit("GET", "/v1/things/sha256:0a:pull", key), 404);
}

TEST_F(RouterTest, FindsRoutes) {
  const std::vector<Header> key = {{"x-api-key", agent_}};
  EXPECT_EQ(admit("GET", "/v1/things/a%2Fb", key), 0);
  EXPECT_EQ(handle().body, "a/b");
  EXPECT_EQ(admit("HEAD", "/v1/things/1", key), 0);
  for (const std::string_view path : {"/", "/v1", "/v1/things/", "/v1/things/1/2", "/v1//things",
                                      "/open/", "/v1/things/../things", "//open"}) {
    EXPECT_EQ(admit("GET", path, key), 404) << path;
  }
  EXPECT_EQ(admit("PATCH", "/v1/things", key), 405);
  EXPECT_EQ(refused_->headers.back().name, "Allow");
  EXPECT_EQ(refused_->headers.back().value, "GET, POST");
}

TEST_F(RouterTest, RefusesUnknownQueryAndWrongBodies) {
  const auto post = [&](std::vector<Header> headers) {
    headers.push_back({"x-api-key", agent_});
    return admit("POST", "/v1/things", std::move(headers), true, true);
  };
  EXPECT_EQ(admit("GET", "/v1/things?other=1", {{"x-api-key", agent_}}), 400);
  EXPECT_THAT(refused_->body, HasSubstr("query.other"));
  EXPECT_EQ(admit("GET", "/v1/things", {{"x-api-key", agent_}}, true, true), 400);
  EXPECT_EQ(post({}), 0);
  EXPECT_EQ(post({{"content-type", "application/json; charset=utf-8"}}), 0);
  EXPECT_EQ(post({{"content-type", "Application/JSON ;x=y"}}), 0);
  EXPECT_EQ(post({{"content-type", "text/plain"}}), 415);
  EXPECT_EQ(post({{"content-type", "application/jsonx"}}), 415);
  EXPECT_EQ(post({{"content-encoding", "gzip"}}), 415);
  EXPECT_EQ(post({{"content-encoding", "identity"}}), 0);
}

TEST_F(RouterTest, TurnsErrorsIntoProblemsAndCounts) {
  ASSERT_EQ(admit("POST", "/v1/things", {{"x-api-key", agent_}}), 0);
  const Response response = handle();
  EXPECT_EQ(response.status, 409);
  router_->answered(request_, response.status, 0.1);
  admit("GET", "/nowhere/exec_123");
  router_->answered(request_, 404, 0.1);
  admit("GET", "/v1/things");
  const std::string text = metrics_.text();
  EXPECT_THAT(text, HasSubstr(R"(cloister_http_requests_total{method="POST",route="/v1/things",)"
                              R"(status="409"} 1)"));
  EXPECT_THAT(text, HasSubstr(R"(route="none")"));
  EXPECT_THAT(text, HasSubstr(R"(cloister_refused_total{reason="unauthorized"} 1)"));
  EXPECT_THAT(text, testing::Not(HasSubstr("exec_123")));
}

TEST_F(RouterTest, ReadsQueryParameters) {
  ASSERT_EQ(admit("GET", "/v1/things?limit=7&all=true", {{"x-api-key", agent_}}), 0);
  EXPECT_EQ(queryInteger(request_, "limit", 1, 10).value(), 7);
  EXPECT_EQ(queryInteger(request_, "limit", 1, 6).error().field, "query.limit");
  EXPECT_EQ(queryInteger(request_, "none", 1, 6).value(), std::nullopt);
  EXPECT_TRUE(queryFlag(request_, "all").value());
  EXPECT_FALSE(queryFlag(request_, "limit"));
  for (const std::string value : {"", "x", "1x", "+1", "1.0", "99999999999999999999"}) {
    request_.query = {{"limit", value}};
    EXPECT_FALSE(queryInteger(request_, "limit", 0, INT64_MAX)) << value;
  }
}

}  // namespace
}  // namespace cloister::api
