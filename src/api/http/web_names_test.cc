// SPDX-License-Identifier: Apache-2.0
#include "api/http/web_names.h"

#include <gtest/gtest.h>

#include "api/http/http.h"

namespace cloister::api {
namespace {

const std::string kId = "ses_01jd3v8k2n5x9q4r7t0wabcdef";
const std::string kLabel = "ses-01jd3v8k2n5x9q4r7t0wabcdef";

TEST(WebNames, APortIsNamedByHost) {
  for (const std::string& host :
       {"8000-" + kLabel + ".boxes.test", "8000-" + kLabel + ".BOXES.test.",
        "8000-" + kLabel + ".boxes.test:80", "8000-" + kLabel + ".boxes.test.:80",
        std::string("8000-SES-01JD3V8K2N5X9Q4R7T0WABCDEF.Boxes.Test")}) {
    const auto named = hostPortOf(host, "boxes.test:8750");
    ASSERT_TRUE(named) << host;
    EXPECT_EQ(named->session, kId) << host;
    EXPECT_EQ(named->port, 8000) << host;
  }
  for (const std::string& host :
       {"0-" + kLabel + ".boxes.test", "65536-" + kLabel + ".boxes.test",
        "-1-" + kLabel + ".boxes.test", kLabel + ".boxes.test", "8000" + kLabel + ".boxes.test",
        "8000-" + kLabel + "x.boxes.test", "8000-" + kLabel + ".a.boxes.test",
        std::string("8000-.boxes.test"), std::string(".boxes.test"),
        "8000-" + kId.substr(0, 20) + ".boxes.test"}) {
    const auto named = hostPortOf(host, "boxes.test");
    ASSERT_TRUE(named) << host;
    EXPECT_EQ(named->session, "") << host << " is of no session";
  }
  for (const std::string& host :
       {std::string("boxes.test"), "8000-" + kLabel + ".other.test", std::string("127.0.0.1:8750"),
        "8000-" + kLabel + ".xboxes.test", std::string("[::1]:80"), std::string()})
    EXPECT_FALSE(hostPortOf(host, "boxes.test")) << host;
  EXPECT_FALSE(hostPortOf("8000-" + kLabel + ".", ""));
}

TEST(WebNames, TheNameHasThePortThatClientsUse) {
  EXPECT_EQ(hostNameOf(kId, 80, "boxes.test", "api.test:8750"),
            "80-" + kLabel + ".boxes.test:8750");
  EXPECT_EQ(hostNameOf(kId, 80, "boxes.test:1", "api.test:8750"), "80-" + kLabel + ".boxes.test:1");
  for (const char* asked : {"api.test", "[::1]", "", "api.test:x", "api.test:1234567"})
    EXPECT_EQ(hostNameOf(kId, 80, "boxes.test", asked), "80-" + kLabel + ".boxes.test") << asked;
  const auto back = hostPortOf(hostNameOf(kId, 80, "boxes.test", "a:1"), "boxes.test");
  EXPECT_EQ(back->session, kId);
}

TEST(WebNames, OriginsAreExact) {
  const WebNames names{.origins = {"https://app.example"}};
  const auto listed = [&](std::vector<Header> headers) {
    Request request;
    request.headers = std::move(headers);
    return isListedOrigin(request, names);
  };
  EXPECT_TRUE(listed({{"origin", "https://app.example"}}));
  for (const char* origin : {"https://app.example.evil", "http://app.example", "null", "",
                             "https://app.example:1", "https://app.example/"})
    EXPECT_FALSE(listed({{"origin", origin}})) << origin;
  EXPECT_FALSE(listed({}));
  EXPECT_FALSE(listed({{"origin", "https://app.example"}, {"origin", "https://app.example"}}));
}

Request cameBy(std::string peer, std::vector<Header> headers, const std::string& base = "") {
  WebNames names{.base_path = base};
  names.proxies = {base::Network::parse("10.0.0.0/8").value()};
  Request request;
  request.peer = base::Address::parse(peer);
  request.headers = std::move(headers);
  noteWayHere(request, names);
  return request;
}

TEST(WebNames, OnlyATrustedProxyTellsTheWay) {
  const std::vector<Header> told = {{"host", "In.test:80"},
                                    {"x-forwarded-proto", "http, https"},
                                    {"x-forwarded-host", "evil.test, out.test:443"},
                                    {"x-forwarded-prefix", "/p/"},
                                    {"x-forwarded-for", "1.1.1.1, 2.2.2.2, 10.0.0.9"}};
  const Request by_proxy = cameBy("10.0.0.1", told, "/own");
  EXPECT_EQ(by_proxy.origin, "https://out.test");
  EXPECT_EQ(by_proxy.base_path, "/p");
  EXPECT_EQ(by_proxy.peer, base::Address::parse("2.2.2.2"));
  const Request direct = cameBy("11.0.0.1", told, "/own");
  EXPECT_EQ(direct.origin, "http://in.test");
  EXPECT_EQ(direct.base_path, "/own");
  EXPECT_EQ(direct.peer, base::Address::parse("11.0.0.1"));
  for (const char* host : {"a b", "a/b", "a@b", "a<", ""}) {
    const Request odd = cameBy("10.0.0.1", {{"host", "in.test"}, {"x-forwarded-host", host}});
    EXPECT_EQ(odd.origin, "http://in.test") << host;
  }
  EXPECT_EQ(cameBy("11.0.0.1", {{"host", "a b"}}).origin, "");
  for (const char* prefix : {"p", "//p", "/p//q", "/p/../q", "/./p", "/p?x", "/p%41", "/\\"}) {
    const Request odd = cameBy("10.0.0.1", {{"host", "a"}, {"x-forwarded-prefix", prefix}}, "/own");
    EXPECT_EQ(odd.base_path, "/own") << prefix;
  }
}

}  // namespace
}  // namespace cloister::api
