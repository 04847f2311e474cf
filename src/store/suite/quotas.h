// SPDX-License-Identifier: Apache-2.0
// Part of StoreSuite: quotas and their use.
#pragma once

#include <map>
#include <string>

#include "store/quota_store.h"
#include "store/rows/quotas.h"
#include "store/session_testing.h"
#include "store/suite/fixture.h"

namespace cloister::store {

inline Result<void> putQuota(Store& store, const model::QuotaRecord& record, uint64_t most = 100) {
  return commit(store, putQuota, record, most,
                {.action = "quota.set",
                 .subject = quotaSubject(record.scope),
                 .principal = admin(),
                 .details = {}});
}

TEST_P(StoreSuite, QuotasAreKeptByTenantAndAgent) {
  EXPECT_EQ(quotaSubject({"a/b", ""}), "quota:a%2Fb");
  EXPECT_EQ(quotaSubject({"acme", "alice"}), "quota:acme/alice");
  const model::Quota tenant{.concurrent = 4, .storage_mb = 100};
  const model::Quota agent{.runs_per_minute = 60, .memory_mb = 512};
  ASSERT_TRUE(putQuota(*store_, {{"acme"}, tenant}));
  ASSERT_TRUE(putQuota(*store_, {{"acme", "alice"}, agent}));
  ASSERT_TRUE(putQuota(*store_, {{"other", "alice"}, {.sessions = 1}}));
  const auto before = store_->quotas().all();
  ASSERT_TRUE(before) << before.error().message;
  ASSERT_EQ(before->size(), 3U);
  EXPECT_EQ(before->at(0).scope, (model::QuotaScope{"acme"}));
  EXPECT_EQ(before->at(0).quota, tenant);
  EXPECT_EQ(before->at(1).quota, agent);
  ASSERT_TRUE(putQuota(*store_, {{"acme", "alice"}, {.sessions = 2}}));
  ASSERT_TRUE(putQuota(*store_, {{"acme"}, {}}));
  const auto after = store_->quotas().all();
  ASSERT_TRUE(after);
  ASSERT_EQ(after->size(), 2U) << "one without a value is none";
  EXPECT_EQ(after->at(0).quota, (model::Quota{.sessions = 2}));
}

TEST_P(StoreSuite, SoManyAgentsOfATenantHaveAQuota) {
  ASSERT_TRUE(putQuota(*store_, {{"acme", "a"}, {.sessions = 1}}, 2));
  ASSERT_TRUE(putQuota(*store_, {{"acme", "b"}, {.sessions = 1}}, 2));
  EXPECT_EQ(putQuota(*store_, {{"acme", "c"}, {.sessions = 1}}, 2).error().code, Code::kQuota);
  EXPECT_TRUE(putQuota(*store_, {{"acme", "b"}, {.sessions = 3}}, 2));
  EXPECT_TRUE(putQuota(*store_, {{"acme"}, {.sessions = 3}}, 2));
  EXPECT_TRUE(putQuota(*store_, {{"other", "c"}, {.sessions = 1}}, 2));
}

TEST_P(StoreSuite, ProcessorTimeIsSummedByAgentSinceATime) {
  const auto end = [&](const std::string& tenant, const std::string& agent, int64_t cpu_ms,
                       int64_t finished_at) {
    NewExecution request = queued(tenant);
    request.execution.principal.agent = agent;
    model::Execution e = accept(*store_, request).value().execution;
    ASSERT_TRUE(update(*store_, e, model::Status::kRunning));
    e.usage.cpu_ms = cpu_ms;
    e.finished_at = finished_at;
    ASSERT_TRUE(update(*store_, e, model::Status::kCompleted));
  };
  end("acme", "alice", 1000, 500);
  end("acme", "alice", 20, 1000);
  end("acme", "alice", 3, 2000);
  end("acme", "", 7, 1500);
  end("other", "alice", 9, 1500);
  ASSERT_TRUE(accept(*store_, queued("acme"))) << "one that has not ended";
  std::map<model::QuotaScope, uint64_t> used;
  const auto uses = store_->quotas().cpuSince(1000);
  ASSERT_TRUE(uses) << uses.error().message;
  for (const CpuUse& use : *uses)
    used[use.of] = use.cpu_ms;
  const std::map<model::QuotaScope, uint64_t> expected = {
      {{"acme"}, 7}, {{"acme", "alice"}, 23}, {{"other", "alice"}, 9}};
  EXPECT_EQ(used, expected);
}

// Executions already count their own processor time.
TEST_P(StoreSuite, ProcessorTimeOfASessionIsWhatItsExecutionsDidNotUse) {
  const auto session = [&](const std::string& tenant, int64_t cpu_ms, int64_t ended_at) {
    model::Session s = create(*store_, newSession(tenant, "alice")).value().session;
    EXPECT_TRUE(update(*store_, s, SessionStatus::kRunning));
    s.usage.cpu_ms = cpu_ms;
    s.ended_at = ended_at;
    EXPECT_TRUE(update(*store_, s, SessionStatus::kEnded));
    return s.id;
  };
  const auto execution = [&](const std::string& in, int64_t cpu_ms) {
    NewExecution request = queued("acme");
    request.execution.principal.agent = "bob";
    request.execution.session_id = in;
    model::Execution e = accept(*store_, request).value().execution;
    ASSERT_TRUE(update(*store_, e, model::Status::kRunning));
    e.usage.cpu_ms = cpu_ms;
    e.finished_at = 1500;
    ASSERT_TRUE(update(*store_, e, model::Status::kCompleted));
  };
  const std::string with = session("acme", 1000, 2000);
  execution(with, 300);
  execution(with, 100);
  session("acme", 50, 1000);
  session("acme", 7, 999);
  execution(session("acme", 20, 2000), 30);  // measures more than its sandbox does
  std::map<model::QuotaScope, uint64_t> used;
  const auto uses = store_->quotas().cpuSince(1000);
  ASSERT_TRUE(uses) << uses.error().message;
  for (const CpuUse& use : *uses)
    used[use.of] = use.cpu_ms;
  const std::map<model::QuotaScope, uint64_t> expected = {{{"acme", "alice"}, 650},
                                                          {{"acme", "bob"}, 430}};
  EXPECT_EQ(used, expected);
}

}  // namespace cloister::store
