// SPDX-License-Identifier: Apache-2.0
// /mcp through the router, in both eras, over the real service and the fake runtime.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "api/mcp/definitions.h"
#include "api/mcp/server.h"
#include "api/parts_fixture.h"
#include "base/file.h"

namespace cloister::api::mcp {

struct Told {
  int status = 0;
  std::vector<Header> headers;
  std::string body;

  [[nodiscard]] json::object message() const { return base::parseJson(body).value().as_object(); }
  [[nodiscard]] json::object result() const { return objectIn(message(), "result"); }
  [[nodiscard]] json::object facts() const { return objectIn(result(), "structuredContent"); }
  [[nodiscard]] int error() const {
    const json::object error = objectIn(message(), "error");
    return error.contains("code") ? static_cast<int>(error.at("code").as_int64()) : 0;
  }
  [[nodiscard]] bool isError() const { return result().at("isError").as_bool(); }
  [[nodiscard]] std::string text() const {
    return textIn(result().at("content").as_array().at(0).as_object(), "text");
  }
  [[nodiscard]] std::string header(std::string_view name) const {
    const auto found = std::ranges::find(headers, name, &Header::name);
    return found == headers.end() ? "" : found->value;
  }
};

class McpServerTest : public PartsTest {
 protected:
  // `definitions`: the file spec/mcp.json
  void serve(const std::string& definitions, Extras extras) {
    open();
    makeParts();
    const auto text = base::readFile(definitions);
    ASSERT_TRUE(text) << text.error().message;
    auto made =
        Server::make(io_->get_executor(), *parts_, fillIn(*text, *parts_, settings_), settings_);
    ASSERT_TRUE(made) << made.error().message;
    server_ = *std::move(made);
    server_->offer(std::move(extras));
    router_ = std::make_unique<Router>(server_->routes(), *authenticator_, served_);
    router_->onLook([this] { server_->lookAtCredentials(); });
  }

  Task<Told> answer(std::string method, std::string body, std::vector<Header> headers, bool key) {
    Request request;
    request.method = std::move(method);
    request.local = true;
    request.has_body = !body.empty();
    request.body = std::move(body);
    request.headers = std::move(headers);
    if (key) request.headers.push_back({"authorization", "Bearer " + secret_});
    request.when_closed = [this](std::function<void()> act) { gone_ = std::move(act); };
    EXPECT_TRUE(parseTarget("/mcp", request));
    std::optional<Response> refused = co_await router_->admit(request);
    const Response response = refused ? *std::move(refused) : co_await router_->handle(request);
    Collected collected;
    collected.body = response.body;
    if (response.stream) co_await response.stream(collected);
    co_return Told{response.status, response.headers, std::move(collected.body)};
  }
  Told post(const std::string& body, std::vector<Header> headers = {}, bool key = true) {
    return await(answer("POST", body, std::move(headers), key));
  }

  static json::object message(std::string_view method, json::object params, json::object about) {
    about[meta::kVersion] = kModernVersion;
    if (!about.contains(meta::kCapabilities)) about[meta::kCapabilities] = json::object();
    params["_meta"] = std::move(about);
    return {{"jsonrpc", "2.0"}, {"id", 1}, {"method", method}, {"params", std::move(params)}};
  }
  static std::vector<Header> headersOf(std::string_view method, const json::object& params) {
    std::vector<Header> headers = {{"mcp-protocol-version", std::string(kModernVersion)},
                                   {"mcp-method", std::string(method)}};
    const std::string name = textIn(params, method == "resources/read" ? "uri" : "name");
    if (!name.empty()) headers.push_back({"mcp-name", name});
    return headers;
  }
  Told modern(std::string_view method, const json::object& params = {},
              const json::object& about = {}, bool key = true) {
    return post(base::toJson(message(method, params, about)), headersOf(method, params), key);
  }
  Told tool(std::string_view name, json::object arguments, const json::object& about = {}) {
    return modern("tools/call", {{"name", name}, {"arguments", std::move(arguments)}}, about);
  }
  std::vector<Header> initialized(const std::string& version = "2025-11-25") {
    const Told told = post(base::toJson(json::object{
        {"jsonrpc", "2.0"},
        {"id", 1},
        {"method", "initialize"},
        {"params",
         {{"protocolVersion", version}, {"capabilities", {{"elicitation", json::object()}}}}}}));
    EXPECT_EQ(told.status, 200) << told.body;
    return {{"mcp-session-id", told.header("Mcp-Session-Id")}, {"mcp-protocol-version", version}};
  }

  Settings settings_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<Router> router_;
  std::function<void()> gone_;
};

}  // namespace cloister::api::mcp
