// SPDX-License-Identifier: Apache-2.0
#include "model/dependency.h"

#include <gmock/gmock.h>

#include "base/crypto.h"

namespace cloister::model {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> pypi(const std::vector<std::string>& deps) {
  const auto all = canonicalDeps(Ecosystem::kPypi, deps);
  EXPECT_TRUE(all) << all.error().message;
  return all.value_or(std::vector<std::string>{});
}

TEST(Deps, OneSpellingForOneRequirement) {
  EXPECT_THAT(pypi({"Zope.Interface >= 5, < 7", "zope_interface>=5,<7", " numpy==1.26.4 "}),
              ElementsAre("numpy==1.26.4", "zope-interface>=5,<7"));
  EXPECT_THAT(pypi({"Requests [socks] ~= 2.31 ; python_version >= '3.9'"}),
              ElementsAre("requests[socks]~=2.31;python_version >= '3.9'"));
  EXPECT_THAT(
      canonicalDeps(Ecosystem::kNpm, {"lodash@^4.17.0", "@scope/pkg", "left-pad@1.3.0"}).value(),
      ElementsAre("@scope/pkg", "left-pad@1.3.0", "lodash@^4.17.0"));
}

TEST(Deps, WhatIsNoPackageIsRefusedByName) {
  for (const char* dep :
       {"", "-r requirements.txt", "--index-url=http://evil.example", "./local", "/etc/passwd",
        "https://evil.example/a.whl", "name @ https://evil.example/a.whl", "a b", "numpy==1;$(id)",
        "git+https://evil.example/x", "numpy\n--pre", "pkg[extra", "..", "-e ."}) {
    const auto refused = canonicalDeps(Ecosystem::kPypi, {dep});
    ASSERT_FALSE(refused) << dep;
    EXPECT_EQ(refused.error().field, "deps") << dep;
    EXPECT_THAT(refused.error().message, HasSubstr("name packages as")) << dep;
  }
  for (const char* dep :
       {"", "--registry=http://evil.example", "a@http://evil.example/x.tgz", "a@file:../b",
        "user/repo", "@scope", "@/x", "a@npm:b@1", ".hidden", "a@git+ssh://x", "a b"}) {
    EXPECT_FALSE(canonicalDeps(Ecosystem::kNpm, {dep})) << dep;
  }
}

TEST(DepsFrom, AScriptNamesItsRequirements) {
  EXPECT_THAT(depsOfScript("#!/usr/bin/env python3\n# /// script\n# requires-python = \">=3.9\"\n"
                           "# dependencies = [\n#   \"requests<3\",  # for http\n#   'rich',\n# ]\n"
                           "# [tool.x]\n# dependencies = [\"no\"]\n# ///\nimport requests\n")
                  .value(),
              ElementsAre("requests<3", "rich"));
  EXPECT_TRUE(depsOfScript("print(1)\n").value().empty());
  EXPECT_TRUE(
      depsOfScript("# /// script\n# [tool]\n# dependencies = ['x']\n# ///\n").value().empty());
  EXPECT_FALSE(depsOfScript("# /// script\n# dependencies = ['x']\nprint(1)\n"));
  EXPECT_FALSE(depsOfScript("# /// script\n# dependencies = ['x'\n# ///\n"));
}

TEST(DepsFrom, FilesNameTheirRequirements) {
  EXPECT_THAT(depsOfRequirements("# all\nnumpy==1.26.4  # fast\n\n  rich\n").value(),
              ElementsAre("numpy==1.26.4", "rich"));
  EXPECT_FALSE(depsOfRequirements("--index-url https://evil.example\nnumpy\n"));
  EXPECT_FALSE(depsOfRequirements("-r other.txt\n"));
  EXPECT_THAT(depsOfPackageJson(R"({"dependencies":{"a":"^1.0.0","b":"*"}})").value(),
              ElementsAre("a@^1.0.0", "b"));
  EXPECT_FALSE(depsOfPackageJson(R"({"dependencies":["a"]})"));
  EXPECT_FALSE(depsOfPackageJson("[]"));
}

TEST(Lock, OfPipHasNamesVersionsAndHashes) {
  const auto packages = lockOfPip(
      R"({"version":"1","install":[)"
      R"({"metadata":{"name":"Zope.Interface","version":"6.0","license":"ZPL"},)"
      R"("download_info":{"url":"http://pypi.cloister.internal/files/zope.interface-6.0-cp311.whl#x",)"
      R"("archive_info":{"hash":"sha256=aa"}}},)"
      R"({"metadata":{"name":"abc","version":"1"},"download_info":{"url":"http://h/abc-1.whl",)"
      R"("archive_info":{}}}]})");
  ASSERT_TRUE(packages) << packages.error().message;
  EXPECT_THAT(*packages,
              ElementsAre(LockedPackage{"abc", "1", "abc-1.whl", "", "", ""},
                          LockedPackage{"zope-interface", "6.0", "zope.interface-6.0-cp311.whl",
                                        "aa", "", "ZPL"}));
  EXPECT_FALSE(lockOfPip("{}"));
  EXPECT_FALSE(lockOfPip("{\"install\":[{}]}"));
}

TEST(Lock, OfNpmHasNestedPackagesToo) {
  const auto packages = lockOfNpm(
      R"({"packages":{"":{"name":"x"},"node_modules/a":{"version":"1.0.0","license":"MIT",)"
      R"("resolved":"http://npm.cloister.internal/a/-/a-1.0.0.tgz","integrity":"sha512-/wA="},)"
      R"("node_modules/a/node_modules/@s/b":{"version":"2.0.0"},)"
      R"("node_modules/alias":{"name":"real","version":"3.0.0"}}})");
  ASSERT_TRUE(packages) << packages.error().message;
  EXPECT_THAT(*packages,
              ElementsAre(LockedPackage{"@s/b", "2.0.0", "", "", "", ""},
                          LockedPackage{"a", "1.0.0", "a-1.0.0.tgz", "", "sha512:ff00", "MIT"},
                          LockedPackage{"real", "3.0.0", "", "", "", ""}));
}

DependencyLayer layer() {
  return {.key = "k",
          .tenant = "",
          .maker = "acme",
          .ecosystem = Ecosystem::kNpm,
          .deps = {"a"},
          .digest = "sha256:" + std::string(64, 'a'),
          .size_bytes = 5,
          .files = 2,
          .packages = {{"@s/b", "2.0.0", "b.tgz", "", "sha512:ff00", "MIT"}},
          .made_at = 7,
          .used_at = 9,
          .users = {"acme", "other"}};
}

TEST(Layer, ComesBackFromItsJson) {
  const auto back = parseDependencyLayer(base::toJson(toJsonObject(layer())));
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(*back, layer());
}

TEST(Layer, EachInputChangesTheKey) {
  const LayerInputs inputs{.tenant = "",
                           .ecosystem = Ecosystem::kPypi,
                           .image = "host",
                           .deps = {"a"},
                           .rules = {},
                           .day = "2026-11-29"};
  std::vector<LayerInputs> others(6, inputs);
  others[0].tenant = "acme";
  others[1].ecosystem = Ecosystem::kNpm;
  others[2].image = "other";
  others[3].deps = {"b"};
  others[4].rules.cooldown_days = 7;
  others[5].day = "2026-11-30";
  EXPECT_EQ(layerKey(inputs), layerKey(LayerInputs(inputs)));
  for (const LayerInputs& other : others)
    EXPECT_NE(layerKey(inputs), layerKey(other));
}

TEST(Bill, NamesEachPackage) {
  const base::json::object bill = billOfMaterials(layer());
  EXPECT_EQ(bill.at("specVersion").as_string(), "1.5");
  const auto& component = bill.at("components").as_array().at(0).as_object();
  EXPECT_EQ(component.at("purl").as_string(), "pkg:npm/%40s/b@2.0.0");
  EXPECT_EQ(component.at("group").as_string(), "@s");
  EXPECT_EQ(component.at("name").as_string(), "b");
  const auto& hash = component.at("hashes").as_array().at(0).as_object();
  EXPECT_EQ(hash.at("alg").as_string(), "SHA-512");
  EXPECT_EQ(hash.at("content").as_string(), "ff00");
  EXPECT_EQ(billDigest(layer()), base::sha256Hex(base::toJson(bill)));
  DependencyLayer other = layer();
  other.used_at = 10;
  EXPECT_EQ(billDigest(other), billDigest(layer()));
  other.packages[0].version = "2.0.1";
  EXPECT_NE(billDigest(other), billDigest(layer()));
}

}  // namespace
}  // namespace cloister::model
