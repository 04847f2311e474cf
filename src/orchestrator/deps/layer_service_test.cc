// SPDX-License-Identifier: Apache-2.0
// LayerService over the real ledger. The makers of layers are the test's.
#include "orchestrator/deps/layer_service.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "async/spawn.h"
#include "base/crypto.h"
#include "orchestrator/runs/service_fixture.h"

namespace cloister::orchestrator {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

class LayersTest : public ServiceTest {
 protected:
  LayersTest() {
    config_.offered = {model::Ecosystem::kPypi};
    config_.is_public = [this](model::Ecosystem) { return public_; };
    config_.rules = [this](const std::string&) { return rules_; };
  }

  void openLayers() {
    open();
    auto opened = LayerService::open(
        *control_,
        [this](std::string tenant, model::LayerInputs inputs) {
          return makeLayer(std::move(tenant), std::move(inputs));
        },
        config_);
    ASSERT_TRUE(opened) << opened.error().message;
    layers_ = *std::move(opened);
  }

  // A layer of one package for each dependency, with its version behind "==".
  Task<Result<model::DependencyLayer>> makeLayer(std::string tenant, model::LayerInputs inputs) {
    made_.push_back(tenant);
    if (!fails_.empty()) co_return fail(Code::kInvalid, fails_);
    if (gate_) co_await gate_->wait();
    model::DependencyLayer layer;
    layer.key = model::layerKey(inputs);
    layer.tenant = inputs.tenant;
    layer.ecosystem = inputs.ecosystem;
    layer.deps = inputs.deps;
    layer.digest = "sha256:" + base::sha256Hex(layer.key);
    layer.size_bytes = size_;
    layer.files = 1;
    layer.made_at = layer.used_at = ++now_;
    for (const std::string& dep : inputs.deps) {
      const size_t at = dep.find("==");
      layer.packages.push_back({.name = dep.substr(0, at),
                                .version = at == std::string::npos ? "1.0" : dep.substr(at + 2),
                                .file = "",
                                .sha256 = "",
                                .hash = "",
                                .license = ""});
    }
    co_return layer;
  }

  static LayerRequest wanted(std::vector<std::string> deps, const std::string& tenant = "acme") {
    return {.principal = principal(tenant),
            .language = "python",
            .deps = std::move(deps),
            .image = "host"};
  }
  Result<Layered> make(std::vector<std::string> deps, const std::string& tenant = "acme") {
    return await(layers_->make(wanted(std::move(deps), tenant)));
  }
  static model::Principal admin() {
    model::Principal who = principal();
    who.roles = model::Role::kAdmin;
    return who;
  }
  // The first requirement of each layer.
  std::vector<std::string> listed(const model::Principal& who = admin()) {
    std::vector<std::string> deps;
    for (const model::DependencyLayer& each : layers_->list(who))
      deps.push_back(each.deps.front());
    return deps;
  }
  void advise(const std::string& name, const std::string& fixed) const {
    std::ofstream(dir_ + "/osv/GHSA-9.json")
        << R"({"id":"GHSA-9","affected":[{"package":{"ecosystem":"PyPI","name":")" << name
        << R"("},"ranges":[{"type":"ECOSYSTEM","events":[{"introduced":"0"},{"fixed":")" << fixed
        << R"("}]}]}]})";
  }
  void watchAdvisories() {
    std::filesystem::create_directory(dir_ + "/osv");
    config_.advisories = std::make_shared<model::AdvisoryFolder>(dir_ + "/osv", Millis(0));
  }

  LayerConfig config_;
  model::PackageRules rules_;
  bool public_ = true;
  std::shared_ptr<LayerService> layers_;
  std::vector<std::string> made_;  // the tenants
  std::string fails_;
  std::unique_ptr<async::Signal> gate_;
  uint64_t size_ = 100;
  int64_t now_ = 1;
};

