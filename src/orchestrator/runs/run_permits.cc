// SPDX-License-Identifier: Apache-2.0
// Policy's decisions about a run (core/permits.h), with the run's approval.
#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "orchestrator/guard/approval_difference.h"
#include "orchestrator/runs/run_impl.h"
#include "policy/approval.h"

namespace cloister::orchestrator {

Subject RunService::Impl::subjectOf(const Live& run) {
  return {.operation = run.execution.session_id.empty() ? "run" : "exec",
          .request = run.request,
          .principal = run.execution.principal,
          .risk_facts = run.risk_facts,
          .held = run.held,
          .language = run.rule_language,
          .execution_id = run.execution.id,
          .session_id = run.execution.session_id,
          .inside = run.home == nullptr ? "" : run.home->runtimeName(),
          .spec_sha256 = run.furnished ? run.furnished_sha256 : run.facts.spec_sha256,
          .prestart = run.facts.prestart,
          .layers = run.layers,
          .brokered = run.secrets ? &run.secrets->brokered : nullptr};
}

Task<void> RunService::Impl::consult(Live& run) const {
  const Subject subject = subjectOf(run);
  trace::Step deciding = run.traced.within("policy.decide");
  run.ruling = co_await control->permits.rule(subject);
  deciding.end();
  run.execution.provenance.policy_id = run.ruling.policy->id;
}

// An invalid approval denies, even if policy would allow the run without an approval.
Permits::Approval RunService::Impl::approvalOf(Live& run) const {
  return [this, &run](const policy::NeedsApproval* wanted) -> std::expected<bool, policy::Denied> {
    if (!run.refusal && run.approval) strikeVotes(run);
    if (!run.refusal && run.approval) {
      auto standing = policy::stands(*run.approval, useOf(run), wanted);
      if (!standing) run.refusal = explained(run, *run.approval, std::move(standing).error(), "");
    }
    if (!run.refusal) return run.approval.has_value();
    return std::unexpected(policy::Denied{.rule = wanted == nullptr ? "" : wanted->rule,
                                          .reason = run.refusal->message,
                                          .remedy = "",
                                          .for_approval = true});
  };
}

policy::Decision RunService::Impl::judge(Live& run) const {
  return control->permits.judge(run.ruling, subjectOf(run), approvalOf(run));
}

Permission RunService::Impl::permit(Live& run, std::string permit_id) const {
  return control->permits.ask(run.ruling, subjectOf(run), std::move(permit_id), approvalOf(run));
}

std::string RunService::Impl::imageDigestOf(const Live& run) const {
  const model::OfferedImage* image = control->permits.image(run.ruling, subjectOf(run));
  return image == nullptr ? control->nodes.imageName() : image->digest;
}

// The approval is of the secrets' versions at the request: they are compared anew at each use.
policy::Use RunService::Impl::useOf(const Live& run) const {
  const std::string digest = imageDigestOf(run);
  Bound bound = run.bound;
  bound.secrets =
      secretVersions(control->store, run.execution.principal.tenant, run.request.secrets);
  policy::Use use{.by = run.execution.principal,
                  .execution_id = run.execution.id,
                  .session_id = run.execution.session_id,
                  .digest = digestOf(bound, digest),
                  .now = base::wallMicros()};
  if (control->nodes.image() && !digest.empty() && digest == control->nodes.image()->digest) {
    use.unverified_digest = digestOf(bound, unverifiedName(*control->nodes.image()));
    use.same_since = control->nodes.image()->changed_at + control->nodes.image()->clock_ahead;
  }
  return use;
}

Error RunService::Impl::explained(const Live& run, const model::Escalation& e, Error refusal,
                                  const std::string& request_json) const {
  Bound bound = run.bound;
  bound.secrets =
      secretVersions(control->store, run.execution.principal.tenant, run.request.secrets);
  return withDifference(control->store, e, std::move(refusal), useOf(run), bound,
                        imageDigestOf(run), request_json);
}

Task<std::optional<policy::NeedsApproval>> RunService::Impl::wantedNow(model::Principal principal,
                                                                       model::RunRequest request) {
  const auto self = shared_from_this();
  request.approval.clear();
  Asked asked{.request = {.run = std::move(request), .cwd = {}, .parent_id = {}}};
  const auto run = prepare(std::move(principal), asked);
  if (!run) co_return std::nullopt;
  co_await consult(**run);
  const policy::Decision decision = judge(**run);
  const auto* wanted = std::get_if<policy::NeedsApproval>(&decision);
  co_return wanted == nullptr ? std::nullopt : std::optional(*wanted);
}

// Limits left open by the request become the rule's limits.
void RunService::Impl::settleLimits(Live& run) const {
  const auto limits = control->permits.limits(run.ruling, subjectOf(run));
  const auto most = control->permits.mostTime(run.ruling, subjectOf(run));
  if (most) run.lasts_for = std::min(run.lasts_for, *most);
  if (limits) run.request.limits = *limits;
  run.request.named_limits.set();  // a later document denies larger limits, but lowers none
}

// A program that lasts as long as its session gets the rule's maximum.
void RunService::Impl::giveMostProcessorTime(Live& run) const {
  const model::Limits most = control->permits.mostAllowed(run.ruling, subjectOf(run));
  run.request.limits.cpu_time = std::max(run.request.limits.cpu_time, most.cpu_time);
  run.facts.limits = run.request.limits;
}

}  // namespace cloister::orchestrator
