// SPDX-License-Identifier: Apache-2.0
// The parts behind the routes: the real services over the fake runtime, and a principal with a key.
#pragma once

#include <future>
#include <memory>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "api/rest/rest.h"
#include "auth/auth.h"
#include "orchestrator/sessions/session_fixture.h"
#include "store/rows/keys.h"

namespace cloister::api {

struct Collected final : BodyWriter {
  Task<Result<>> write(std::string_view bytes) override {
    body += bytes;
    co_return Result<>{};
  }
  std::string body;
};

class PartsTest : public orchestrator::SessionsTest {
 protected:
  ~PartsTest() override {
    parts_.reset();
    escalations_.reset();
    snapshots_.reset();
    artifacts_.reset();
  }

  // Once the services are open(). `secret_` is the key of principal().
  void makeParts(const orchestrator::ArtifactConfig& artifacts = {}) {
    enrol();
    authenticator_ = std::make_unique<auth::Authenticator>(*store_);
    artifacts_ =
        std::make_unique<orchestrator::ArtifactService>(control_, *keeper_, *keyring_, artifacts);
    snapshots_ = std::make_unique<orchestrator::SnapshotService>(io_->get_executor(), background_,
                                                                 *store_, *keeper_, *sessions_,
                                                                 orchestrator::SnapshotConfig{});
    escalations_ =
        std::make_unique<orchestrator::EscalationService>(control_, service_->approvals(), agents_);
    parts_.reset(new RestParts{.service = *service_,
                               .sessions = *sessions_,
                               .artifacts = *artifacts_,
                               .port_links = {*keyring_, *store_},
                               .cursors = orchestrator::Cursors(*keyring_),
                               .snapshots = *snapshots_,
                               .escalations = *escalations_,
                               .store = *store_,
                               .authenticator = *authenticator_,
                               .languages = languages_,
                               .metrics = served_,
                               .audit_key = key_,
                               .checkpoint_file = {},
                               .bounds = model::defaultBounds(),
                               .session_bounds = {},
                               .memory_bounds = memory_bounds_,
                               .answer_within = Millis(300'000),
                               .heartbeat = Millis(15'000),
                               .openapi = {},
                               .version = {},
                               .background = background_});
  }

  ServiceMetrics served_;
  std::unique_ptr<auth::Authenticator> authenticator_;
  std::unique_ptr<orchestrator::ArtifactService> artifacts_;
  model::MemoryBounds memory_bounds_;
  std::unique_ptr<orchestrator::SnapshotService> snapshots_;
  std::unique_ptr<orchestrator::EscalationService> escalations_;
  std::unique_ptr<RestParts> parts_;
  std::string secret_;

 private:
  void enrol() {
    const model::Principal who = principal();
    const auth::NewKey key = auth::makeKey(who, "test", 0);
    secret_ = key.secret;
    std::promise<bool> enrolled;
    store_->write(
        store::writing(
            store::putKey, key.record,
            {.action = "key.created", .subject = key.record.id, .principal = who, .details = {}}),
        [&](Result<> result) { enrolled.set_value(result.has_value()); });
    ASSERT_TRUE(enrolled.get_future().get());
  }
};

}  // namespace cloister::api
