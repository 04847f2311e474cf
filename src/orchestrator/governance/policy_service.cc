// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/governance/policy_service.h"

#include <future>
#include <utility>

#include "async/awaiting.h"
#include "base/clock.h"
#include "base/crypto.h"
#include "base/log.h"
#include "store/rows/policies.h"

namespace cloister::orchestrator {
namespace {

constexpr std::string_view kFromStart = "start";
constexpr std::string_view kFromApi = "api";

model::Principal ourselves() {
  return {.tenant = "system", .app = "cloister", .agent = "", .user = "", .key_id = ""};
}

std::string missing(int64_t version) {
  return "there is no version " + std::to_string(version) + " of the policy";
}

}  // namespace

PolicyService::PolicyService(std::shared_ptr<Control> control, Parts parts, PolicyConfig config)
    : control_(std::move(control)), parts_(parts), config_(config) {}

Result<> PolicyService::open(const StartDocument& start) {
  const auto newest = TRY(control_->store.policyVersion(0));
  if (!newest || (start.chosen && TRY(isAnother(start)))) return addStart(start);
  return takeUp(newest, start.name);
}

// Whether a start brought another document last, or none did.
Result<bool> PolicyService::isAnother(const StartDocument& start) const {
  const std::string sha256 = base::sha256Hex(start.text);
  store::PolicyQuery query{.limit = 500, .before = 0};
  for (;;) {
    const auto page = TRY(control_->store.policyVersions(query));
    for (const store::PolicyVersion& version : page) {
      if (version.origin == kFromStart) return version.sha256 != sha256;
    }
    if (page.size() < query.limit) return true;
    query.before = page.back().version;
  }
}

Result<> PolicyService::takeUp(const std::optional<store::PolicyVersion>& newest,
                               const std::string& name) {
  if (!newest) return fail(Code::kInternal, "taking up the policy: there is none");
  const std::string which = "version " + std::to_string(newest->version);
  std::string why;
  if (base::sha256Hex(newest->document) != newest->sha256) {
    why = which + " is damaged: its document is not the one that was applied";
  } else if (auto policy = parse(newest->name, newest->document)) {
    policy::setVersion(*policy, newest->version);
    parts_.current.set(*std::move(policy));
    return {};
  } else {
    why = which + " cannot be read: " + policy.error().message;
  }
  base::log(base::Level::kError, "policy is broken; every run is denied", {{"why", why}});
  parts_.current.set(policy::brokenPolicy(name, why));
  return {};
}

Result<> PolicyService::addStart(const StartDocument& start) {
  policy::Policy policy = TRY(parse(start.name, start.text));
  store::NewPolicy made{
      .policy = {.name = start.name,
                 .sha256 = policy.sha256,
                 .origin = std::string(kFromStart),
                 .applied_by = ourselves(),
                 .applied_at = base::wallMicros(),
                 .note = start.chosen ? "the file of the configuration" : "of the installation",
                 .restores = 0,
                 .document = start.text},
      .expected = std::nullopt,
      .keep = config_.history};
  const auto promise = std::make_shared<std::promise<Result<int64_t>>>();
  control_->store.write(store::writing(store::putPolicy, std::move(made),
                                       {.action = "policy.applied",
                                        .subject = {},
                                        .principal = ourselves(),
                                        .details = {{"name", start.name}, {"origin", kFromStart}}}),
                        [promise](Result<int64_t> done) { promise->set_value(std::move(done)); });
  const int64_t version = TRY(promise->get_future().get());
  policy::setVersion(policy, version);
  parts_.current.set(std::move(policy));
  return {};
}

Task<Result<store::PolicyVersion>> PolicyService::apply(model::Principal principal,
                                                        store::NewPolicy wanted) {
  policy::Policy policy = CO_TRY(parse(wanted.policy.name, wanted.policy.document));
  model::AuditEvent event{.action = "policy.applied",
                          .subject = {},
                          .principal = principal,
                          .details = {{"name", wanted.policy.name},
                                      {"origin", kFromApi},
                                      {"note", wanted.policy.note},
                                      {"replaces", parts_.current.get()->id}}};
  co_return co_await put(std::move(principal), std::move(wanted), std::move(event),
                         std::move(policy));
}

Task<Result<store::PolicyVersion>> PolicyService::rollBack(model::Principal principal,
                                                           int64_t version,
                                                           std::optional<int64_t> expected,
                                                           std::string note) {
  store::PolicyVersion old = CO_TRY(get(version));
  if (base::sha256Hex(old.document) != old.sha256) {
    co_return fail(Code::kConflict, "rolling back: version " + std::to_string(version) +
                                        " is damaged; apply a document that is whole");
  }
  policy::Policy policy = CO_TRY(parse(old.name, old.document));
  model::AuditEvent event{.action = "policy.rolled_back",
                          .subject = {},
                          .principal = principal,
                          .details = {{"name", old.name},
                                      {"restores", version},
                                      {"note", note},
                                      {"replaces", parts_.current.get()->id}}};
  store::NewPolicy wanted{.policy = std::move(old), .expected = expected, .keep = 0};
  wanted.policy.restores = version;
  wanted.policy.note = std::move(note);
  co_return co_await put(std::move(principal), std::move(wanted), std::move(event),
                         std::move(policy));
}

// Two versions may be applied at once: the ledger numbers them, and the later number stays.
Task<Result<store::PolicyVersion>> PolicyService::put(model::Principal principal,
                                                      store::NewPolicy wanted,
                                                      model::AuditEvent event,
                                                      policy::Policy policy) {
  wanted.keep = config_.history;
  wanted.policy.sha256 = policy.sha256;
  wanted.policy.origin = kFromApi;
  wanted.policy.applied_by = std::move(principal);
  wanted.policy.applied_at = base::wallMicros();
  store::PolicyVersion made = wanted.policy;
  const auto version =
      co_await Ledger(control_->store).write(store::putPolicy, std::move(wanted), std::move(event));
  made.version = CO_TRY(version);
  policy::setVersion(policy, made.version);
  if (parts_.current.get()->version < made.version) parts_.current.set(std::move(policy));
  base::log(base::Level::kInfo, "policy applied",
            {{"version", std::to_string(made.version)}, {"sha256", made.sha256}});
  co_return made;
}

Result<store::PolicyVersion> PolicyService::get(int64_t version) {
  auto found = TRY(control_->store.policyVersion(version));
  if (!found) return fail(Code::kNotFound, missing(version));
  return *std::move(found);
}

int64_t PolicyService::version() const {
  return parts_.current.get()->version;
}

Result<policy::Policy> PolicyService::parse(const std::string& name,
                                            const std::string& document) const {
  policy::Policy policy = TRY(policy::parsePolicy(document, name, config_.max));
  policy.allow_weaker = config_.allow_weaker;
  return policy;
}

}  // namespace cloister::orchestrator
