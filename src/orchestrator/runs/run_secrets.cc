// SPDX-License-Identifier: Apache-2.0
// The secrets of a run: read when the run starts, handed to the node with the program (env, file)
// or to cloister-egress (broker), and kept out of the record. The stored program, its digest in the
// audit log, and an approval are of the program without them.
#include <utility>

#include "base/clock.h"
#include "base/crypto.h"
#include "base/log.h"
#include "orchestrator/runs/run_impl.h"
#include "store/rows/secrets.h"
#include "wire/node.h"

namespace cloister::orchestrator {
namespace {

// A separate sandbox has neither the session's network nor its files.
bool sharesSandbox(const Live& run) {
  return run.home && !run.request.fresh && !run.request.nested;
}

}  // namespace

Result<> RunService::Impl::loadSecrets(Live& run) const {
  run.secrets.reset();
  if (run.request.secrets.empty()) return {};
  run.secrets = TRY(orchestrator::loadSecrets(control->store, run.execution.principal.tenant,
                                              run.request.secrets, base::wallMicros()));
  run.known = run.home ? run.home->knownSecrets() : nullptr;
  if (!run.known) run.known = std::make_shared<KnownSecrets>();
  run.known->add(run.secrets->known);
  return {};
}

// An interpreter's code runs in the interpreter, which has the additions already.
void furnish(Live& run) {
  run.furnished.reset();
  const Additions* of_home = sharesSandbox(run) && !run.in_kernel ? run.home->additions() : nullptr;
  const bool traced = run.passes_trace && !run.in_kernel;
  if (!run.secrets && run.certificate.empty() && of_home == nullptr && !traced) return;
  model::ExecSpec spec = run.spec;
  if (of_home != nullptr) addTo(spec, *of_home);
  if (!run.certificate.empty()) addTo(spec, trustIn(run.certificate, systemAuthorities()));
  if (run.secrets) {
    setVariables(spec, run.secrets->variables);
    for (const model::FileSpec& file : run.secrets->files) {
      spec.files.push_back(file);
      if (sharesSandbox(run)) spec.temporary.push_back(file.path);
    }
  }
  if (traced) addVariables(spec, {{"TRACEPARENT", model::toTraceparent(run.traced.context())}});
  run.furnished_sha256 = base::sha256Hex(wire::encodeExecSpec(spec));
  run.furnished = std::move(spec);
}

const model::ExecSpec& specOf(const Live& run) {
  return run.furnished ? *run.furnished : run.spec;
}

Result<model::SignedPermit> RunService::Impl::furnishAnew(Live& run) const {
  run.facts.prestart.clear();  // a waiting interpreter does not trust the certificate
  furnish(run);
  Permission granted = permit(run, run.execution.provenance.permit_id);
  if (!granted) return fail(Code::kDenied, granted.error().reason);
  const auto& plan = granted->network;
  if (!plan || base::sha256Hex(model::encodePlan(*plan)) != run.plan_sha256) {
    return fail(Code::kConflict,
                "starting the run: its network changed meanwhile by the policy; try again");
  }
  return std::move(granted->permit);
}

// Durable before the value leaves the control plane.
Task<Result<>> RunService::Impl::recordSecretUse(LivePtr run) {
  if (!run->secrets) co_return Result<>{};
  model::AuditEvent event{.action = "secret.used",
                          .subject = run->execution.id,
                          .principal = run->execution.principal,
                          .details = {{"secrets", run->secrets->shown}}};
  co_return co_await control->ledger.write(store::noteSecretsUsed, run->execution.principal.tenant,
                                           run->secrets->names, base::wallMicros(),
                                           std::move(event));
}

DoorSecrets doorSecretsOf(const Live& run) {
  DoorSecrets secrets;
  if (run.secrets) secrets.values = run.secrets->values;
  if (run.known) {
    secrets.redacted = [known = run.known](const std::string& text) {
      return known->redacted(text);
    };
  }
  return secrets;
}

void redactUse(Live& run) {
  if (!run.known) return;
  for (model::DeniedDestination& each : run.execution.network.denied) {
    each.host = run.known->redacted(each.host);
    each.reason = run.known->redacted(each.reason);
    each.remedy = run.known->redacted(each.remedy);
  }
}

void redactRecord(Live& run) {
  if (!run.known || !run.known->patterns()) return;
  const auto redactArray = [&](base::json::array& items) {
    for (base::json::value& item : items)
      run.known->redact(item);
  };
  redactArray(run.execution.results);
  redactArray(run.execution.results_left_out);
  if (auto& error = run.execution.error) {
    error->message = run.known->redacted(error->message);
    base::json::value details = std::move(error->details);
    run.known->redact(details);
    error->details = std::move(details.get_object());
  }
  if (auto& cell = run.execution.cell) cell->lost_why = run.known->redacted(cell->lost_why);
}

namespace {

// By the rules' names: a record never has the text.
Task<void> recordMatches(Ledger& ledger, const Live& run) {
  constexpr const char* kActions[] = {"report", "redact", "refuse"};
  for (const Recorder::Matched& each : run.recorder->matched()) {
    base::json::object details = {{"rule", each.rule},
                                  {"action", kActions[static_cast<size_t>(each.action)]},
                                  {"place", each.artifact ? "artifacts" : "output"},
                                  {each.artifact ? "path" : "stream", each.where},
                                  {"count", each.count}};
    const auto written =
        co_await ledger.write(store::appendEvent, {.action = "dlp.matched",
                                                   .subject = run.execution.id,
                                                   .principal = run.execution.principal,
                                                   .details = std::move(details)});
    if (!written) {
      base::log(base::Level::kError, "a match of a DLP rule was not recorded",
                {{"execution", run.execution.id}, {"reason", written.error().message}});
    }
  }
}

}  // namespace

Task<void> RunService::Impl::recordWithheld(const Live& run) {
  if (!run.recorder) co_return;
  co_await recordMatches(control->ledger, run);
  for (const Recorder::Withheld& each : run.recorder->withheld()) {
    const auto written = co_await control->ledger.write(
        store::appendEvent, {.action = "artifact.withheld",
                             .subject = run.execution.id,
                             .principal = run.execution.principal,
                             .details = {{"path", each.path}, {"secret", each.secret}}});
    if (!written) {
      base::log(base::Level::kError, "a withheld artifact was not recorded",
                {{"execution", run.execution.id}, {"reason", written.error().message}});
    }
  }
}

}  // namespace cloister::orchestrator
