// SPDX-License-Identifier: Apache-2.0
#include "model/packages.h"

#include <gtest/gtest.h>

#include "model/config.h"
#include "model/network.h"
#include "model/package_selector.h"

namespace cloister::model {
namespace {

const std::string kHex(64, '0');

PlanPackages rich() {
  PlanPackages packages;
  packages.ecosystems = {Ecosystem::kPypi, Ecosystem::kNpm};
  packages.rules = {.undated_allowed = true,
                    .cooldown_days = 7,
                    .sdists_allowed = true,
                    .scripts_allowed = true,
                    .allow = {"numpy>=1.26,<3", "@scope/*"},
                    .deny = {"pypi:evil"},
                    .pins = {"pypi:demo==1.0 sha256:" + kHex},
                    .max_bytes = 1000};
  packages.cutoff = "2026-01-02T03:04:05Z";
  return packages;
}

NetworkPlan planWith(std::optional<PlanPackages> packages) {
  NetworkPlan plan;
  plan.permit = "permit_1";
  plan.tier = "restricted";
  plan.tenant = "t";
  plan.packages = std::move(packages);
  return plan;
}

TEST(PackagesTest, ArePartOfAPlan) {
  for (const auto& packages : {std::optional<PlanPackages>(), std::optional(rich()),
                               std::optional(PlanPackages{.ecosystems = {Ecosystem::kNpm}})}) {
    const NetworkPlan plan = planWith(packages);
    const auto again = decodePlan(encodePlan(plan));
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_EQ(*again, plan);
  }
}

TEST(PackagesTest, MalformedOnesEndAPlan) {
  const std::string good = encodePlan(planWith(rich()));
  const std::pair<const char*, const char*> changes[] = {
      {R"(["pypi","npm"])", "[]"},
      {R"(["pypi","npm"])", R"(["pypi","pypi"])"},
      {R"(["pypi","npm"])", R"(["cargo"])"},
      {"2026-01-02T03:04:05Z", "soon"},
      {"\"allow\"", "\"allowed\""},
      {"pypi:evil", "evil evil"},
      {"\"max_bytes\":1000", "\"max_bytes\":0"},
      {"\"scripts\":\"allow\"", "\"scripts\":\"yes\""}};
  for (const auto& [from, to] : changes) {
    std::string bad = good;
    const size_t at = bad.find(from);
    ASSERT_NE(at, std::string::npos) << from << " in " << good;
    bad.replace(at, std::string_view(from).size(), to);
    EXPECT_FALSE(decodePlan(bad)) << bad;
  }
}

TEST(PackagesTest, Selectors) {
  const auto read = [](std::string_view text) {
    auto selector = readPackageSelector(text);
    EXPECT_TRUE(selector) << text;
    return selector.value_or(PackageSelector{});
  };
  EXPECT_TRUE(read("Foo_Bar").covers(Ecosystem::kPypi, "foo-bar"));
  EXPECT_FALSE(read("Foo_Bar").covers(Ecosystem::kNpm, "foo-bar"));
  EXPECT_TRUE(read("@scope/*").covers(Ecosystem::kNpm, "@scope/a"));
  EXPECT_FALSE(read("@scope/*").covers(Ecosystem::kNpm, "@scopes/a"));
  EXPECT_TRUE(read("acme-*").covers(Ecosystem::kPypi, "acme-tools"));
  EXPECT_FALSE(read("npm:left-pad").covers(Ecosystem::kPypi, "left-pad"));
  const PackageSelector numpy = read("numpy >= 1.26, <3");
  EXPECT_TRUE(numpy.meetsAll(Ecosystem::kPypi, "2.0"));
  EXPECT_FALSE(numpy.meetsAll(Ecosystem::kPypi, "3.0"));
  EXPECT_FALSE(numpy.meetsAll(Ecosystem::kPypi, "no version"));
  EXPECT_TRUE(read("npm:a^1.2.0").meetsAll(Ecosystem::kNpm, "1.9.0"));
  for (const char* text : {"", "*", "pypi:-x", "a b", "numpy>", "numpy>=", "numpy=1", "numpy~=1",
                           "pypi:@a/b", "../x", "a/b", "@a/b/c", "cargo:x", "numpy>=1.0rc1"}) {
    EXPECT_FALSE(readPackageSelector(text)) << text;
  }
}

TEST(PackagesTest, Pins) {
  const auto pin = readPackagePin("Demo==1.0 sha256:" + kHex);
  ASSERT_TRUE(pin);
  EXPECT_TRUE(pin->covers(Ecosystem::kPypi, "demo", "1.0.0"));
  EXPECT_FALSE(pin->covers(Ecosystem::kPypi, "demo", "1.1"));
  EXPECT_FALSE(pin->covers(Ecosystem::kNpm, "demo", "1.0"));
  for (const std::string& text :
       {std::string("demo==1.0"), std::string("demo==1.0 sha256:12"), "demo sha256:" + kHex,
        "demo==x sha256:" + kHex, "demo==1.0 md5:" + kHex,
        "demo==1.0 sha256:" + std::string(64, 'G')}) {
    EXPECT_FALSE(readPackagePin(text)) << text;
  }
}

TEST(PackagesTest, Names) {
  for (const char* name : {"a", "foo.bar", "Foo_Bar-1"})
    EXPECT_TRUE(isPackageName(Ecosystem::kPypi, name)) << name;
  for (const char* name : {"", ".", "..", "-a", "a-", "a/b", "a%2fb", "a b", "\xc3\xa4"})
    EXPECT_FALSE(isPackageName(Ecosystem::kPypi, name)) << name;
  for (const char* name : {"a", "@a/b", "JSONStream", "a.b~c"})
    EXPECT_TRUE(isPackageName(Ecosystem::kNpm, name)) << name;
  for (const char* name :
       {"", "..", ".a", "_a", "@a", "@/a", "@a/", "@a/b/c", "a/b", "@a/..", "a\\b"})
    EXPECT_FALSE(isPackageName(Ecosystem::kNpm, name)) << name;
}

TEST(PackagesTest, Configuration) {
  const auto config = parseConfig(R"(
packages:
  pypi:
    index: https://pypi.org/simple/
    credentials_file: /etc/cloister/pypi
    file_hosts: [files.example.com]
  npm: {registry: "http://registry.internal:4873"}
  rules: {undated: allow, cooldown_days: 7, deny: [evil]}
  tenants:
    acme: {rules: {cooldown_days: 1, scripts: allow}}
)",
                                  "test");
  ASSERT_TRUE(config) << config.error().message;
  const PackageSettings& packages = config->packages;
  EXPECT_EQ(packages.ecosystems().size(), 2U);
  EXPECT_EQ(packages.npm.index, "http://registry.internal:4873");
  EXPECT_EQ(packages.rulesOf("other").cooldown_days, 7U);
  EXPECT_EQ(packages.rulesOf("acme").cooldown_days, 1U);
  EXPECT_TRUE(packages.rulesOf("acme").undated_allowed);
  EXPECT_TRUE(packages.rulesOf("acme").scripts_allowed);
  EXPECT_FALSE(packages.rulesOf("other").scripts_allowed);
  EXPECT_TRUE(packages.weakness().contains("packages.npm.registry"));
  EXPECT_FALSE(packages.weakness().contains("pypi"));
}

TEST(PackagesTest, BadConfiguration) {
  const std::pair<const char*, const char*> cases[] = {
      {"pypi: {index: ftp://x}", "packages.pypi.index"},
      {"pypi: {index: wheels}", "packages.pypi.index"},
      {"pypi: {index: 'https://user:secret@x/simple'}", "packages.pypi.index"},
      {"pypi: {credentials_file: /x}", "packages.pypi.credentials_file"},
      {"npm: {registry: /folder, credentials_file: /x}", "packages.npm.credentials_file"},
      {"pypi: {file_hosts: ['https://x']}", "packages.pypi.file_hosts[0]"},
      {"rules: {undated: maybe}", "packages.rules.undated"},
      {"rules: {allow: ['a b']}", "packages.rules.allow[0]"},
      {"rules: {pins: [demo]}", "packages.rules.pins[0]"},
      {"advisories: folder", "packages.advisories"},
      {"tenants: {acme: {cooldown_days: 1}}", "packages.tenants.acme"},
      {"tenants: {acme: {rules: {sdist: allow}}}", "packages.tenants.acme"},
      {"tenants: []", "packages.tenants"}};
  EXPECT_FALSE(parseConfig("packages.tenants: {acme: {rules: {scripts: allow}}}", "test"));
  for (const auto& [text, field] : cases) {
    const auto config = parseConfig(std::string("packages: {") + text + "}", "test");
    ASSERT_FALSE(config) << text;
    EXPECT_EQ(config.error().field, field) << config.error().message;
    EXPECT_FALSE(config.error().message.contains("secret")) << config.error().message;
  }
}

TEST(PackagesTest, Environment) {
  EXPECT_TRUE(packageEnvironment({}).empty());
  const auto env = packageEnvironment({Ecosystem::kPypi});
  const auto value = [&](std::string_view name) {
    for (const auto& [key, text] : env)
      if (key == name) return text;
    return std::string("absent");
  };
  EXPECT_EQ(value("PIP_INDEX_URL"), "http://pypi.cloister.internal/simple");
  EXPECT_EQ(value("PYTHONUSERBASE"), "/home/user/.local");
  EXPECT_EQ(value("npm_config_registry"), "absent");
}

}  // namespace
}  // namespace cloister::model
