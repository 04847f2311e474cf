// SPDX-License-Identifier: Apache-2.0
// A RunService over the real ledger and blobs, with the fake runtime, for tests. Reopening it is a
// restart after a crash.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/clock.h"
#include "base/id.h"
#include "orchestrator/run_service.h"
#include "runtime/fake/fake_runtime.h"
#include "runtime/run_task.h"

namespace cloister::orchestrator {

// The real ledger, with a disk that can be full.
class BrittleStore final : public store::Store {
 public:
  explicit BrittleStore(std::unique_ptr<store::Store> real) : real_(std::move(real)) {}

  bool full = false;
  int refused = 0;  // writes, while full

  void accept(store::NewExecution request, model::AuditEvent event,
              store::Done<store::Accepted> done) override {
    if (refuse(done)) return;
    real_->accept(std::move(request), std::move(event), std::move(done));
  }
  void update(model::Execution execution, model::AuditEvent event,
              store::Done<void> done) override {
    if (refuse(done)) return;
    real_->update(std::move(execution), std::move(event), std::move(done));
  }
  void append(model::AuditEvent event, store::Done<void> done) override {
    if (refuse(done)) return;
    real_->append(std::move(event), std::move(done));
  }
  void putKey(store::KeyRecord key, model::AuditEvent event, store::Done<void> done) override {
    real_->putKey(std::move(key), std::move(event), std::move(done));
  }
  void revokeKey(const store::Scope& scope, std::string id, model::AuditEvent event,
                 store::Done<void> done) override {
    real_->revokeKey(scope, std::move(id), std::move(event), std::move(done));
  }
  void retain(const store::Retention& rules, store::Done<store::Retained> done) override {
    real_->retain(rules, std::move(done));
  }
  Result<model::Execution> get(const store::Scope& scope, const std::string& id) override {
    return real_->get(scope, id);
  }
  Result<std::vector<model::Execution>> list(const store::Scope& scope,
                                             const store::ListQuery& query) override {
    return real_->list(scope, query);
  }
  Result<model::ArtifactRef> artifact(const store::Scope& scope, const std::string& id) override {
    return real_->artifact(scope, id);
  }
  Result<std::vector<store::Pending>> unfinished() override { return real_->unfinished(); }
  Result<std::optional<store::KeyRecord>> keyByHash(const std::string& sha256) override {
    return real_->keyByHash(sha256);
  }
  Result<std::vector<store::KeyRecord>> keys(const store::Scope& scope) override {
    return real_->keys(scope);
  }
  Result<std::vector<model::AuditEntry>> audit(const store::Scope& scope, uint64_t after,
                                               uint32_t limit) override {
    return real_->audit(scope, after, limit);
  }
  Result<std::optional<store::Checkpoint>> head() override { return real_->head(); }
  Result<std::vector<store::Mismatch>> mismatches(uint64_t after, uint32_t limit) override {
    return real_->mismatches(after, limit);
  }
  Result<> health() override {
    if (full) return fail(Code::kNoSpace, "the disk is full");
    return real_->health();
  }

 private:
  template <class T>
  bool refuse(const store::Done<T>& done) {
    if (!full) return false;
    refused++;
    done(fail(Code::kNoSpace, "writing the ledger: No space left on device"));
    return true;
  }

  std::unique_ptr<store::Store> real_;
};

struct CountingMetrics final : Metrics {
  void accepted() override { accepted_runs++; }
  void refused(std::string_view reason) override { refusals[std::string(reason)]++; }
  void started(double seconds) override {
    EXPECT_GE(seconds, 0);
    started_runs++;
  }
  void finished(const model::Execution&) override { finished_runs++; }
  void queueDepth(size_t now_waiting, size_t now_running) override {
    waiting = now_waiting;
    running = now_running;
    most_running = std::max(most_running, now_running);
  }

  int accepted_runs = 0;
  int started_runs = 0;
  int finished_runs = 0;
  std::map<std::string, int> refusals;
  size_t waiting = 0;
  size_t running = 0;
  size_t most_running = 0;
};

class ServiceTest : public testing::Test {
 protected:
  ServiceTest() : dir_("/tmp/cloister-test-" + base::randomHex(8)) {
    std::filesystem::create_directory(dir_);
    policy_ = *policy::parsePolicy(
        "version: 1\n"
        "rules:\n"
        "  - {name: no-evil, why: not trusted, allow: false, tenants: [evil]}\n"
        "  - {name: all, why: for tests, allow: true, runtime: process, image: host}\n",
        "test", model::defaultBounds().max);
    offer_.node = "fake-node";
    offer_.image_digest = "sha256:" + std::string(64, '0');
    offer_.max_sandboxes = 4;
    offer_.memory_bytes = uint64_t{16} << 30;
  }
  ~ServiceTest() override {
    close();
    std::error_code ignored;
    std::filesystem::remove_all(dir_, ignored);
  }

  // Starts the service (again); with a node unless told otherwise.
  void open(bool with_node = true) {
    blobs_ = *artifacts::openLocalBlobs(dir_ + "/blobs", model::Durability::kProcess);
    store::SqliteOptions options;
    options.path = dir_ + "/ledger.db";
    auto opened = store::openSqlite(options);
    ASSERT_TRUE(opened) << opened.error().message;
    store_ = std::make_unique<BrittleStore>(*std::move(opened));
    io_ = std::make_unique<boost::asio::io_context>();
    fake_ = std::make_unique<runtime::FakeRuntime>(io_->get_executor());
    service_ = std::make_unique<RunService>(
        io_->get_executor(), Parts{*store_, *blobs_, languages_, policy_, key_, metrics_}, config_);
    const auto recovered = service_->recover();
    ASSERT_TRUE(recovered) << recovered.error().message;
    if (with_node) connect();
  }
  void connect() { service_->setNode({fake_.get(), offer_}); }
  // As kill -9 does it: nothing is finished.
  void close() {
    service_.reset();
    store_.reset();
    io_.reset();
    fake_.reset();
    blobs_.reset();
  }

  template <class T>
  T await(Task<T> task) {
    return runtime::runTask(*io_, std::move(task));
  }
  // Runs what is ready until `done`.
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
            .role = model::Role::kAgent,
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
    const auto execution =
        await(service_->wait(principal(tenant), id, std::chrono::milliseconds(60'000)));
    EXPECT_TRUE(execution) << execution.error().message;
    return execution ? *execution : model::Execution{};
  }
  model::Execution finished(std::vector<std::string> argv) {
    return ended(accepted(std::move(argv)));
  }
  // As the ledger has it.
  model::Execution stored(const std::string& id) {
    const auto execution = store_->get(store::Scope::allTenants(), id);
    EXPECT_TRUE(execution) << execution.error().message;
    return execution ? *execution : model::Execution{};
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
  model::LanguageSet languages_;
  policy::Policy policy_;
  base::SigningKey key_ = base::SigningKey::generate();
  CountingMetrics metrics_;
  RunConfig config_;
  model::NodeOffer offer_;
  std::unique_ptr<artifacts::Blobs> blobs_;
  std::unique_ptr<BrittleStore> store_;
  std::unique_ptr<boost::asio::io_context> io_;
  std::unique_ptr<runtime::FakeRuntime> fake_;
  std::unique_ptr<RunService> service_;
};

}  // namespace cloister::orchestrator
