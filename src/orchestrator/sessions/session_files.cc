// SPDX-License-Identifier: Apache-2.0
// The files and ports of a session: Sessions::files and Sessions::connect. A request is a program
// of its own in the sandbox, on a permit of its own; what changes something has an audit row.
#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/crypto.h"
#include "base/id.h"
#include "orchestrator/core/display_path.h"
#include "orchestrator/sessions/session_scope.h"
#include "orchestrator/sessions/sessions_impl.h"
#include "wire/node.h"

namespace cloister::orchestrator {
namespace {

model::ExecSpec specOf(const FileRequest& request) {
  model::ExecSpec spec;
  spec.run.argv = request.argv;
  spec.keep_input = request.takes_input;
  spec.for_files = true;
  return spec;
}

Task<Result<>> nothing() {
  co_return Result<>{};
}

// An argument may be no path: the workspace is "" there, as before.
std::string displayArgument(const std::string& text) {
  return text.starts_with('/') ? displayFilePath(text) : displayPath(text);
}

// True if a failed request may leave a partial result.
bool leavesParts(const FileRequest& request, const Error& failed) {
  const std::string& verb = request.argv[0];
  if (verb == "unpack" || verb == wire::files::kRestore) return true;
  const bool nothing_there = failed.code == Code::kNotFound;
  if (verb == "remove") return request.argv.back() == "1" && !nothing_there;
  return verb == "append" && !nothing_there && failed.code != Code::kConflict;
}

model::AuditEvent eventOf(const FileRequest& request, const std::string& session,
                          const model::Principal& by) {
  base::json::array paths;
  for (size_t i = 1; i < request.argv.size(); ++i)
    paths.emplace_back(base::json::string(displayArgument(request.argv[i])));
  return {.action = request.action,
          .subject = session,
          .principal = by,
          .details = {{"request", request.argv[0]}, {"arguments", std::move(paths)}}};
}

}  // namespace

Task<Result<std::shared_ptr<FileCall>>> Sessions::files(model::Principal principal, std::string id,
                                                        FileRequest request) {
  const std::shared_ptr<Impl> impl = impl_;
  const std::string doing = "using a session's files";
  const std::vector<std::string> needs = filesNeed(request.argv);
  const SessionPtr session = CO_TRY(impl->findOwn(principal, id, doing));
  if (!onlyReads(request.argv)) CO_TRY(mustReach(principal, session->record.principal, doing));
  CO_TRY(co_await impl->wake(session, principal));
  CO_TRY(co_await impl->withinScope(session, principal, needs, doing));
  CO_TRY(co_await impl->mayUseFiles(principal, session, request.argv));
  CO_TRY(session->admitTo(doing));
  co_return co_await impl->askFiles(session, std::move(principal), std::move(request));
}

Task<Result<std::shared_ptr<FileCall>>> Sessions::save(model::Principal principal, std::string id,
                                                       bool memory) {
  struct Saving {
    SessionPtr session;
    std::shared_ptr<FileCall> call = {};
    explicit Saving(SessionPtr of) : session(std::move(of)) { session->saving = true; }
    Saving(const Saving&) = delete;
    Saving& operator=(const Saving&) = delete;
    ~Saving() { session->saving = false; }
  };
  const std::shared_ptr<Impl> impl = impl_;
  const SessionPtr session = CO_TRY(impl->findToUse(principal, id, "using a session's files"));
  CO_TRY(co_await impl->wake(session, principal));
  if (session->saving) {
    co_return fail(Code::kConflict,
                   "taking a snapshot: another one of this session is being taken");
  }
  if (memory && !session->visitors.empty()) {
    co_return fail(Code::kConflict,
                   "taking a snapshot: other agents have run programs in the session, and its "
                   "memory has what they left behind; take one without memory");
  }
  const std::string verb = memory ? wire::files::kCheckpoint : wire::files::kSave;
  CO_TRY(co_await impl->withinScope(session, principal, filesNeed({verb}), "taking a snapshot"));
  if (!principal.sameAgent(session->record.principal)) {
    CO_TRY(co_await impl->mayUseFiles(principal, session, {verb}));
  }
  CO_TRY(session->admitTo("taking a snapshot"));
  const auto saving = std::make_shared<Saving>(session);
  saving->call =
      CO_TRY(co_await impl->askFiles(session, std::move(principal), {{verb}, false, ""}));
  co_return std::shared_ptr<FileCall>(saving, saving->call.get());
}

Task<Result<std::shared_ptr<FileCall>>> Sessions::keepLayer(model::Principal principal,
                                                            std::string id, std::string name,
                                                            std::string path) {
  const std::shared_ptr<Impl> impl = impl_;
  const SessionPtr session = CO_TRY(impl->findToUse(principal, id, "making a layer"));
  CO_TRY(session->admitTo("making a layer"));
  co_return co_await impl->askFiles(
      session, std::move(principal),
      {{wire::files::kLayer, std::move(name), std::move(path)}, false, ""});
}

Task<Result<std::shared_ptr<FileCall>>> Sessions::connect(model::Principal principal,
                                                          std::string id, uint16_t port) {
  const std::shared_ptr<Impl> impl = impl_;
  const SessionPtr session = CO_TRY(impl->findToConnect(principal, id, "using a session's port"));
  CO_TRY(co_await impl->wake(session, principal));
  CO_TRY(co_await impl->withinScope(session, principal, filesNeed({"connect"}),
                                    "using a session's port"));
  CO_TRY(session->admitTo("using a session's port"));
  auto& open = session->connections;
  std::erase_if(open, [](const auto& each) { return each.expired(); });
  if (open.size() + session->connecting >= impl->config.max_connections) {
    co_return fail(Code::kQuota,
                   "using a session's port: " + std::to_string(impl->config.max_connections) +
                       " connections are open (session.max_connections); close one");
  }
  ++session->connecting;
  auto call = co_await impl->askFiles(session, std::move(principal),
                                      {{"connect", std::to_string(port)}, true, ""});
  --session->connecting;
  if (call) open.emplace_back(*call);
  co_return call;
}

Result<model::Session> Sessions::mayConnect(const model::Principal& principal,
                                            const std::string& id, const std::string& doing) {
  return TRY(impl_->findToConnect(principal, id, doing))->now();
}

std::vector<std::string> Sessions::running() const {
  std::vector<std::string> ids;
  for (const auto& [id, session] : impl_->live) {
    if (session->record.status == model::SessionStatus::kRunning) ids.push_back(id);
  }
  return ids;
}

Result<model::Principal> Sessions::ownerOf(const std::string& id) const {
  const auto found = impl_->live.find(id);
  if (found != impl_->live.end()) return found->second->record.principal;
  return fail(Code::kNotFound, "no such session, or it has ended");
}

Result<SessionPtr> Sessions::Impl::findOwn(const model::Principal& principal, const std::string& id,
                                           const std::string& doing) const {
  SessionPtr session = TRY(findLive(principal, id, doing));
  TRY(mustBeOfTenant(principal, session->record.principal, doing));
  return session;
}

Result<SessionPtr> Sessions::Impl::findToUse(const model::Principal& principal,
                                             const std::string& id,
                                             const std::string& doing) const {
  SessionPtr session = TRY(findOwn(principal, id, doing));
  TRY(mustReach(principal, session->record.principal, doing));
  return session;
}

// Like input to a program (RunService::Impl::mayType()): rules cannot judge traffic to a port.
Result<SessionPtr> Sessions::Impl::findToConnect(const model::Principal& principal,
                                                 const std::string& id,
                                                 const std::string& doing) const {
  SessionPtr session = TRY(findToUse(principal, id, doing));
  const bool own = principal.sameAgent(session->record.principal);
  if (own || agents == nullptr || !TRY(agents->standingFor(principal))) return session;
  return fail(Code::kDenied, doing +
                                 ": the session is another agent's, and what its programs are told "
                                 "cannot be held to the rules of agent " +
                                 principal.agent + "; make a session of your own");
}

Task<Result<std::shared_ptr<FileCall>>> Sessions::Impl::askFiles(SessionPtr session,
                                                                 model::Principal principal,
                                                                 FileRequest request) {
  const auto self = shared_from_this();
  model::ExecSpec spec = specOf(request);
  const WhenHeld when_held{.waits = request.over != nullptr, .over = request.over};
  std::unique_ptr<Host> host = makeSessionHost(control->executor, session, when_held);
  if (request.own || request.passes) host->pass();
  if (!request.stays)
    host->occupy();  // before asking the engine, because the place is already admitted
  model::RunRequest as = session->request;
  as.nested = false;  // the session's files are beside its programs
  as.fresh = false;
  Subject subject = subjectWithin(*session, "files", as, principal);
  subject.execution_id = base::newId("file");
  const Ruling ruling = co_await control->permits.rule(subject);
  // As long as the session's rule lets any program run: clients may be slow.
  const model::Limits most = control->permits.mostAllowed(ruling, subjectOf(*session));
  as.limits.wall = std::max(session->request.limits.wall, most.wall);
  as.limits.cpu_time = std::max(session->request.limits.cpu_time, most.cpu_time);
  // The timeout is also how long the node may be silent.
  spec.run.timeout = request.stays ? kForever : as.limits.wall;
  subject.spec_sha256 = base::sha256Hex(wire::encodeExecSpec(spec));
  // The approval covers the service's own request for the approval.
  const Permits::Approval approved = [&](const policy::NeedsApproval*) { return true; };
  Permission granted = control->permits.ask(ruling, subject, base::newId("permit"),
                                            request.own ? approved : approvalOf(*session, false));
  if (!granted) {
    host->vacate();
    co_return fail(Code::kDenied, granted.error().reason);
  }
  const auto info = co_await host->prepare(std::move(granted->permit), spec);
  if (!info) {
    host->vacate();
    co_return std::unexpected(info.error());
  }
  FileCall::Record record;
  if (!request.action.empty()) {
    record = [with = control, request, event = eventOf(request, session->record.id, principal)](
                 const std::optional<Error>& failed) {
      if (failed && !leavesParts(request, *failed)) return nothing();
      model::AuditEvent row = event;
      if (failed) row.details["incomplete"] = failed->message;
      return with->ledger.write(store::appendEvent, std::move(row));
    };
  }
  auto call = std::make_shared<FileCall>(control->executor, std::move(host), std::move(spec),
                                         std::move(record));
  std::erase_if(session->calls, [](const auto& each) { return each.expired(); });
  session->calls.push_back(call);
  if (session->ending) call->abandon();  // meanwhile
  co_return call;
}

}  // namespace cloister::orchestrator