TEST_F(LayersTest, EqualRequestsShareALayerAndItsMaking) {
  openLayers();
  gate_ = std::make_unique<async::Signal>(io_->get_executor());
  std::vector<Result<Layered>> results;
  for (const char* tenant : {"acme", "other"}) {
    async::spawn(io_->get_executor(),
                 [](LayerService* layers, LayerRequest request,
                    std::vector<Result<Layered>>* into) -> Task<void> {
                   into->push_back(co_await layers->make(std::move(request)));
                 }(layers_.get(), wanted({"A_b", "a-b"}, tenant), &results));
  }
  runUntil([&] { return !made_.empty(); });
  EXPECT_FALSE(layers_->ready(wanted({"a.b"})));
  gate_->notify();
  runUntil([&] { return results.size() == 2; });
  EXPECT_THAT(made_, ElementsAre("acme"));
  EXPECT_EQ(results[0]->layers, results[1]->layers);
  EXPECT_TRUE(layers_->ready(wanted({"a.b"})));
  EXPECT_THAT(listed(), ElementsAre("a-b"));
  EXPECT_THAT(listed(principal("acme")), ElementsAre("a-b"));
}

TEST_F(LayersTest, CredentialsOfTheIndexMakeLayersPrivate) {
  public_ = false;
  openLayers();
  ASSERT_TRUE(make({"a"}, "acme"));
  ASSERT_TRUE(make({"a"}, "other"));
  EXPECT_THAT(made_, ElementsAre("acme", "other"));
  EXPECT_THAT(listed(principal("acme")), ElementsAre("a"));
  EXPECT_THAT(listed(principal("third")), ElementsAre());
  const std::string digest = layers_->list(principal("acme")).front().digest;
  EXPECT_EQ(layers_->find(principal("third"), digest).error().code, Code::kNotFound);
  EXPECT_TRUE(layers_->find(principal("acme"), digest.substr(7, 12)));
}

TEST_F(LayersTest, FailuresAreToldAndNotKept) {
  openLayers();
  fails_ = "no such package";
  EXPECT_THAT(make({"a"}).error().message, HasSubstr("no such package"));
  fails_.clear();
  EXPECT_TRUE(make({"a"}));
  EXPECT_EQ(made_.size(), 2U);
}

TEST_F(LayersTest, InstallationsAtOnceAreBounded) {
  config_.max_building = 1;
  openLayers();
  gate_ = std::make_unique<async::Signal>(io_->get_executor());
  async::spawn(io_->get_executor(), [](LayerService* layers, LayerRequest request) -> Task<void> {
    std::ignore = co_await layers->make(std::move(request));
  }(layers_.get(), wanted({"a"})));
  runUntil([&] { return !made_.empty(); });
  const auto second = make({"b"});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::kQuota);
  EXPECT_THAT(second.error().message, HasSubstr("packages.max_building"));
  gate_->notify();
  EXPECT_TRUE(make({"a"})) << "the one that was being made";
}

TEST_F(LayersTest, LayersOutliveARestart) {
  openLayers();
  const auto before = make({"a"});
  layers_.reset();
  close();
  openLayers();
  const auto after = layers_->ready(wanted({"a"}));
  ASSERT_TRUE(before && after);
  EXPECT_EQ(after->layers, before->layers);
  layers_->lost(after->layers);
  EXPECT_FALSE(layers_->ready(wanted({"a"})));
}

TEST_F(LayersTest, TheLongestUnusedLayersOfTheTenantMakeRoom) {
  config_.per_tenant = 2;
  openLayers();
  ASSERT_TRUE(make({"theirs"}, "other"));
  for (const char* dep : {"a", "b", "c"})
    ASSERT_TRUE(make({dep}));
  EXPECT_THAT(listed(), UnorderedElementsAre("theirs", "b", "c"));
  layers_.reset();
  close();
  openLayers();
  EXPECT_THAT(listed(), UnorderedElementsAre("theirs", "b", "c"));
}

