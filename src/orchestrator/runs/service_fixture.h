// SPDX-License-Identifier: Apache-2.0
// For tests: a RunService over the real ledger and blobs, with the fake runtime. Reopening
// simulates a restart after a crash.
#pragma once

#include <algorithm>
#include <filesystem>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <boost/asio/thread_pool.hpp>
#include <gtest/gtest.h>

#include "async/run_task.h"
#include "base/clock.h"
#include "base/id.h"
#include "orchestrator/core/brittle_store.h"
#include "orchestrator/core/control.h"
#include "orchestrator/core/counting_metrics.h"
#include "orchestrator/runs/run_service.h"
#include "orchestrator/sessions/sessions.h"
#include "runtime/fake/fake_runtime.h"
#include "store/open.h"
#include "store/rows/keys.h"

namespace cloister::orchestrator {

class ServiceTest : public testing::Test {
 protected:
  ServiceTest() : dir_("/tmp/cloister-test-" + base::randomHex(8)) {
    std::filesystem::create_directory(dir_);
    policy_.set(*policy::parsePolicy(
        "version: 1\n"
        "rules:\n"
        "  - {name: no-evil, why: not trusted, allow: false, tenants: [evil]}\n"
        "  - {name: all, why: for tests, allow: true, runtime: process, image: host}\n",
        "test", model::defaultBounds().max));
    offer_.node = "fake-node";
    offer_.image_digest = "sha256:" + std::string(64, '0');
    offer_.max_sandboxes = 4;
    offer_.memory_bytes = uint64_t{16} << 30;
  }
  ~ServiceTest() override {
    background_.join();
    close();
    std::error_code ignored;
    std::filesystem::remove_all(dir_, ignored);
  }

  // Starts the service (again), by default with a node.
  void open(bool with_node = true) {
    std::filesystem::create_directory(dir_ + "/blobs");
    keyring_ = *artifacts::Keyring::open(dir_ + "/blobs", {master_});
    blobs_ = *artifacts::openLocalBlobs(*keyring_, model::Durability::kProcess, background_);
    store::SqliteOptions options;
    options.path = dir_ + "/ledger.db";
    auto opened = store::openSqlite(options);
    ASSERT_TRUE(opened) << opened.error().message;
    store_ = std::make_unique<BrittleStore>(*std::move(opened));
    store_->full = full_;
    io_ = std::make_unique<boost::asio::io_context>();
    keeper_ = *BlobKeeper::open(io_->get_executor(), *store_, *blobs_);
    fake_ = std::make_unique<runtime::FakeRuntime>(io_->get_executor());
    control_ =
        std::make_shared<Control>(io_->get_executor(),
                                  ControlParts{background_, *store_, languages_, engine(), key_,
                                               metrics_, nullptr, quotas_, nullptr, network_},
                                  control_config_);
    AgentGuard* const agents = guard();
    service_ = std::make_unique<RunService>(control_, RunParts{*keeper_, nullptr, agents}, config_);
    const auto recovered = service_->recover();
    ASSERT_TRUE(recovered) << recovered.error().message;
    sessions_ = std::make_unique<Sessions>(control_, service_->programs(), service_->approvals(),
                                           agents, session_config_);
    agents_ = agents;
    const auto ended = sessions_->recover();
    ASSERT_TRUE(ended) << ended.error().message;
    if (with_node) connect();
  }
  void connect() { control_->nodes.set({fake_.get(), offer_}); }
  // The policy engine; asked when the service is opened.
  virtual PolicyEngine& engine() { return embedded_; }
  // Restrictions of agents; asked once the ledger is open.
  virtual AgentGuard* guard() { return nullptr; }
  // Like kill -9: nothing is finished.
  void close() {
    sessions_.reset();
    service_.reset();
    control_.reset();
    store_.reset();
    io_.reset();
    fake_.reset();
    keeper_.reset();
    blobs_.reset();
    keyring_.reset();
  }

  template <class T>
  T await(Task<T> task) {
    return async::runTask(*io_, std::move(task));
  }
  // Runs ready handlers until `done`.
  template <class Condition>
  void runUntil(Condition done) {
    io_->restart();
    while (!done()) {
      ASSERT_GT(io_->run_one(), 0U) << "nothing is left to happen";
    }
  }

