// SPDX-License-Identifier: Apache-2.0
// Quotas: bounds and present use of each tenant and each agent, in memory. A Use holds a running
// share and gives the share back at its end; this hour's use comes from the ledger at the start.
// Both the agent's and the tenant's quota must allow a request, also for administrators. One
// thread.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "model/artifact.h"
#include "model/principal.h"
#include "model/quota.h"
#include "orchestrator/core/rate_bucket.h"
#include "store/quota_store.h"

namespace cloister::orchestrator {

struct QuotaConfig {
  model::Quota tenant;  // default for tenants without a value
  model::Quota agent;
  // Clocks, for tests.
  std::function<base::Monotonic()> now = base::monotonicNow;
  std::function<int64_t()> wall = base::wallMicros;
};

class Quotas {
 public:
  explicit Quotas(QuotaConfig config) : config_(std::move(config)) {}
  Quotas(const Quotas&) = delete;
  Quotas& operator=(const Quotas&) = delete;
  ~Quotas() = default;

  // With the ledger's records.
  static Result<std::unique_ptr<Quotas>> open(QuotaConfig config, store::QuotaStore& ledger);
  // From now on.
  void set(const model::QuotaRecord& record);

  // Counts a run, cell or program of a session before acceptance. kQuota names the exhausted bound,
  // its owner, and the time of the next attempt (retry_after_seconds). `memory_bytes`: of the new
  // sandbox; 0 for a program in a present sandbox.
  Result<> admit(const model::Principal& principal, uint64_t memory_bytes);
  // Undoes admit() for a refused or repeated request.
  void takeBack(const model::Principal& principal);
  // True if an admitted run may begin now, by `concurrent` and `memory_mb`. A run larger than a
  // lowered bound may begin when nothing else of the tenant or agent runs.
  [[nodiscard]] bool hasRoom(const model::Principal& principal, uint64_t memory_bytes) const;

  // Holds a part of a quota; moved, not copied. The Quotas outlive every Use.
  class Use {
   public:
    Use() = default;
    Use(Use&& other) noexcept : give_(std::exchange(other.give_, nullptr)) {}
    Use& operator=(Use&& other) noexcept {
      end();
      give_ = std::exchange(other.give_, nullptr);
      return *this;
    }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    ~Use() { end(); }
    void end() {
      if (const auto give = std::exchange(give_, nullptr)) give();
    }

   private:
    friend class Quotas;
    explicit Use(std::function<void()> give) : give_(std::move(give)) {}
    std::function<void()> give_;
  };
  // Begins a run, after a successful hasRoom().
  [[nodiscard]] Use beginRun(const model::Principal& principal, uint64_t memory_bytes);
  // kQuota as admit().
  Result<Use> beginSession(const model::Principal& principal, uint64_t memory_bytes);
  // Checks the processor time left in this hour; kQuota as admit().
  [[nodiscard]] Result<> hasProcessorTime(const model::Principal& principal) const;
  // Something has used so much more.
  void charge(const model::Principal& principal, uint64_t cpu_ms);

  // The present quota, from the record and the configuration; of a tenant if `agent` is "".
  [[nodiscard]] model::Quota of(const model::QuotaScope& scope) const;
  [[nodiscard]] model::Quota own(const model::QuotaScope& scope) const;  // the record's alone
  // The tenant's storage quota: its own `storage_mb`, else `otherwise`.
  [[nodiscard]] model::ArtifactQuota storageOf(const std::string& tenant,
                                               model::ArtifactQuota otherwise) const;
  [[nodiscard]] model::QuotaUse use(const model::QuotaScope& scope) const;
  // Scopes with a record or present use, in order; of one tenant, or "" for all.
  [[nodiscard]] std::vector<model::QuotaScope> scopes(const std::string& tenant) const;

 private:
  struct Account {
    uint64_t running = 0;
    uint64_t sessions = 0;
    uint64_t memory_bytes = 0;
    RateBucket runs;
    int64_t hour = 0;  // hour of the clock for cpu_ms
    uint64_t cpu_ms = 0;

    [[nodiscard]] bool idle() const { return running == 0 && sessions == 0; }
  };

  static std::vector<model::QuotaScope> scopesOf(const model::Principal& principal);
  [[nodiscard]] Result<> checkRate(const model::QuotaScope& scope) const;
  [[nodiscard]] Result<> checkCpu(const model::QuotaScope& scope) const;
  [[nodiscard]] Result<> checkMemory(const model::QuotaScope& scope, uint64_t memory_bytes,
                                     bool with_used) const;
  [[nodiscard]] const Account& account(const model::QuotaScope& scope) const;
  [[nodiscard]] uint64_t cpuOf(const Account& account) const;
  void change(const model::Principal& principal, const std::function<void(Account&)>& how);
  void forgetIdle();

  QuotaConfig config_;
  std::map<model::QuotaScope, model::Quota> records_;
  std::map<model::QuotaScope, Account> accounts_;
};

}  // namespace cloister::orchestrator
