// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/core/quota.h"

#include <algorithm>

namespace cloister::orchestrator {
namespace {

using model::Quota;
using model::QuotaScope;

constexpr int64_t kHour = int64_t{3600} * 1'000'000;  // microseconds
constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr int kSessionRetry = 10;  // seconds
// Bound on accounts, in use or recently used; beyond the bound idle accounts are forgotten.
constexpr size_t kMaxAccounts = 100'000;

std::string nameOf(const QuotaScope& scope) {
  return scope.agent.empty() ? "tenant " + scope.tenant : "agent " + scope.agent;
}

std::unexpected<Error> exceeded(const QuotaScope& scope, std::string_view dimension,
                                const std::string& bound, const std::string& what,
                                int retry_after) {
  Error error{
      Code::kQuota,
      "quota " + std::string(dimension) + " of " + nameOf(scope) + " is " + bound + ": " + what,
      ""};
  error.retry_after_seconds = retry_after;
  return std::unexpected(std::move(error));
}

uint64_t mib(uint64_t bytes) {
  return (bytes + kMiB - 1) / kMiB;
}

}  // namespace

Result<std::unique_ptr<Quotas>> Quotas::open(QuotaConfig config, store::QuotaStore& ledger) {
  auto quotas = std::make_unique<Quotas>(std::move(config));
  const std::vector<model::QuotaRecord> records = TRY(ledger.all());
  for (const model::QuotaRecord& record : records)
    quotas->set(record);
  const int64_t hour = quotas->config_.wall() / kHour;
  const std::vector<store::CpuUse> uses = TRY(ledger.cpuSince(hour * kHour));
  for (const store::CpuUse& use : uses) {
    model::Principal by;
    by.tenant = use.of.tenant;
    by.agent = use.of.agent;
    quotas->charge(by, use.cpu_ms);
  }
  return quotas;
}

void Quotas::set(const model::QuotaRecord& record) {
  if (record.quota == Quota{}) {
    records_.erase(record.scope);
  } else {
    records_[record.scope] = record.quota;
  }
}

Quota Quotas::own(const QuotaScope& scope) const {
  const auto found = records_.find(scope);
  return found == records_.end() ? Quota{} : found->second;
}

Quota Quotas::of(const QuotaScope& scope) const {
  return merged(own(scope), scope.agent.empty() ? config_.tenant : config_.agent);
}

std::vector<QuotaScope> Quotas::scopesOf(const model::Principal& principal) {
  std::vector<QuotaScope> scopes = {{principal.tenant, ""}};
  if (!principal.agent.empty()) scopes.push_back({principal.tenant, principal.agent});
  return scopes;
}

const Quotas::Account& Quotas::account(const QuotaScope& scope) const {
  static const Account kNone;
  const auto found = accounts_.find(scope);
  return found == accounts_.end() ? kNone : found->second;
}

void Quotas::change(const model::Principal& principal, const std::function<void(Account&)>& how) {
  if (accounts_.size() >= kMaxAccounts) forgetIdle();
  for (const QuotaScope& scope : scopesOf(principal))
    how(accounts_[scope]);
}

// Keeps accounts with processor time in this hour, and accounts whose bucket is refilling.
void Quotas::forgetIdle() {
  const int64_t hour = config_.wall() / kHour;
  std::erase_if(accounts_, [&](const auto& entry) {
    const Account& account = entry.second;
    return account.idle() && account.runs.idle(config_.now()) &&
           (account.hour != hour || account.cpu_ms == 0);
  });
}

// ---- each dimension ---------------------------------------------------------------------------

Result<> Quotas::checkRate(const QuotaScope& scope) const {
  const Quota quota = of(scope);
  if (!quota.runs_per_minute) return {};
  const uint64_t bound = *quota.runs_per_minute;
  const int seconds = account(scope).runs.wait(bound, config_.now());
  if (seconds == 0) return {};
  return exceeded(scope, "runs_per_minute", std::to_string(bound),
                  "so many were asked for within a minute", seconds);
}

uint64_t Quotas::cpuOf(const Account& account) const {
  return account.hour == config_.wall() / kHour ? account.cpu_ms : 0;
}

Result<> Quotas::checkCpu(const QuotaScope& scope) const {
  const Quota quota = of(scope);
  const uint64_t used = cpuOf(account(scope));
  if (!quota.cpu_seconds_per_hour || used < *quota.cpu_seconds_per_hour * 1000) return {};
  const int64_t left = kHour - config_.wall() % kHour;
  return exceeded(scope, "cpu_seconds_per_hour", std::to_string(*quota.cpu_seconds_per_hour),
                  std::to_string(used / 1000) + " s were used since the hour began",
                  static_cast<int>(left / 1'000'000) + 1);
}

Result<> Quotas::checkMemory(const QuotaScope& scope, uint64_t memory_bytes, bool with_used) const {
  const Quota quota = of(scope);
  const uint64_t used = with_used ? account(scope).memory_bytes : 0;
  if (!quota.memory_mb || mib(memory_bytes + used) <= *quota.memory_mb) return {};
  const std::string most = std::to_string(*quota.memory_mb) + " MiB";
  const std::string asked = std::to_string(mib(memory_bytes));
  if (mib(memory_bytes) > *quota.memory_mb) {
    auto over = exceeded(scope, "memory_mb", most,
                         asked + " MiB are asked for at once; " +
                             (*quota.memory_mb == 0 ? "" : "ask for at most " + most + ", or ") +
                             "have the quota raised",
                         0);
    over.error().lasting = true;
    return over;
  }
  return exceeded(scope, "memory_mb", most,
                  std::to_string(mib(used)) + " MiB are in use, and " + asked + " are asked for",
                  kSessionRetry);
}

// ---- requests ---------------------------------------------------------------------------------

Result<> Quotas::admit(const model::Principal& principal, uint64_t memory_bytes) {
  const std::vector<QuotaScope> scopes = scopesOf(principal);
  for (const QuotaScope& scope : scopes) {
    TRY(checkMemory(scope, memory_bytes, false));
    TRY(checkCpu(scope));
    TRY(checkRate(scope));
  }
  for (const QuotaScope& scope : scopes) {
    const Quota quota = of(scope);
    if (!quota.runs_per_minute) continue;
    if (accounts_.size() >= kMaxAccounts) forgetIdle();
    accounts_[scope].runs.take(*quota.runs_per_minute, config_.now());
  }
  return {};
}

void Quotas::takeBack(const model::Principal& principal) {
  for (const QuotaScope& scope : scopesOf(principal)) {
    const auto found = accounts_.find(scope);
    if (found != accounts_.end()) found->second.runs.giveBack();
  }
}

bool Quotas::hasRoom(const model::Principal& principal, uint64_t memory_bytes) const {
  return std::ranges::all_of(scopesOf(principal), [&](const QuotaScope& scope) {
    const Quota quota = of(scope);
    if (quota.concurrent && account(scope).running >= *quota.concurrent) return false;
    return account(scope).memory_bytes == 0 || checkMemory(scope, memory_bytes, true).has_value();
  });
}

Quotas::Use Quotas::beginRun(const model::Principal& principal, uint64_t memory_bytes) {
  change(principal, [&](Account& account) {
    account.running++;
    account.memory_bytes += memory_bytes;
  });
  return Use([this, principal, memory_bytes] {
    change(principal, [&](Account& account) {
      account.running--;
      account.memory_bytes -= memory_bytes;
    });
  });
}

Result<Quotas::Use> Quotas::beginSession(const model::Principal& principal, uint64_t memory_bytes) {
  for (const QuotaScope& scope : scopesOf(principal)) {
    const Quota quota = of(scope);
    TRY(checkCpu(scope));
    if (quota.sessions && account(scope).sessions >= *quota.sessions) {
      return exceeded(scope, "sessions", std::to_string(*quota.sessions),
                      "so many are there already", kSessionRetry);
    }
    TRY(checkMemory(scope, memory_bytes, true));
  }
  change(principal, [&](Account& account) {
    account.sessions++;
    account.memory_bytes += memory_bytes;
  });
  return Use([this, principal, memory_bytes] {
    change(principal, [&](Account& account) {
      account.sessions--;
      account.memory_bytes -= memory_bytes;
    });
  });
}

Result<> Quotas::hasProcessorTime(const model::Principal& principal) const {
  for (const QuotaScope& scope : scopesOf(principal))
    TRY(checkCpu(scope));
  return {};
}

void Quotas::charge(const model::Principal& principal, uint64_t cpu_ms) {
  const int64_t hour = config_.wall() / kHour;
  if (cpu_ms == 0) return;
  change(principal, [&](Account& account) {
    if (std::exchange(account.hour, hour) != hour) account.cpu_ms = 0;
    account.cpu_ms += cpu_ms;
  });
}

// ---- to look at ---------------------------------------------------------------------------------

model::ArtifactQuota Quotas::storageOf(const std::string& tenant,
                                       model::ArtifactQuota otherwise) const {
  if (const auto own_mb = own({tenant, ""}).storage_mb) otherwise.bytes = *own_mb * kMiB;
  return otherwise;
}

model::QuotaUse Quotas::use(const QuotaScope& scope) const {
  const Account& of_scope = account(scope);
  const Quota quota = of(scope);
  model::QuotaUse use;
  use.running = of_scope.running;
  use.sessions = of_scope.sessions;
  if (quota.runs_per_minute) {
    const double left = std::max(0.0, of_scope.runs.left(*quota.runs_per_minute, config_.now()));
    use.runs_this_minute = *quota.runs_per_minute - static_cast<uint64_t>(left);
  }
  use.cpu_seconds = cpuOf(of_scope) / 1000;
  use.memory_mb = mib(of_scope.memory_bytes);
  return use;
}

std::vector<QuotaScope> Quotas::scopes(const std::string& tenant) const {
  std::vector<QuotaScope> scopes;
  const auto add = [&](const auto& all) {
    for (const auto& [scope, value] : all) {
      if (tenant.empty() || scope.tenant == tenant) scopes.push_back(scope);
    }
  };
  add(records_);
  add(accounts_);
  std::ranges::sort(scopes);
  const auto same = std::ranges::unique(scopes);
  scopes.erase(same.begin(), same.end());
  return scopes;
}

}  // namespace cloister::orchestrator
