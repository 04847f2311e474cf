// SPDX-License-Identifier: Apache-2.0
#include "bench/permission.h"

#include <algorithm>

#include "base/clock.h"
#include "base/crypto.h"
#include "base/file.h"
#include "base/id.h"
#include "model/prestart.h"
#include "policy/decide.h"
#include "wire/node.h"

namespace cloister::bench {
namespace {

// A run after parsing.
struct Asked {
  policy::Policy policy;
  model::RunRequest request;
  model::Principal principal;
  std::string execution_id;
  std::string spec_sha256;
  std::string prestart;
  std::string language;
};

Result<Asked> ask() {
  const std::string share = base::shareDir();
  const model::RequestBounds bounds = model::defaultBounds();
  const auto languages = TRY(model::LanguageSet::load(share + "/languages"));
  const std::string document = TRY(base::readFile(share + "/policies/default.yaml"));
  const base::json::object body = {{"language", "python"}, {"code", "print(1)"}};
  Asked asked;
  asked.policy = TRY(policy::parsePolicy(document, "default", bounds.max));
  asked.request = TRY(model::parseRunRequest(body, bounds));
  const model::ExecSpec spec = TRY(policy::resolve(asked.request, languages));
  asked.principal.tenant = "default";
  asked.execution_id = base::newId("exec");
  asked.spec_sha256 = base::sha256Hex(wire::encodeExecSpec(spec));
  asked.prestart = model::prestartKey(spec);
  asked.language = policy::ruleLanguage(asked.request, languages);
  return asked;
}

policy::Decision decide(const Asked& asked, const std::string& permit_id) {
  constexpr int64_t kValidFor = 30'000'000;  // µs
  return policy::decide(asked.policy, {.request = asked.request,
                                       .principal = asked.principal,
                                       .execution_id = asked.execution_id,
                                       .permit_id = permit_id,
                                       .spec_sha256 = asked.spec_sha256,
                                       .prestart = asked.prestart,
                                       .now = base::wallMicros(),
                                       .valid_for = kValidFor,
                                       .language = asked.language,
                                       .session_id = ""});
}

double microsSince(base::Monotonic start) {
  return std::chrono::duration<double, std::micro>(base::monotonicNow() - start).count();
}

}  // namespace

Result<PermissionTimes> measurePermission(int checks) {
  const Asked asked = TRY(ask());
  const base::SigningKey key = base::SigningKey::generate();
  PermissionTimes times;
  constexpr int kWarmUp = 100;
  for (int check = -kWarmUp; check < checks; ++check) {
    auto start = base::monotonicNow();
    const policy::Decision alone = decide(asked, "");
    const double decision = microsSince(start);

    start = base::monotonicNow();
    const policy::Decision granted = decide(asked, base::newId("permit"));
    const auto* permit = std::get_if<model::Permit>(&granted);
    if (permit == nullptr) return fail(Code::kDenied, "the default policy denies print(1)");
    model::SignedPermit signed_permit{wire::encodePermit(permit->fields()), {}};
    signed_permit.signature = key.sign(signed_permit.encoded);
    const double whole = microsSince(start);

    if (!key.verifyKey().verify(signed_permit.encoded, signed_permit.signature) ||
        !std::holds_alternative<model::Permit>(alone)) {
      return fail(Code::kInternal, "checking one operation: the permit is not good");
    }
    if (check < 0) continue;
    times.decision.push_back(decision);
    times.permit.push_back(whole);
  }
  std::ranges::sort(times.decision);
  std::ranges::sort(times.permit);
  return times;
}

}  // namespace cloister::bench
