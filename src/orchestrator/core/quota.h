// SPDX-License-Identifier: Apache-2.0
// Quotas: what each tenant and each agent may use and uses, in memory. What runs is held by a Use,
// whose end gives it back; what was used of this hour comes from the ledger at the start. Both of
// an agent's, and its tenant's, have to allow. Administrators are held to them as everybody.
// One thread.
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
  model::Quota tenant;  // of each that has no value of its own
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

  // With what the ledger has.
  static Result<std::unique_ptr<Quotas>> open(QuotaConfig config, store::QuotaStore& ledger);
  // From now on.
  void set(const model::QuotaRecord& record);

  // A run, cell or program of a session is about to be accepted: counts it. kQuota names what is
  // used up, of whom, and when there is more (retry_after_seconds). `memory_bytes`: of the sandbox
  // that it will need, 0 for a program in one.
  Result<> admit(const model::Principal& principal, uint64_t memory_bytes);
  // What admit() counted was not accepted, or no new one.
  void takeBack(const model::Principal& principal);
  // Whether one that was admitted may begin now, by `concurrent` and `memory_mb`. One
  // that is larger by itself than the bound has become may when nothing else of them runs.
  [[nodiscard]] bool hasRoom(const model::Principal& principal, uint64_t memory_bytes) const;

  // What holds a part of a quota; moved, not copied. Outlived by the Quotas.
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
  // A run that begins; whoever asked hasRoom() may.
  [[nodiscard]] Use beginRun(const model::Principal& principal, uint64_t memory_bytes);
  // kQuota as admit().
  Result<Use> beginSession(const model::Principal& principal, uint64_t memory_bytes);
  // Whether there is processor time left in this hour; kQuota as admit().
  [[nodiscard]] Result<> hasProcessorTime(const model::Principal& principal) const;
  // Something has used so much more.
  void charge(const model::Principal& principal, uint64_t cpu_ms);

  // What holds now, from the record and the configuration; of a tenant where `agent` is "".
  [[nodiscard]] model::Quota of(const model::QuotaScope& scope) const;
  [[nodiscard]] model::Quota own(const model::QuotaScope& scope) const;  // the record's alone
  // What a tenant may keep: its own `storage_mb`, else as `otherwise` has it.
  [[nodiscard]] model::ArtifactQuota storageOf(const std::string& tenant,
                                               model::ArtifactQuota otherwise) const;
  [[nodiscard]] model::QuotaUse use(const model::QuotaScope& scope) const;
  // Those with a record or something in use, in order; of one tenant, or "" for all.
  [[nodiscard]] std::vector<model::QuotaScope> scopes(const std::string& tenant) const;

 private:
  struct Account {
    uint64_t running = 0;
    uint64_t sessions = 0;
    uint64_t memory_bytes = 0;
    RateBucket runs;
    int64_t hour = 0;  // of the clock, that cpu_ms is of
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
