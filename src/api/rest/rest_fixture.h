// SPDX-License-Identifier: Apache-2.0
// The REST API through its router, over the real services and the fake runtime, for tests.
#pragma once

#include <algorithm>
#include <future>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <boost/asio/thread_pool.hpp>
#include <gtest/gtest.h>

#include "api/rest/rest.h"
#include "auth/auth.h"
#include "orchestrator/session_fixture.h"

namespace cloister::api {

struct Answer {
  int status = 0;
  std::vector<Header> headers;
  std::string body;

  [[nodiscard]] base::json::object object() const {
    return base::parseJson(body).value().as_object();
  }
  [[nodiscard]] std::string text(std::string_view name) const {
    return std::string(object().at(name).as_string());
  }
  [[nodiscard]] std::string header(std::string_view name) const {
    const auto found = std::ranges::find(headers, name, &Header::name);
    return found == headers.end() ? "" : found->value;
  }
};

struct Collected final : BodyWriter {
  Task<Result<>> write(std::string_view bytes) override {
    body += bytes;
    co_return Result<>{};
  }
  std::string body;
};

class RestTest : public orchestrator::SessionsTest {
 protected:
  ~RestTest() override {
    router_.reset();
    parts_.reset();
    escalations_.reset();
    snapshots_.reset();
    artifacts_.reset();
  }

  void serve() {
    open();
    model::Principal who = principal();
    const auth::NewKey key = auth::makeKey(who, "test", 0);
    secret_ = key.secret;
    std::promise<bool> enrolled;
    store_->putKey(
        key.record,
        {.action = "key.created", .subject = key.record.id, .principal = who, .details = {}},
        [&](Result<> result) { enrolled.set_value(result.has_value()); });
    ASSERT_TRUE(enrolled.get_future().get());
    authenticator_ = std::make_unique<auth::Authenticator>(*store_);
    artifacts_ = std::make_unique<orchestrator::ArtifactService>(
        io_->get_executor(), background_, *store_, *keeper_, *keyring_,
        orchestrator::ArtifactConfig{.quota = {.artifacts = 100, .bytes = 1 << 20}});
    snapshots_ = std::make_unique<orchestrator::SnapshotService>(io_->get_executor(), background_,
                                                                 *store_, *keeper_, *sessions_,
                                                                 orchestrator::SnapshotConfig{});
    links_ = std::make_unique<orchestrator::PortLinks>(*keyring_);
    escalations_ = std::make_unique<orchestrator::EscalationService>(*service_);
    parts_.reset(new RestParts{.service = *service_,
                               .sessions = *sessions_,
                               .artifacts = *artifacts_,
                               .port_links = *links_,
                               .snapshots = *snapshots_,
                               .escalations = *escalations_,
                               .store = *store_,
                               .authenticator = *authenticator_,
                               .languages = languages_,
                               .metrics = served_,
                               .audit_key = key_,
                               .checkpoint_file = {},
                               .bounds = model::defaultBounds(),
                               .session_bounds = {},
                               .answer_within = Millis(300'000),
                               .heartbeat = Millis(15'000),
                               .openapi = {},
                               .version = {},
                               .background = background_});
    router_ = std::make_unique<Router>(restRoutes(*parts_), *authenticator_, served_);
  }

  // `incoming`: what a handler that takes a stream reads.
  Task<Answer> answer(std::string method, std::string target, std::string body,
                      std::vector<Header> headers, std::shared_ptr<BodyReader> incoming = nullptr) {
    Request request;
    request.method = std::move(method);
    request.has_body = !body.empty() || incoming != nullptr;
    request.incoming = std::move(incoming);
    request.body = std::move(body);
    request.headers = std::move(headers);
    request.headers.push_back({"authorization", "Bearer " + secret_});
    EXPECT_TRUE(parseTarget(target, request));
    std::optional<Response> refused = co_await router_->admit(request);
    const Response response = refused ? *std::move(refused) : co_await router_->handle(request);
    Collected collected;
    collected.body = response.body;
    if (response.stream) co_await response.stream(collected);
    co_return Answer{response.status, response.headers, std::move(collected.body)};
  }
  Answer request(const std::string& method, const std::string& target, const std::string& body = "",
                 std::vector<Header> headers = {}) {
    return await(answer(method, target, body, std::move(headers)));
  }
  std::string made(const std::string& body = "{}") {
    const Answer created = request("POST", "/v1/sessions", body);
    EXPECT_EQ(created.status, 201) << created.body;
    return "/v1/sessions/" + created.text("id");
  }

  boost::asio::thread_pool background_{1};
  ServiceMetrics served_;
  std::unique_ptr<auth::Authenticator> authenticator_;
  std::unique_ptr<orchestrator::ArtifactService> artifacts_;
  std::unique_ptr<orchestrator::PortLinks> links_;
  std::unique_ptr<orchestrator::SnapshotService> snapshots_;
  std::unique_ptr<orchestrator::EscalationService> escalations_;
  std::unique_ptr<RestParts> parts_;
  std::unique_ptr<Router> router_;
  std::string secret_;
};

}  // namespace cloister::api
