// SPDX-License-Identifier: Apache-2.0
#include "model/config.h"

#include <regex>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"

namespace cloister::model {
namespace {

using testing::HasSubstr;

std::string problem(std::string_view yaml) {
  const auto config = parseConfig(yaml, "c.yaml");
  return config ? "" : config.error().message;
}

TEST(Config, NothingGivesTheDefaults) {
  const auto config = parseConfig("", "c.yaml");
  ASSERT_TRUE(config);
  EXPECT_EQ(config->listen, "127.0.0.1:8750");
  EXPECT_EQ(config->durability, Durability::kProcess);
  EXPECT_EQ(config->limits, defaultBounds().max);
  EXPECT_TRUE(parseConfig("http:\nrun:\n", "c.yaml"));
}

TEST(Config, EveryKindOfValue) {
  const auto config = parseConfig(
      "listen: 0.0.0.0:80\n"
      "durability: power\n"
      "http: {allowed_hosts: [a.example, b.example], max_connections: 10}\n"
      "limits:\n  timeout_seconds: 90\n  memory_mb: 64\n"
      "retention: {keep_at_most: 1_000_000_000, every_seconds: 5}\n",
      "c.yaml");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->listen, "0.0.0.0:80");
  EXPECT_EQ(config->durability, Durability::kPower);
  EXPECT_EQ(config->http.allowed_hosts, (std::vector<std::string>{"a.example", "b.example"}));
  EXPECT_EQ(config->http.max_connections, 10u);
  EXPECT_EQ(config->limits.wall, std::chrono::seconds(90));
  EXPECT_EQ(config->limits.memory_bytes, uint64_t{64} << 20);
  EXPECT_EQ(config->retention.keep_at_most, 1'000'000'000u);
  EXPECT_EQ(config->retention.every_seconds, 5u);
}

TEST(Config, OriginsAndDomainsAreExact) {
  const auto good = parseConfig(
      "api: {cors_origins: ['https://app.example', 'http://localhost:5173', 'http://[::1]:80']}\n"
      "ports: {domain: 'boxes.example:8750'}\n",
      "c.yaml");
  EXPECT_FALSE(good) << "80 is the scheme's own port, which browsers leave out";
  EXPECT_TRUE(parseConfig("api: {cors_origins: ['http://[::1]:81', 'http://localhost:5173']}", ""));
  for (const char* origin : {"*", "app.example", "https://app.example/", "https://App.example",
                             "https://app.example:443", "ftp://app.example", "https://", "null"})
    EXPECT_THAT(problem("api: {cors_origins: ['" + std::string(origin) + "']}"),
                HasSubstr("api.cors_origins: has \"" + std::string(origin)));
  EXPECT_EQ(parseConfig("ports: {domain: 'a-1.example:80'}", "")->ports.domain, "a-1.example:80");
  for (const char* domain :
       {"https://a.example", "A.example", "a..example", ".example", "-a.example",
        "a.example:", "a.example:x", "a_b.example", "a.example/x", "*.example"})
    EXPECT_THAT(problem("ports: {domain: '" + std::string(domain) + "'}"),
                HasSubstr("ports.domain: must be a domain name"));
}

TEST(Config, WhatARevokedKeyEndsIsSaidInWords) {
  EXPECT_EQ(parseConfig("", "c.yaml")->auth.on_revoke, OnRevoke::kFinish);
  EXPECT_EQ(parseConfig("auth: {on_revoke: finish}", "c.yaml")->auth.on_revoke, OnRevoke::kFinish);
  EXPECT_EQ(parseConfig("auth: {on_revoke: end}", "c.yaml")->auth.on_revoke, OnRevoke::kEnd);
  EXPECT_THAT(problem("auth: {on_revoke: kill}"),
              HasSubstr("auth.on_revoke: must be finish or end"));
}

TEST(Config, AnUnknownKeyIsRefusedWithTheNearest) {
  EXPECT_THAT(problem("http:\n  body_byte: 1024\n"),
              HasSubstr("http.body_byte: unknown key; did you mean http.body_bytes?"));
  EXPECT_THAT(problem("lisen: a\n"), HasSubstr("did you mean listen?"));
  EXPECT_THAT(problem("colour: blue\n"), HasSubstr("colour: unknown key"));
  EXPECT_EQ(parseConfig("colour: blue\n", "c").error().field, "colour");
}

TEST(Config, WrongValuesNameTheKeyAndTheRange) {
  EXPECT_THAT(problem("run: {queue: 0}"), HasSubstr("run.queue: must be a whole number from 1 to"));
  EXPECT_THAT(problem("run: {queue: many}"), HasSubstr("run.queue: must be a whole number"));
  EXPECT_THAT(problem("run: {queue: 1.5}"), HasSubstr("run.queue: must be a whole number"));
  EXPECT_THAT(problem("run: {queue: -1}"), HasSubstr("run.queue: must be a whole number"));
  EXPECT_THAT(problem("run: {queue: 99999999999999999999}"), HasSubstr("run.queue"));
  EXPECT_THAT(problem("run: 3"), HasSubstr("run: must be a map"));
  EXPECT_THAT(problem("listen: [a]"), HasSubstr("listen: must be text"));
  EXPECT_THAT(problem("durability: later"), HasSubstr("durability: must be process or power"));
  EXPECT_THAT(problem("pool: {zygote_per_tenant: 1}"), HasSubstr("must be true or false"));
  EXPECT_THAT(problem("pool: {spare_memory_percent: 91}"), HasSubstr("from 0 to 90"));
  EXPECT_THAT(problem("pool: {floor: 9}"), HasSubstr("pool.floor: must be at most pool.ready"));
  EXPECT_EQ(parseConfig("pool: {floor: 9}", "c").error().field, "pool.floor");
  EXPECT_TRUE(parseConfig("pool: {floor: 9, ready: 9}", "c"));
  for (const char* cgroup : {"../x", "/x", "a//b", "a/..", ".", "''", "a/", "a b"}) {
    const std::string said = problem("node: {cgroup_parent: " + std::string(cgroup) + "}");
    EXPECT_THAT(said, HasSubstr("node.cgroup_parent: must be a name")) << cgroup;
  }
  EXPECT_TRUE(parseConfig("node: {cgroup_parent: machine.slice/cloister-2}", "c"));
  EXPECT_THAT(problem("escalation: {safe_operations: [file_read, file_raed]}"),
              HasSubstr("escalation.safe_operations: has \"file_raed\"; must be of file_read, "));
  EXPECT_THAT(problem("escalation: {safe_operations: [run]}"), HasSubstr("a run never is"));
  EXPECT_TRUE(parseConfig("escalation: {safe_operations: [file_read, network]}", "c"));
  EXPECT_THAT(problem("http: {allowed_hosts: a}"), HasSubstr("must be a list of text"));
  EXPECT_THAT(problem("listen: a\nlisten: b\n"), HasSubstr("listen: given twice"));
  EXPECT_THAT(problem("- a\n"), HasSubstr("the file: must be a map"));
  EXPECT_THAT(problem("a: [b\n"), HasSubstr("reading c.yaml"));
  EXPECT_THAT(problem("run: {queue: 5}\n---\nrun: {queue: 6}\n"), HasSubstr("one document"));
  EXPECT_THAT(problem(","), HasSubstr("one document"));  // yaml-cpp would find documents here
                                                         // without end
}

TEST(Config, TheDestinationsOfTheNetwork) {
  const auto config = parseConfig(
      "egress: {resolver: \"192.0.2.53:53\", internal: [\"git.corp.example:443\", 10.1.0.0/16], "
      "pool: 10.64.0.0/16, upstream: \"http://proxy.example.com:3128\", ask_seconds: 5, "
      "connections_per_second: 7, open_connections: 8, idle_seconds: 9, attempts_kept: 300}",
      "c.yaml");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->egress.ask_seconds, 5U);
  EXPECT_EQ(config->egress.connections_per_second, 7U);
  EXPECT_EQ(config->egress.open_connections, 8U);
  EXPECT_EQ(config->egress.idle_seconds, 9U);
  EXPECT_EQ(config->egress.attempts_kept, 300U);
  const auto internal = readInternal(config->egress.internal);
  ASSERT_TRUE(internal) << internal.error().message;
  ASSERT_EQ(internal->names.size(), 1U);
  EXPECT_EQ(internal->names[0].name, "git.corp.example");
  EXPECT_EQ(internal->names[0].ports, std::vector<uint16_t>{443});
  EXPECT_EQ(internal->networks, std::vector<std::string>{"10.1.0.0/16"});
}

TEST(Config, WrongDestinationsNameTheKey) {
  const auto field = [](const std::string& member) {
    const auto config = parseConfig("egress: {" + member + "}", "c.yaml");
    return config ? "none" : config.error().field;
  };
  for (const char* text : {"192.0.2.53", "dns.example.com:53", "192.0.2.53:0", "2001:db8::53:53"})
    EXPECT_EQ(field("resolver: \"" + std::string(text) + "\""), "egress.resolver") << text;
  EXPECT_EQ(field("resolver: \"[2001:db8::53]:53\""), "none");
  for (const char* text : {"10.1.2.3/16", "git.corp.example", "git.corp.example:443/x"})
    EXPECT_EQ(field("internal: [\"" + std::string(text) + "\"]"), "egress.internal[0]") << text;
  for (const char* text : {"198.18.0.1", "198.18.0.0/8", "198.18.0.0/30", "fd00::/16", "x"})
    EXPECT_EQ(field("pool: \"" + std::string(text) + "\""), "egress.pool") << text;
  for (const char* text :
       {"proxy.example.com:3128", "ftp://proxy.example.com:3128", "https://proxy.example.com",
        "http://proxy.example.com", "http://u:p@proxy.example.com:3128"})
    EXPECT_EQ(field("upstream: \"" + std::string(text) + "\""), "egress.upstream") << text;
  for (const char* text : {"http://192.0.2.1:3128", "https://proxy.example.com:3128"})
    EXPECT_EQ(field("upstream: \"" + std::string(text) + "\""), "none") << text;
  EXPECT_EQ(field("upstream: \"https://192.0.2.1:3128\", ca_file: /x"), "none");
  EXPECT_EQ(field("ca_file: /x"), "none");
  EXPECT_EQ(field("upstream_credentials_file: /x"), "egress.upstream_credentials_file");
}

TEST(Config, PullsOfImages) {
  const auto config = parseConfig(
      "images:\n  mirrors: {docker.io: [https://a.example, https://b.example], ghcr.io: []}\n"
      "  keys: [/k.pub]\n  require_signature: true\n  unsigned: [r.example/*]\n",
      "c.yaml");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->images.mirrors.at("docker.io"),
            (std::vector<std::string>{"https://a.example", "https://b.example"}));
  EXPECT_TRUE(config->images.mirrors.at("ghcr.io").empty());
  EXPECT_EQ(config->images.unsigned_images, std::vector<std::string>{"r.example/*"});
  EXPECT_THAT(problem("images: {mirrors: [a]}"), HasSubstr("images.mirrors: must be a map"));
  EXPECT_THAT(problem("images: {mirrors: {a: b}}"), HasSubstr("must be a list of text"));
  EXPECT_THAT(problem("images: {mirrors: {a: [], a: []}}"), HasSubstr("names each key once"));
  EXPECT_THAT(problem("images: {require_signature: true}"), HasSubstr("needs images.keys"));
  EXPECT_THAT(problem("images: {severity: worst}"), HasSubstr("low, medium, high or critical"));
  EXPECT_THAT(problem("images: {deny: ['']}"), HasSubstr("images.deny: has an empty text"));
  EXPECT_EQ(parseConfig("images: {deny: ['']}", "c").error().field, "images.deny");
}

