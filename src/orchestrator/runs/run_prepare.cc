// SPDX-License-Identifier: Apache-2.0
// From a request to a decidable run: the begin of the record, the limits settled by policy, and the
// program within the limits.
#include <utility>

#include "base/clock.h"
#include "base/crypto.h"
#include "base/id.h"
#include "model/prestart.h"
#include "orchestrator/runs/run_impl.h"
#include "wire/node.h"

namespace cloister::orchestrator {
namespace {

using model::Execution;

std::string codeDigest(const model::RunRequest& request) {
  if (const auto* shell = std::get_if<std::string>(&request.command)) {
    return base::sha256Hex(*shell);
  }
  if (const auto* argv = std::get_if<std::vector<std::string>>(&request.command)) {
    return base::sha256Hex(base::toJson(base::json::array(argv->begin(), argv->end())));
  }
  return base::sha256Hex(request.code);
}

// The program that can be started ahead for such requests, if only the code differs.
std::string prestartOf(const model::RunRequest& request, const model::ExecSpec& spec,
                       const model::LanguageSet& languages) {
  const model::Language* language = languages.find(request.language);
  const bool plain = std::holds_alternative<std::monostate>(request.command) &&
                     request.args.empty() && request.env.empty() && request.secrets.empty();
  if (!plain || language == nullptr || !mayPrestart(*language, request.code)) return {};
  return prestartKey(spec);
}

base::json::object metadataOf(const model::RunRequest& request) {
  base::json::object object;
  for (const auto& [name, value] : request.metadata)
    object[name] = value;
  return object;
}

// The names of its code in a session's sandbox: the end of its id is random.
std::string tagOf(const std::string& execution_id) {
  constexpr size_t kTag = 10;
  return execution_id.substr(execution_id.size() - kTag);
}

// The text that idempotency compares.
std::string canonical(const Asked& asked) {
  if (!asked.home) return base::toJson(model::toJsonObject(asked.request.run));
  base::json::object object = model::toJsonObject(asked.request);
  object["session_id"] = asked.home->id();
  return base::toJson(object);
}

}  // namespace

// The question for policy: without a program, so that policy may settle the program's limits.
Result<LivePtr> RunService::Impl::prepare(model::Principal principal, Asked& asked) const {
  if (draining) return fail(Code::kUnavailable, "accepting the run: the service is stopping");
  model::RunRequest& request = asked.request.run;
  model::settle(request.limits);
  auto run = std::make_shared<Live>(control->executor);
  Execution& execution = run->execution;
  execution.id = base::newId("exec");
  if (asked.home) execution.session_id = asked.home->id();
  execution.parent_id = asked.site.parent_id;
  execution.depth = asked.site.depth;
  run->home = asked.home;
  run->enter = asked.enter;
  run->access = asked.workspace;
  run->rule_language = policy::ruleLanguage(request, control->languages);
  run->accepted_at = base::monotonicNow();
  run->ends_at = principal.ends_at;
  execution.principal = std::move(principal);
  execution.language = request.language.empty() ? "" : run->rule_language;
  if (const auto* language = control->languages.find(request.language)) {
    execution.language = language->name;
  }
  execution.metadata = metadataOf(request);
  execution.provenance.policy_id = control->engine.policyId();
  execution.provenance.code_sha256 = codeDigest(request);
  execution.provenance.nested = request.nested;
  execution.provenance.fresh = request.fresh;
  execution.created_at = run->clock.now();
  beginTrace(control->tracer, *run);
  run->passes_trace = config.trace_programs && run->traced.recorded();
  run->risk_facts = policy::riskFactsOf(request, control->languages, control->levels);
  run->request = policyPartsOf(request);
  return run;
}

// The program, within the limits of Live::request.
Result<> RunService::Impl::resolve(Live& run, Asked asked, store::NewExecution& record) {
  model::RunRequest& request = asked.request.run;
  record.request_json = canonical(asked);  // unchanged, for comparison with a retry
  request.limits = run.request.limits;
  const bool shares = asked.home != nullptr && !request.nested;  // its files with others
  run.spec =
      TRY(policy::resolve(request, control->languages, shares ? tagOf(run.execution.id) : ""));
  run.spec.cwd = asked.request.cwd;
  run.spec.keep_input = asked.request.keep_input;
  run.spec.terminal = asked.request.terminal;
  run.terminal = asked.request.terminal.has_value();
  if (asked.interpreter) asked.interpreter->adapt(asked.request, run.spec);
  model::Limits cell = request.limits;
  if (asked.request.lasts) run.spec.run.timeout = cell.wall = run.lasts_for;
  if (asked.request.lasts_cpu) cell.cpu_time = std::chrono::milliseconds(0);
  run.lasts_cpu = asked.request.lasts_cpu;
  run.in_kernel = asked.interpreter != nullptr;
  run.host =
      asked.interpreter ? asked.interpreter->hostOf(asked.home, cell)
      : asked.home
          ? makeSessionHost(control->executor, asked.home)
          : makeOwnHost(control->nodes.current(), control->places,
                        control->places.needOf(request.limits, run.execution.principal.tenant));
  if (!run.spec.artifacts.globs.empty() && asked.collect) {
    run.host = asked.collect(std::move(run.host), run.spec.artifacts);
  }
  record.spec = wire::encodeExecSpec(run.spec);
  run.facts = {
      base::sha256Hex(record.request_json), base::sha256Hex(record.spec), "", request.limits,
      asked.home || run.passes_trace ? "" : prestartOf(request, run.spec, control->languages)};
  run.bytes = record.spec.size();
  run.log = std::make_shared<OutputLog>(
      control->executor, run.facts.limits.output_bytes,
      run.spec.terminal ? OutputLog::Keep::kLast : OutputLog::Keep::kFirst);
  return {};
}

}  // namespace cloister::orchestrator
