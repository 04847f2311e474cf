// SPDX-License-Identifier: Apache-2.0
// The dependency layers of a run: there already at its acceptance, or made before its turn in the
// queue. A run that waits for a layer takes no sandbox.
#include <utility>

#include "async/spawn.h"
#include "base/id.h"
#include "model/image_name.h"
#include "orchestrator/core/layers.h"
#include "orchestrator/runs/run_impl.h"

namespace cloister::orchestrator {
namespace {

void haveLayers(Live& run, Layered layered) {
  run.layers = std::move(layered.layers);
  run.execution.provenance.layers = std::move(layered.shown);
}

}  // namespace

// Packages that the operator's rules refuse.
policy::Denied refusalOfLayers(const Error& error) {
  return {.rule = "",
          .reason = error.message,
          .remedy =
              "ask for other packages, or ask the operator about packages.rules and "
              "packages.advisories"};
}

// A program of a session has the layers of the session's sandbox.
bool lacksLayers(const Live& run) {
  return !run.home && !run.request.deps.empty() && run.layers.empty();
}

LayerRequest RunService::Impl::layerRequestOf(const Live& run) const {
  const model::OfferedImage* image = control->permits.image(run.ruling, subjectOf(run));
  return {.principal = run.execution.principal,
          .language = run.execution.language,
          .deps = run.request.deps,
          .image = image == nullptr ? toText(model::ImageRef{})
                                    : toText(model::ImageRef{image->name, image->digest})};
}

// The error of dependencies that can never be had, and of a session's that are refused by now.
Result<> RunService::Impl::takeLayers(Live& run) const {
  if (run.home && control->layers != nullptr) {
    TRY(control->layers->permitted(run.execution.principal, run.home->dependencyLayers()));
  }
  if (!lacksLayers(run)) return {};
  if (control->layers == nullptr) {
    return fail(Code::kUnsupported,
                "deps: this service has no index of packages; have packages.pypi.index or "
                "packages.npm.registry configured, or leave deps empty",
                "deps");
  }
  const LayerRequest wanted = layerRequestOf(run);
  TRY(control->layers->check(wanted));
  if (auto there = control->layers->ready(wanted)) haveLayers(run, *std::move(there));
  return {};
}

void RunService::Impl::enqueue(const LivePtr& run) {
  show(run);
  run->queued = run->traced.within("queue");
  if (!lacksLayers(*run)) {
    queue.push(run->execution.principal.tenant, run);
    return startWaiting();
  }
  async::spawn(control->executor, makeLayers(run));
}

Task<void> RunService::Impl::makeLayers(LivePtr run) {
  const auto self = shared_from_this();
  Result<Layered> made = fail(Code::kUnsupported, "deps: this service has no index of packages");
  if (control->layers != nullptr) {
    co_await consult(*run);
    made = co_await control->layers->make(layerRequestOf(*run));
  }
  if (draining) {  // the ledger has the run for the next start
    live.erase(run->execution.id);
    control->changed.notify();
    co_return;
  }
  if (made && run->cause == Cause::kNone) {
    haveLayers(*run, *std::move(made));
    queue.push(run->execution.principal.tenant, run);
    startWaiting();
    co_return;
  }
  leaveQueue(run);
  if (run->cause != Cause::kNone) {
    applyCause(run->execution, run->cause);
  } else if (made.error().code == Code::kDenied) {
    applyDenial(run->execution, refusalOfLayers(made.error()));
  } else {
    applyFault(run->execution, made.error(), Cause::kNone, false);
  }
  run->execution.finished_at = run->clock.now();
  co_await recordEnd(*run);
  retire(run);
  startWaiting();
}

// The node has given up the run's layer for others: it is made again, and a new permit names it. A
// door belongs to the first permit, so a run with a network ends.
Task<Result<runtime::SandboxInfo>> RunService::Impl::prepareAnew(Live& run) {
  if (control->layers == nullptr || !run.plan_sha256.empty()) {
    co_return fail(Code::kInternal, "the node has lost the dependency layer; send the run again");
  }
  control->layers->lost(run.layers);
  haveLayers(run, CO_TRY(co_await control->layers->make(layerRequestOf(run))));
  co_await consult(run);
  Permission granted = permit(run, base::newId("permit"));
  if (!granted) co_return fail(Code::kDenied, granted.error().reason);
  run.execution.provenance.permit_id = granted->fields.id;
  co_return co_await run.host->prepare(std::move(granted->permit), specOf(run));
}

}  // namespace cloister::orchestrator