TEST(Config, DefaultsLieInTheirRanges) {
  for (const ConfigKey& key : configKeys()) {
    const size_t to = key.range.find(" to ");
    if (to == std::string::npos) continue;
    const uint64_t value = std::stoull(key.default_value);
    EXPECT_GE(value, std::stoull(key.range.substr(0, to))) << key.path;
    EXPECT_LE(value, std::stoull(key.range.substr(to + 4))) << key.path;
  }
}

// Writing a default into a file has no effect.
TEST(Config, DefaultsReadBack) {
  for (const ConfigKey& key : configKeys()) {
    const size_t dot = key.path.find('.');
    const std::string yaml = dot == std::string::npos
                                 ? key.path + ": " + key.default_value
                                 : key.path.substr(0, dot) + ": {" + key.path.substr(dot + 1) +
                                       ": " + key.default_value + "}";
    EXPECT_EQ(problem(yaml), "");
  }
}

// The installed file changes nothing; each setting is valid after removing its "#".
TEST(Config, TheExampleIsValid) {
  const auto text = base::readFile(CLOISTER_SOURCE_DIR "/deploy/cloister.yaml");
  ASSERT_TRUE(text);
  EXPECT_EQ(problem(*text), "");
  const std::string set =
      std::regex_replace(*text, std::regex("(^|\n)#(?=(  )*[a-z_]+:( |\n))"), "$1");
  const auto config = parseConfig(set, "cloister.yaml");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->policy.document, "/etc/cloister/policy.yaml");
  EXPECT_EQ(config->audit.publish.file, "/mnt/write-once/cloister.checkpoints");
  const Config defaults;
  EXPECT_EQ(config->run.queue, defaults.run.queue);
  EXPECT_EQ(config->limits, defaults.limits);
  EXPECT_EQ(config->node.max_sandboxes, defaults.node.max_sandboxes);
  EXPECT_EQ(config->images.verify_seconds, defaults.images.verify_seconds);
}

TEST(Config, TheDocumentationHasExactlyTheseRows) {
  const auto text = base::readFile(CLOISTER_SOURCE_DIR "/docs/CONFIGURATION.md");
  ASSERT_TRUE(text);
  size_t rows = 0;
  for (size_t at = text->find("\n| `"); at != std::string::npos; at = text->find("\n| `", at + 1))
    ++rows;
  EXPECT_EQ(rows, configKeys().size());
  for (const ConfigKey& key : configKeys()) {
    const std::string type = key.unit.empty() ? key.type : key.unit;
    const std::string range = key.range.empty() ? "" : ", " + key.range;
    const std::string row =
        "\n| `" + key.path + "` | " + type + range + " | `" + key.default_value + "` | ";
    EXPECT_THAT(*text, HasSubstr(row));
  }
}

}  // namespace
}  // namespace cloister::model
