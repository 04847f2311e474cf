// SPDX-License-Identifier: Apache-2.0
// The REST API through its router, over the real services and the fake runtime, for tests.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "api/parts_fixture.h"

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

class RestTest : public PartsTest {
 protected:
  void serve() {
    open();
    makeParts({.quota = {.artifacts = 100, .bytes = 1 << 20}});
    router_ = std::make_unique<Router>(restRoutes(*parts_), *authenticator_, served_);
  }

  // `incoming`: the body for a handler that reads a stream.
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

  std::unique_ptr<Router> router_;
};

}  // namespace cloister::api