  static model::Principal principal(const std::string& tenant = "acme") {
    return {.tenant = tenant,
            .app = "app",
            .agent = "agent",
            .user = "user",
            .roles = model::Role::kAgent,
            .key_id = "key_1"};
  }
  static model::RunRequest request(std::vector<std::string> argv) {
    model::RunRequest made;
    made.command = std::move(argv);
    model::settle(made.limits);
    return made;
  }
  Result<model::Execution> run(std::vector<std::string> argv, const std::string& tenant = "acme",
                               const std::string& key = "") {
    return await(service_->run(principal(tenant), request(std::move(argv)), key));
  }
  std::string accepted(std::vector<std::string> argv, const std::string& tenant = "acme") {
    const auto execution = run(std::move(argv), tenant);
    EXPECT_TRUE(execution) << execution.error().message;
    return execution ? execution->id : "";
  }
  model::Execution ended(const std::string& id, const std::string& tenant = "acme") {
    // A blocked execution ends the wait at once.
    Result<model::Execution> execution = model::Execution{};
    const base::Monotonic until = base::monotonicNow() + std::chrono::seconds(60);
    do {
      execution = await(service_->wait(principal(tenant), id, std::chrono::milliseconds(20)));
    } while (execution && !model::isTerminal(execution->status) && base::monotonicNow() < until);
    EXPECT_TRUE(execution) << execution.error().message;
    return execution ? *execution : model::Execution{};
  }
  model::Execution finished(std::vector<std::string> argv) {
    return ended(accepted(std::move(argv)));
  }
  // Stores a key of `principal()`'s tenant with this id.
  std::string putKey(int64_t revoked_at = 0, const std::string& id = base::newId("key")) {
    store::KeyRecord key;
    key.id = id;
    key.sha256 = base::sha256Hex(key.id);
    key.principal = principal();
    key.created_at = base::wallMicros();
    key.revoked_at = revoked_at;
    EXPECT_TRUE(written([&](store::Done<void> done) {
      store_->write(store::writing(store::putKey, key, keyEvent("key.created", key.id)),
                    std::move(done));
    }));
    return key.id;
  }
  // And notifies the service, as the API does.
  void revokeKey(const std::string& id) {
    EXPECT_TRUE(written([&](store::Done<void> done) {
      store_->write(store::writing(store::revokeKey, store::Scope::allTenants(), id,
                                   keyEvent("key.revoked", id)),
                    std::move(done));
    }));
    service_->lookAtCredentials();
  }
  // By another, from now on.
  void replaceKey(const std::string& id) {
    store::KeyRecord next = store_->key(store::Scope::allTenants(), id).value();
    next.replaces = std::exchange(next.id, base::newId("key"));
    next.sha256 = base::sha256Hex(next.id);
    EXPECT_TRUE(written([&](store::Done<void> done) {
      store_->write(store::writing(store::rotateKey, store::Scope::allTenants(), next,
                                   base::wallMicros() - 1, keyEvent("key.rotated", next.id)),
                    std::move(done));
    }));
    service_->lookAtCredentials();
  }
  static model::AuditEvent keyEvent(std::string action, const std::string& id) {
    return {.action = std::move(action), .subject = id, .principal = principal(), .details = {}};
  }
  static bool written(const std::function<void(store::Done<void>)>& write) {
    std::promise<bool> done;
    write([&](const Result<void>& result) { done.set_value(result.has_value()); });
    return done.get_future().get();
  }
  // The ledger's record.
  model::Execution stored(const std::string& id) {
    const auto execution = store_->get(store::Scope::allTenants(), id);
    EXPECT_TRUE(execution) << execution.error().message;
    return execution ? *execution : model::Execution{};
  }
  std::string contentOf(const model::Artifact& artifact) {
    const auto reader = await(blobs_->open(artifact.blob()));
    EXPECT_TRUE(reader) << reader.error().message;
    return reader ? await((*reader)->read(0, SIZE_MAX)).value() : "";
  }
  std::vector<std::string> auditOf(const std::string& id) {
    std::vector<std::string> actions;
    for (const auto& entry : *store_->audit(store::Scope::allTenants(), 0, 1000)) {
      if (entry.event.subject == id) actions.push_back(entry.event.action);
    }
    return actions;
  }

  base::json::object detailsOf(const std::string& id, const std::string& action) {
    for (const auto& entry : *store_->audit(store::Scope::allTenants(), 0, 1000)) {
      if (entry.event.subject == id && entry.event.action == action) return entry.event.details;
    }
    ADD_FAILURE() << "no " << action << " of " << id;
    return {};
  }

  std::string dir_;
  bool full_ = false;  // the ledger's disk, when the service is opened
  model::LanguageSet languages_;
  policy::Current policy_;
  EmbeddedEngine embedded_{policy_};
  base::SigningKey key_ = base::SigningKey::generate();
  CountingMetrics metrics_;
  boost::asio::thread_pool background_{1};
  ControlConfig control_config_;
  RunConfig config_;
  Quotas* quotas_ = nullptr;    // when the service is opened
  Network* network_ = nullptr;  // likewise
  SessionConfig session_config_;
  model::NodeOffer offer_;
  artifacts::Secret master_ = artifacts::Secret::random();
  std::unique_ptr<artifacts::Keyring> keyring_;
  std::unique_ptr<artifacts::Blobs> blobs_;
  std::unique_ptr<BlobKeeper> keeper_;
  std::unique_ptr<BrittleStore> store_;
  std::unique_ptr<boost::asio::io_context> io_;
  std::unique_ptr<runtime::FakeRuntime> fake_;
  std::shared_ptr<Control> control_;
  AgentGuard* agents_ = nullptr;  // guard() at the opening of the service
  std::unique_ptr<RunService> service_;
  std::unique_ptr<Sessions> sessions_;
};

}  // namespace cloister::orchestrator
