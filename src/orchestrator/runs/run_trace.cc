// SPDX-License-Identifier: Apache-2.0
// The spans of a run. Attributes have ids and fixed words only: no text of a program, of a request
// or of an error, which may hold secrets.
#include "orchestrator/runs/live_run.h"

namespace cloister::orchestrator {

void beginTrace(trace::Tracer* tracer, Live& run) {
  const model::Execution& execution = run.execution;
  run.traced = trace::Step(tracer, execution.principal.trace, "execution");
  if (!run.traced.recorded()) return;
  run.traced.set("cloister.execution.id", execution.id);
  run.traced.set("cloister.tenant", execution.principal.tenant);
  if (!execution.session_id.empty()) run.traced.set("cloister.session.id", execution.session_id);
  if (!execution.language.empty()) run.traced.set("cloister.language", execution.language);
}

void endTrace(Live& run) {
  if (!run.traced.recorded()) return;
  const model::Execution& execution = run.execution;
  run.traced.set("cloister.status", std::string(model::statusName(execution.status)));
  if (!execution.provenance.runtime.empty()) {
    run.traced.set("cloister.runtime", execution.provenance.runtime);
  }
  if (execution.exit_code) run.traced.set("cloister.exit_code", int64_t{*execution.exit_code});
  if (execution.error) run.traced.fail(execution.error->type);
  run.traced.end();
}

}  // namespace cloister::orchestrator