TEST_F(LayersTest, TheBytesOfATenantAreBounded) {
  config_.bytes_per_tenant = 250;
  openLayers();
  for (const char* dep : {"a", "b", "c"})
    ASSERT_TRUE(make({dep}));
  EXPECT_THAT(listed(), UnorderedElementsAre("b", "c"));
  size_ = 251;
  const auto refused = make({"d"});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kQuota);
  EXPECT_THAT(refused.error().message, HasSubstr("packages.layers_mb_per_tenant"));
  EXPECT_THAT(listed(), UnorderedElementsAre("b", "c"));
}

TEST_F(LayersTest, PruneForgetsTheUnusedOnesThatTheCallerMayUse) {
  public_ = false;
  openLayers();
  ASSERT_TRUE(make({"a"}, "acme"));
  ASSERT_TRUE(make({"b"}, "other"));
  EXPECT_EQ(await(layers_->prune(principal("acme"), 1))->size(), 0U);  // all were used since
  const auto pruned = await(layers_->prune(principal("acme"), INT64_MAX));
  ASSERT_EQ(pruned->size(), 1U);
  EXPECT_EQ(pruned->front().deps.front(), "a");
  EXPECT_THAT(listed(principal("other")), ElementsAre("b"));
}

TEST_F(LayersTest, AnAdvisoryRefusesALayerThatExists) {
  watchAdvisories();
  openLayers();
  const auto before = make({"demo==1.2", "fine"});
  ASSERT_TRUE(before);
  advise("Demo", "1.3");
  EXPECT_FALSE(layers_->ready(wanted({"demo==1.2", "fine"})));
  for (const Result<>& refused : {layers_->check(wanted({"demo==1.2", "fine"})),
                                  layers_->permitted(principal(), before->layers)}) {
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::kDenied);
    EXPECT_THAT(refused.error().message, HasSubstr("demo 1.2 has the advisory GHSA-9"));
    EXPECT_THAT(refused.error().message, HasSubstr("version 1.3 or later"));
  }
  EXPECT_EQ(make({"demo==1.2", "fine"}).error().code, Code::kDenied);
  EXPECT_EQ(made_.size(), 1U);
  EXPECT_TRUE(make({"fine"}));
  std::filesystem::remove(dir_ + "/osv/GHSA-9.json");
  EXPECT_TRUE(layers_->ready(wanted({"demo==1.2", "fine"})));
}

TEST_F(LayersTest, AnAdvisoryRefusesANewLayer) {
  watchAdvisories();
  advise("demo", "1.3");
  openLayers();
  EXPECT_THAT(make({"demo==1.2"}).error().message, HasSubstr("GHSA-9"));
  EXPECT_THAT(listed(), ElementsAre());
  EXPECT_TRUE(make({"demo==1.3"}));
}

TEST_F(LayersTest, UnreadableAdvisoriesRefuseEveryLayer) {
  watchAdvisories();
  openLayers();
  ASSERT_TRUE(make({"a"}));
  std::ofstream(dir_ + "/osv/broken.json") << "{";
  const auto refused = make({"a"});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kUnavailable);
  EXPECT_THAT(refused.error().message, HasSubstr("broken.json"));
}

TEST_F(LayersTest, ADeniedPackageRefusesTheLayersOfSessions) {
  openLayers();
  const auto before = make({"demo==1.2"});
  rules_.deny = {"demo<2"};
  const auto refused = layers_->permitted(principal(), before->layers);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kDenied);
  EXPECT_THAT(refused.error().message, HasSubstr("demo 1.2 is on the list of denied packages"));
  EXPECT_THAT(make({"demo==1.2"}).error().message, HasSubstr("packages.rules.deny"));
}

TEST_F(LayersTest, WhatIsNoPackageIsRefused) {
  openLayers();
  EXPECT_EQ(layers_->check(wanted({"-r x"})).error().field, "deps");
  LayerRequest bash = wanted({"a"});
  bash.language = "bash";
  EXPECT_EQ(layers_->check(bash).error().code, Code::kInvalid);
  LayerRequest node = wanted({"a"});
  node.language = "node";
  EXPECT_EQ(layers_->check(node).error().code, Code::kUnsupported);
}

}  // namespace
}  // namespace cloister::orchestrator
