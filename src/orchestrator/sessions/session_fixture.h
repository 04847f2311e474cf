// SPDX-License-Identifier: Apache-2.0
// Sessions over the real ledger and the fake runtime, for tests.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "orchestrator/runs/service_fixture.h"

namespace cloister::orchestrator {

class SessionsTest : public ServiceTest {
 protected:
  using Asked = model::SessionRequest;

  // A started task, with its result once done.
  template <class T>
  struct Pending {
    std::optional<T> result;
    [[nodiscard]] bool done() const { return result.has_value(); }
  };
  template <class T>
  std::shared_ptr<Pending<T>> start(Task<T> task) {
    auto pending = std::make_shared<Pending<T>>();
    async::spawn(io_->get_executor(),
                 [](Task<T> inner, std::shared_ptr<Pending<T>> into) -> Task<void> {
                   into->result = co_await std::move(inner);
                 }(std::move(task), pending));
    return pending;
  }
  template <class T>
  T finish(const std::shared_ptr<Pending<T>>& pending) {
    runUntil([&] { return pending->done(); });
    return *pending->result;
  }
  // Runs all ready handlers.
  void settle() {
    io_->restart();
    while (io_->poll_one() > 0) {
    }
  }

  static Asked asked(Millis ttl = Millis(3'600'000), Millis idle_ttl = Millis(600'000)) {
    Asked made;
    made.ttl = ttl;
    made.idle_ttl = idle_ttl;
    return made;
  }
  Result<model::Session> create(const Asked& wanted, const std::string& tenant = "acme",
                                const std::string& key = "") {
    return await(sessions_->create(principal(tenant), wanted, key));
  }
  std::string created(const Asked& wanted = asked(), const std::string& tenant = "acme") {
    const auto session = create(wanted, tenant);
    EXPECT_TRUE(session) << session.error().message;
    return session ? session->id : "";
  }
  static model::ExecRequest program(std::vector<std::string> argv) {
    model::ExecRequest made;
    made.run = request(std::move(argv));
    made.run.artifacts = {};
    return made;
  }
  Result<model::Execution> exec(const std::string& session, std::vector<std::string> argv,
                                const std::string& tenant = "acme", const std::string& key = "") {
    return await(sessions_->exec(principal(tenant), session, program(std::move(argv)), key));
  }
  std::string running(const std::string& session, std::vector<std::string> argv) {
    const auto execution = exec(session, std::move(argv));
    EXPECT_TRUE(execution) << execution.error().message;
    return execution ? execution->id : "";
  }
  model::Execution ran(const std::string& session, std::vector<std::string> argv) {
    return ServiceTest::ended(running(session, std::move(argv)));
  }
  model::Session shown(const std::string& id, const std::string& tenant = "acme") {
    const auto session = sessions_->get(principal(tenant), id);
    EXPECT_TRUE(session) << session.error().message;
    return session ? *session : model::Session{};
  }
  // The ledger's record.
  model::Session storedSession(const std::string& id) {
    const auto session = store_->session(store::Scope::allTenants(), id);
    EXPECT_TRUE(session) << session.error().message;
    return session ? *session : model::Session{};
  }
  // Waits for the session's end.
  model::Session endedSession(const std::string& id) {
    runUntil([&] { return shown(id).status == model::SessionStatus::kEnded; });
    return storedSession(id);
  }
  Result<model::Session> end(const std::string& id, const std::string& tenant = "acme") {
    return await(sessions_->end(principal(tenant), id));
  }
  Result<model::Session> renew(const std::string& id, Millis ttl, Millis idle_ttl) {
    return await(sessions_->renew(principal(), id, {.ttl = ttl, .idle_ttl = idle_ttl}));
  }
  static std::string reason(const model::Session& session) {
    return session.end ? session.end->type : "";
  }
};

}  // namespace cloister::orchestrator
