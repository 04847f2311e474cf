// SPDX-License-Identifier: Apache-2.0
// From the queue to the record: RunService::Impl::execute is the second half of a run's story;
// RunService::run is the first.
#include <algorithm>
#include <chrono>
#include <utility>

#include "async/spawn.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/log.h"
#include "orchestrator/runs/run_impl.h"

namespace cloister::orchestrator {
namespace {

using model::Execution;
using model::Outcome;

constexpr Millis kLinger{20};  // an ended run's sandbox waits for the record
constexpr Millis kDrainPatience{20'000};
constexpr int kRetainBatches = 20;

size_t keptBytes(const OutputLog& log) {
  return log.kept(model::Stream::kStdout, 0).size() + log.kept(model::Stream::kStderr, 0).size() +
         log.latest().results_bytes + base::toJson(log.latest().metadata).size();
}

}  // namespace

void RunService::Impl::startWaiting() {
  const auto comes = [this](const LivePtr& run) { return comesNow(run); };
  while (!draining && control->nodes.connected() && control->places.anyRunRoom()) {
    const auto run = queue.pop(comes);
    if (!run) break;
    leaveQueue(*run);
    (*run)->queued.end();
    occupy(**run);
    async::spawn(control->executor, execute(*run));
  }
  reportDepth();
}

// Checks the quotas of the run's owner, and the free disk that is not reserved for another run.
bool RunService::Impl::hasRoom(const Live& run) const {
  const Need need = needOf(run);
  const bool behind = need.disk > 0 && awaits_disk && awaits_disk.get() != &run;
  return control->places.hasDisk(need) && !(behind && hasRoomInTime(*awaits_disk)) &&
         hasRoomInTime(run);
}

// Once other runs have given back their disk.
bool RunService::Impl::hasRoomInTime(const Live& run) const {
  const model::Limits& limits = run.facts.limits;
  return control->places.hasDiskBesideSessions(needOf(run)) &&
         (control->quotas == nullptr ||
          control->quotas->hasRoom(run.execution.principal, limits.memory_bytes));
}

// The first run passed over for disk alone gets the next free disk: otherwise smaller runs could
// take the disk again and again, and the run would wait for ever.
bool RunService::Impl::comesNow(const LivePtr& run) {
  if (hasRoom(*run)) return fitsNow(run);
  const bool taken = awaits_disk && hasRoomInTime(*awaits_disk);
  if (!taken && hasRoomInTime(*run)) awaits_disk = run;
  return false;
}

// For a time, other runs pass the first run that does not fit. After that time, freed room is kept
// for the first run, and other runs get only the part kept for tenants with little use. No run
// waits for a run that fits only when nothing else runs.
bool RunService::Impl::fitsNow(const LivePtr& run) {
  const base::Monotonic now = base::monotonicNow();
  const Need need = needOf(*run);
  const bool awaits = awaits_room && hasRoom(*awaits_room);
  if (awaits && now >= passed_since + config.skip) {
    return awaits_room == run ? control->places.hasRunRoomAtLast(need)
                              : control->places.hasRunRoomBeside(needOf(*awaits_room), need);
  }
  if (control->places.hasRunRoom(need)) return true;
  if (!awaits && control->places.fitsBesideOthers(need)) {
    awaits_room = run;
    passed_since = now;
    if (!std::exchange(starts_late, true)) async::spawn(control->executor, startLate());
  }
  return false;
}

// Starts waiting runs after the passing time, also without another event.
Task<void> RunService::Impl::startLate() {
  const auto self = shared_from_this();
  const auto early = [&] { return base::monotonicNow() < passed_since + config.skip; };
  while (!stopped && awaits_room && early())
    co_await stopping.wait(passed_since + config.skip);
  starts_late = false;
  if (!stopped) startWaiting();
}

bool RunService::Impl::mayStart(const Live& run) const {
  return !draining && control->nodes.connected() && control->places.hasRunRoom(needOf(run));
}

Need RunService::Impl::needOf(const Live& run) const {
  return control->places.needOf(run.facts.limits, run.execution.principal.tenant);
}

void RunService::Impl::leaveQueue(const LivePtr& run) {
  queue.release(run->execution.principal.tenant, run->bytes);
  if (awaits_disk == run) awaits_disk.reset();
  if (awaits_room == run) awaits_room.reset();
}

void RunService::Impl::occupy(Live& run) {
  run.host->occupy();
  const bool apart = run.request.nested || run.request.fresh;
  if (run.home && !apart) run.home->visit(run.execution.principal);
  if (control->quotas == nullptr || !run.execution.session_id.empty()) return;
  run.use = control->quotas->beginRun(run.execution.principal, run.facts.limits.memory_bytes);
}

void RunService::Impl::vacate(Live& run) {
  run.host->vacate();
  run.use.end();
}

Task<void> RunService::Impl::execute(LivePtr run) {
  const auto self = shared_from_this();
  const Result<Outcome> outcome = co_await perform(run);
  run->hold.reset();  // before the end is reported
  run->use_noted = false;
  async::spawn(control->executor, noteUse(run));  // answered while the record is put together
  const Cause cause = run->cause;                 // a later cause finds the program ended
  co_await endRecording(*run, outcome);
  conclude(*run, outcome, cause);
  while (!run->use_noted)
    co_await run->settled.wait();
  async::spawn(control->executor, tearDown(run));
  co_await recordEnd(*run);
  while (!run->released)
    co_await control->changed.wait();
  vacate(*run);
  retire(run);
  startWaiting();
}

Task<Result<Outcome>> RunService::Impl::perform(LivePtr run) {
  const auto self = shared_from_this();
  if (run->execution.status != model::Status::kRunning) {
    model::SignedPermit permit = CO_TRY(co_await recordStart(*run));
    async::spawn(control->executor, provisionBeside(run, std::move(permit)));
  }
  while (!run->provisioned && !givesUp(*run))
    co_await run->settled.wait();
  if (!run->provisioned) {
    if (run->cause == Cause::kNone) run->cause = Cause::kStopping;
    co_return fail(Code::kUnavailable, "the service stopped before there was a sandbox");
  }
  CO_TRY(*std::move(run->provisioned));
  co_await beginUse(run);
  co_return co_await exec(*run);
}

// A stopping service does not wait for a sandbox under construction, which may take as long as
// reading the image. The node ends the sandbox with the connection.
bool RunService::Impl::givesUp(const Live& run) const {
  return draining && run.execution.session_id.empty();
}

void RunService::Impl::markStarted(Live& run, const model::PermitFields& fields,
                                   std::string permit_id) const {
  run.execution.status = model::Status::kRunning;
  run.execution.started_at = run.clock.now();
  run.execution.limits = fields.limits;
  run.weaker = control->permits.weaker(run.ruling, subjectOf(run));
  model::Provenance& provenance = run.execution.provenance;
  provenance.permit_id = std::move(permit_id);
  provenance.policy_id = run.ruling.policy->id;
  provenance.nested = fields.nested;
  provenance.fresh = fields.fresh;
  const auto image = model::parseImageRef(fields.image).value_or(model::ImageRef{});
  provenance.image = image.name;
  provenance.image_digest = image.digest;  // the node reports the host's
}

model::AuditEvent RunService::Impl::started(const Live& run) const {
  model::AuditEvent event = startedEvent(run.execution, control->nodes.offer());
  if (!run.plan_sha256.empty()) event.details["network_plan_sha256"] = run.plan_sha256;
  return withRuling(std::move(event), run.ruling);
}

// The start is durable before the node gets the program, so the program runs at most once.
Task<Result<model::SignedPermit>> RunService::Impl::recordStart(Live& run) {
  const std::string permit_id = base::newId("permit");
  CO_TRY(co_await holdAsOfNow(run));
  const Result<> loaded = loadSecrets(run);
  furnish(run);
  co_await consult(run);
  const policy::Decision decision = judge(run);
  std::optional<policy::Denied> denied = policy::refusalOf(decision);
  if (!denied && !loaded) denied = policy::Denied{"", loaded.error().message, ""};
  Execution& execution = run.execution;
  Permission granted;
  if (!denied) {
    const model::PermitFields& fields = std::get<model::Permit>(decision).fields();
    markStarted(run, fields, permit_id);
    run.facts.limits = fields.limits;
    keepPlan(run, std::get<model::Permit>(decision).network(), permit_id);
    CO_TRY(co_await persist(run, started(run)));
    run.log->publish(execution);
    co_await consult(run);
    granted = permit(run, permit_id);  // fresh, however long the ledger took
    if (!granted) denied = granted.error();
  }
  if (denied) {
    applyDenial(execution, *denied);
    noteRefusal(run);
    co_return fail(Code::kDenied, denied->reason);
  }
  execution.provenance.policy_id = granted->fields.policy_id;  // another may be in force by now
  const std::string recorded = run.plan_sha256;
  keepPlan(run, std::move(granted->network), permit_id);
  if (run.plan_sha256 != recorded) CO_TRY(co_await recordPlan(run));
  co_return std::move(granted->permit);
}

void RunService::Impl::askForSandbox(const LivePtr& run) {
  if (!run->permit) return;
  async::spawn(control->executor, provisionBeside(run, *std::exchange(run->permit, std::nullopt)));
}

Task<void> RunService::Impl::provisionBeside(LivePtr run, model::SignedPermit permit) {
  const auto self = shared_from_this();
  auto made = co_await recordSecretUse(run);
  if (made) made = co_await openDoor(run);
  // The sandbox gets the certificate of its authority, which comes with the plan's answer.
  const bool inspected = run->inspected;
  if (made && inspected) made = co_await confirmDoor(*run);
  if (made && !run->certificate.empty()) {
    auto again = furnishAnew(*run);
    if (again) permit = *std::move(again);
    if (!again) made = std::unexpected(std::move(again).error());
  }
  if (made) {
    made = co_await provision(*run, std::move(permit));
    auto opened = inspected ? Result<>() : co_await confirmDoor(*run);
    if (!opened) made = std::move(opened);  // the cause, where both failed
  }
  run->provisioned = std::move(made);
  run->settled.notify();
}

Task<Result<>> RunService::Impl::provision(Live& run, model::SignedPermit permit) {
  if (run.cause != Cause::kNone) co_return fail(Code::kInternal, "ended before it was started");
  const model::Limits& limits = run.facts.limits;
  if (!run.known && run.home) run.known = run.home->knownSecrets();
  run.recorder = std::make_unique<Recorder>(
      parts.blobs.blobs(),
      Recorder::Owner{
          .tenant = run.execution.principal.tenant,
          .room = [this, &run] { return roomOf(run.execution.principal.tenant); },
          .keep =
              [&blobs = parts.blobs](model::BlobName blob, artifacts::BlobWriter& writer) {
                return blobs.keepSealed(std::move(blob), writer);
              }},
      *run.log,
      Recorder::Bounds{limits.output_bytes, config.output_artifact_bytes, run.spec.artifacts},
      Recorder::Events{
          .started =
              [this, &run] {
                run.started = true;
                run.starting.end();
                run.execution.started_at = run.clock.now();
                const std::chrono::duration<double> took = base::monotonicNow() - run.accepted_at;
                control->metrics.started(took.count(), run.execution.provenance.runtime);
                run.settled.notify();
              },
          .usage = [&run](const model::Usage& usage) { noteUsage(run, usage); }},
      run.known, config.dlp);
  run.image_since = run.home ? run.home->imageSince() : control->nodes.imageSince();
  trace::Step claiming = run.traced.within("sandbox");
  auto prepared = co_await run.host->prepare(std::move(permit), specOf(run));
  if (!prepared && prepared.error().field == kLayerLost) prepared = co_await prepareAnew(run);
  if (prepared) claiming.set("cloister.runtime", prepared->runtime);
  if (prepared) claiming.set("cloister.node", prepared->node);
  const runtime::SandboxInfo info = CO_TRY(claiming.endedBy(std::move(prepared)));
  if (model::isTerminal(run.execution.status)) {  // given up meanwhile
    CO_TRY(co_await run.host->release());
    co_return fail(Code::kUnavailable, "the sandbox came too late");
  }
  if (info.runtime == "microvm" && run.secrets && !run.secrets->files.empty()) {
    co_return fail(Code::kUnsupported,
                   "starting the run: files of secrets are not offered in microvm; use env");
  }
  if (info.runtime == "microvm" && !run.certificate.empty()) {
    co_return fail(Code::kUnsupported,
                   "starting the run: inspected destinations are not offered in microvm");
  }
  model::Provenance& provenance = run.execution.provenance;
  provenance.runtime = info.runtime;
  provenance.node = info.node;
  provenance.image = info.image;
  provenance.image_digest = info.image_digest;
  provenance.weakened = info.weakened;
  if (!run.weaker.empty()) provenance.weakened.push_back(run.weaker);
  provenance.weakened.insert(provenance.weakened.end(), run.weakened_by_secrets.begin(),
                             run.weakened_by_secrets.end());
  co_return Result<>{};
}

Task<Result<Outcome>> RunService::Impl::exec(Live& run) {
  if (run.cause != Cause::kNone) co_return fail(Code::kInternal, "ended before it was started");
  trace::Step running = run.traced.within("program");
  run.starting = running.within("program.start");
  auto outcome = co_await run.host->run(specOf(run), *run.recorder);
  run.starting = {};
  co_return running.endedBy(std::move(outcome));
}

void RunService::Impl::noteUsage(Live& run, const model::Usage& usage) {
  run.execution.usage = usage;
  run.execution.usage_history.add(usage);
  reportProcessorTime(run);
  run.log->publish(run.execution);
}

void RunService::Impl::reportProcessorTime(Live& run) {
  const auto used = static_cast<uint64_t>(std::max<int64_t>(run.execution.usage.cpu_ms, 0));
  if (!run.home || run.in_kernel || used <= run.reported_cpu_ms) return;
  run.home->addProcessorTime(used - std::exchange(run.reported_cpu_ms, used));
}

// A cell's processor time belongs to its interpreter, which is charged separately.
void RunService::Impl::charge(Live& run) const {
  reportProcessorTime(run);
  if (control->quotas == nullptr || run.execution.cell) return;
  const auto used = static_cast<uint64_t>(std::max<int64_t>(run.execution.usage.cpu_ms, 0));
  const bool shares = run.home && !run.in_kernel;
  control->quotas->charge(run.execution.principal, shares ? run.home->chargeProgram(used) : used);
}

// Keeps the blobs of the run.
Task<void> RunService::Impl::endRecording(Live& run, const Result<Outcome>& outcome) {
  if (!run.recorder) co_return;
  if (outcome && outcome->compile_failed && outcome->compile) {
    run.recorder->record(model::Stream::kStdout, outcome->compile->stdout_text);
    run.recorder->record(model::Stream::kStderr, outcome->compile->stderr_text);
  }
  co_await run.recorder->end();
}

// Writes the outcome into the record.
void RunService::Impl::conclude(Live& run, const Result<Outcome>& outcome, Cause cause) {
  Execution& execution = run.execution;
  if (!outcome) {
    if (!model::isTerminal(execution.status)) {
      applyFault(execution, outcome.error(), cause, run.started);
    }
  } else {
    const auto workspace = workspaceOf(run.facts.limits, execution.provenance.runtime);
    applyOutcome(execution, *outcome, run.facts.limits, workspace, cause);
  }
  run.host->complete(execution);
  redactRecord(run);
  control->nodes.settleImage(execution.provenance, run.image_since);
  charge(run);
  if (run.recorder) run.recorder->complete(execution, outcome && outcome->artifacts_truncated);
  noteHint(run);
  execution.finished_at = run.clock.now();
  for (model::ArtifactRef& artifact : execution.artifacts) {
    if (config.artifact_ttl_us > 0) {
      artifact.expires_at = execution.finished_at + config.artifact_ttl_us;
    }
  }
  run.spec = {};
  run.furnished.reset();
  run.secrets.reset();
  run.settled.notify();
  const double seconds = static_cast<double>(execution.finished_at - execution.started_at) / 1e6;
  const bool queued = !run.host->startsAtOnce();
  if (run.started && queued) mean_seconds += (seconds - mean_seconds) / 16;
}

// Clients see the end only after the end is durable; a terminal state in the ledger stays.
Task<void> RunService::Impl::recordEnd(Live& run) {
  co_await recordWithheld(run);
  if (parts.scanner != nullptr) co_await scanArtifacts(run);
  co_await noteUnverified(run);
  const auto written = co_await persist(run, finishedEvent(run.execution));
  // The image may have been verified during the write.
  if (isUnverified(run.execution.provenance)) async::spawn(control->executor, bindImage());
  for (const model::ArtifactRef& artifact : run.execution.artifacts)
    parts.blobs.release({run.execution.principal.tenant, artifact.sha256}, written.has_value());
  run.host->tell(run.execution);
  if (written) {
    run.log->publish(run.execution);
    control->metrics.finished(run.execution);
  } else {
    base::log(base::Level::kError, "end of a run not recorded",
              {{"execution", run.execution.id}, {"reason", written.error().message}});
    auto stored = control->store.get(store::Scope::of(run.execution.principal), run.execution.id);
    if (stored) run.log->publish(*stored);
  }
  endTrace(run);
  run.log->close();
  run.settled.notify();
}

Task<Result<>> RunService::Impl::persist(Live& run, model::AuditEvent event) {
  trace::Step writing = run.traced.within("ledger.update");
  co_return writing.endedBy(co_await control->insist(run.execution.id, [&] {
    return control->ledger.write(store::updateExecution, run.execution, event);
  }));
}

Task<void> RunService::Impl::tearDown(LivePtr run) {
  const auto self = shared_from_this();
  // Teardown competes with answers for the processor, so wait for the record, but not long.
  co_await run->settled.wait(base::monotonicNow() + kLinger);
  if (const auto done = co_await run->host->release(); !done) {
    base::log(base::Level::kError, "sandbox not torn down",
              {{"execution", run->execution.id}, {"reason", done.error().message}});
  }
  closeDoor(*run);
  run->released = true;
  control->changed.notify();
}

// Moves the run from the live runs to the logs kept for late readers.
void RunService::Impl::retire(const LivePtr& run) {
  const std::string& id = run->execution.id;
  live.erase(id);
  run->recorder.reset();
  if (model::isTerminal(run->log->latest().status)) {
    finished[id] = run->log;
    finished_order.push_back(id);
    finished_bytes += keptBytes(*run->log);
  }
  while (finished_order.size() > config.finished_in_memory ||
         (finished_bytes > config.finished_bytes && !finished_order.empty())) {
    forgetOldest();
  }
  control->changed.notify();
}

void RunService::Impl::forgetOldest() {
  const auto oldest = finished.find(finished_order.front());
  finished_bytes -= keptBytes(*oldest->second);
  finished.erase(oldest);
  finished_order.pop_front();
}

Task<void> RunService::Impl::cancelLive(LivePtr run, model::Principal by) {
  const auto self = shared_from_this();
  const std::string id = run->execution.id;
  if (!std::exchange(run->cancel_asked, true)) {
    // Less may happen than was recorded, so a full disk does not keep a run alive.
    const auto written =
        co_await control->ledger.write(store::appendEvent, cancelEvent(run->execution, by));
    if (!written) {
      base::log(base::Level::kError, "cancel not recorded",
                {{"execution", id}, {"by", by.key_id}, {"reason", written.error().message}});
    }
  }
  co_await endLive(run, Cause::kCancelled);
}

// Ends a run at any stage.
Task<void> RunService::Impl::endLive(LivePtr run, Cause cause) {
  const auto self = shared_from_this();
  if (blocked.erase(run->execution.id) > 0) {
    applyCause(run->execution, cause);
    co_return co_await endBlocked(run);
  }
  if (!queue.remove(run->execution.principal.tenant, run)) {
    endFromOutside(*run, cause);
    co_return;
  }
  leaveQueue(run);
  applyCause(run->execution, cause);
  run->execution.finished_at = run->clock.now();
  co_await recordEnd(*run);
  retire(run);
  startWaiting();  // runs that waited for this run
}

void RunService::Impl::endFromOutside(Live& run, Cause cause) {
  if (run.cause == Cause::kNone) run.cause = cause;
  if (!run.released) run.host->cancel();
}

std::vector<const Execution*> RunService::Impl::programsIn(const std::string& session_id) const {
  std::vector<const Execution*> programs;
  for (const auto& [id, run] : live) {
    if (run->execution.session_id == session_id) programs.push_back(&run->execution);
  }
  return programs;
}

void RunService::Impl::endPrograms(const std::string& session_id, Cause cause, bool waiting_too) {
  const auto runs = live;
  for (const auto& [id, run] : runs) {
    if (run->execution.session_id != session_id) continue;
    const bool waits = run->execution.status != model::Status::kRunning;
    if (waits && !waiting_too) continue;
    if (blocked.erase(id) > 0) {
      applyCause(run->execution, run->cause == Cause::kNone ? cause : run->cause);
      async::spawn(control->executor, endBlocked(run));
    } else {
      endFromOutside(*run, cause);
    }
  }
}

Task<void> RunService::drain() {
  const std::shared_ptr<Impl> impl = impl_;
  impl->draining = true;
  const base::Monotonic until = base::monotonicNow() + kDrainPatience;
  impl->control->giveUpAt(until);
  const auto runs = impl->live;
  for (const auto& [id, run] : runs) {
    if (run->execution.status == model::Status::kRunning) {
      impl->endFromOutside(*run, Cause::kStopping);
    }
    run->settled.notify();  // the run may wait for its sandbox
  }
  // Queued and blocked runs stay: the ledger has these runs for the next start.
  const auto waiting = [&] { return impl->queue.size() + impl->blocked.size(); };
  while (impl->live.size() > waiting() && base::monotonicNow() < until) {
    co_await impl->control->changed.wait(until);
  }
}

Task<void> RunService::Impl::retainRegularly() {
  const auto self = shared_from_this();
  store::Retention rules = config.retention;
  while (!stopped) {
    co_await stopping.wait(base::monotonicNow() + config.retention_every);
    for (int batch = 0; batch < kRetainBatches && !stopped; batch++) {
      const auto done = co_await control->ledger.write(store::retain, rules);
      if (!done) {
        base::log(base::Level::kError, "retention failed", {{"reason", done.error().message}});
        break;
      }
      rules.removed = co_await parts.blobs.remove(done->blobs);
      if (!done->any() && rules.removed.empty()) break;
    }
  }
}

// How much more a tenant may keep.
model::ArtifactQuota RunService::Impl::roomOf(const std::string& tenant) const {
  const auto used = control->store.artifactUsage(tenant);
  if (!used) return {};
  model::ArtifactQuota quota = config.artifact_quota;
  if (control->quotas != nullptr) quota = control->quotas->storageOf(tenant, quota);
  quota = parts.blobs.without(tenant, quota);
  return {.artifacts = quota.artifacts - std::min(quota.artifacts, used->artifacts),
          .bytes = quota.bytes - std::min(quota.bytes, used->bytes)};
}

int RunService::Impl::retryAfter() const {
  const double ahead = static_cast<double>(queue.size() + control->places.runs()) * mean_seconds;
  const double seconds = ahead / std::max(1U, control->places.concurrency());
  return static_cast<int>(std::clamp(seconds, 1.0, 60.0));
}

void RunService::Impl::reportDepth() {
  control->metrics.queueDepth(queue.size(), control->places.runs());
  control->metrics.diskTaken(control->places.diskTaken());
}

}  // namespace cloister::orchestrator
