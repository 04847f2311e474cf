// SPDX-License-Identifier: Apache-2.0
// Programs and calls in a session: the session's own checks before the request, and the caller.
#include <algorithm>
#include <map>
#include <utility>

#include "model/shown_text.h"
#include "model/tool_rules.h"
#include "orchestrator/sessions/collecting_host.h"
#include "orchestrator/sessions/sessions_impl.h"
#include "policy/command/uncovered.h"

namespace cloister::orchestrator {

Task<Result<model::Execution>> Sessions::exec(model::Principal principal, std::string id,
                                              model::ExecRequest request,
                                              std::string idempotency_key) {
  const std::shared_ptr<Impl> impl = impl_;
  const SessionPtr session = CO_TRY(impl->findToUse(principal, id, "running in a session"));
  CO_TRY(co_await impl->wake(session, principal));
  CO_TRY(co_await impl->mayRun(principal, session));
  co_return co_await impl->exec(std::move(principal), session, std::move(request),
                                std::move(idempotency_key));
}

namespace {

Task<Result<>> noSessions() {
  co_return fail(Code::kUnavailable, "running in a session: the service stops");
}

constexpr size_t kShownPlace = 400;
constexpr char kAsking[] = "asking for approval: ";

std::string fieldOf(const model::ExecRequest& request) {
  return request.run.code.empty() ? "command" : "code";
}

// Checks paths of the program in places writable for others of the session at any time. A program
// in a separate sandbox finds no files of others there.
Result<> staysCovered(const LiveSession& session, const model::ExecRequest& request,
                      const model::LanguageSet& languages) {
  if (request.run.fresh || request.run.nested) return {};
  std::map<std::string, std::string> env = request.run.env;
  env.insert(session.record.env.begin(), session.record.env.end());
  if (const auto* language = languages.find(request.run.language)) {
    env.insert(language->env.begin(), language->env.end());
  }
  std::vector<std::string> list;
  for (const auto& [name, value] : env)
    list.push_back(name + "=" + value);
  if (const auto found = policy::uncoveredVariable(list)) {
    return fail(Code::kInvalid,
                kAsking + ("the variable " + found->name + " " + found->why) +
                    "; use a place in /workspace or in the image, written out, or ask with "
                    "sandbox: fresh",
                "env");
  }
  const std::string& cwd = request.cwd.empty() ? session.record.cwd : request.cwd;
  if (!cwd.empty() && policy::isUncovered(cwd)) {
    return fail(Code::kInvalid,
                kAsking + ("it begins in " + model::markedText(cwd, kShownPlace)) +
                    ", which an approval does not cover; begin in /workspace, or ask with "
                    "sandbox: fresh",
                "cwd");
  }
  return {};
}

// The content of a pipe, or of a server's socket, is not in the state of the workspace.
Result<> hasContent(const WorkspaceState& workspace, std::string field) {
  const auto without = workspace.firstWithoutContent();
  if (!without) return {};
  return fail(Code::kInvalid,
              kAsking + *without +
                  " in the workspace has no content that an approval could cover; remove it, or "
                  "put it into /tmp",
              std::move(field));
}

}  // namespace

Task<Result<model::Execution>> Sessions::Impl::exec(model::Principal principal, SessionPtr session,
                                                    model::ExecRequest request,
                                                    std::string idempotency_key) {
  const auto self = shared_from_this();
  if (session->waits()) CO_TRY(session->admit());  // no approval for a program of a blocked session
  auto& runtime = request.run.runtime;
  if (runtime.empty()) runtime = session->request.runtime;
  request.run.image = session->record.provenance.image;
  Asked asked{.request = std::move(request), .home = session};
  const bool apart = asked.request.run.nested || asked.request.run.fresh;
  if (!apart) {
    asked.collect = [self, session, principal](std::unique_ptr<Host> host,
                                               const model::ArtifactRules& rules) {
      const AskFiles ask = [self, session, principal](FileRequest wanted) {
        return self->askForArtifact(session, principal, std::move(wanted));
      };
      return makeCollectingHost(std::move(host), ask, rules);
    };
  }
  // Weak, because sessions own the objects that keep the run.
  asked.enter = [weak = weak_from_this(), session](Held opened, Held by_rules) {
    const auto sessions = weak.lock();
    return sessions ? sessions->enter(session, std::move(opened), std::move(by_rules))
                    : noSessions();
  };
  asked.site = CO_TRY(siteOf(principal, *session, asked.request));
  asked.refusal = beyondScope(*session, model::capabilitiesNeeded(asked.request.run));
  if (!asked.refusal) asked.refusal = tooDeep(asked.site);
  if (!asked.refusal) asked.refusal = CO_TRY(beyondVisitors(*session, asked.request));
  std::shared_ptr<Kernel> kernel;
  if (!asked.refusal) kernel = CO_TRY(toKernel(session, asked.request));
  asked.interpreter = kernel;
  asked.workspace.read = [weak = weak_from_this(), session, field = fieldOf(asked.request),
                          covered =
                              staysCovered(*session, asked.request,
                                           control->languages)]() -> Task<Result<WorkspacePtr>> {
    const auto sessions = weak.lock();
    if (!sessions) co_return std::unexpected((co_await noSessions()).error());
    CO_TRY(covered);
    WorkspacePtr state = CO_TRY(co_await sessions->readWorkspace(session));
    CO_TRY(hasContent(*state, field));
    co_return state;
  };
  asked.workspace.hold = [weak = weak_from_this(), session, kernel](
                             std::string execution, WorkspacePtr as_asked,
                             std::function<void()> lost,
                             std::function<bool()> over) -> Task<Result<std::shared_ptr<void>>> {
    const auto sessions = weak.lock();
    if (!sessions) co_return std::unexpected((co_await noSessions()).error());
    co_return co_await sessions->holdWorkspace(session, kernel, std::move(execution),
                                               std::move(as_asked), std::move(lost),
                                               std::move(over));
  };
  const bool calls = !asked.refusal && !apart;
  if (calls) session->deepest = std::max(session->deepest, asked.site.depth);
  co_return co_await runs->ask(std::move(principal), std::move(asked), std::move(idempotency_key));
}

// An API client names the caller; a program in the session cannot name its caller.
Result<CallSite> Sessions::Impl::siteOf(const model::Principal& principal,
                                        const LiveSession& session,
                                        const model::ExecRequest& request) const {
  if (request.from_inside) return siteFromInside(session);
  if (request.parent_id.empty()) return CallSite{};
  const auto invalid = [] {
    return fail(Code::kInvalid,
                "parent_id: there is no such execution in this session; name one that is "
                "(GET /v1/executions?session_id=), or leave it out",
                "parent_id");
  };
  model::Execution parent;
  if (const auto log = runs->findLog(principal, request.parent_id)) {
    parent = log->latest();
  } else {
    auto found = control->store.get(store::Scope::of(principal), request.parent_id);
    if (!found && found.error().code == Code::kNotFound) return invalid();
    parent = TRY(std::move(found));
  }
  if (parent.session_id != session.record.id) return invalid();
  return CallSite{.parent_id = request.parent_id, .depth = parent.depth + 1};
}

// The socket does not tell which of the session's programs calls; programs in separate sandboxes
// cannot call. So the caller is taken for the deepest running program, or the newest of the
// deepest; no program can lower its own depth. Remains of ended programs count as the deepest
// program so far.
CallSite Sessions::Impl::siteFromInside(const LiveSession& session) const {
  const model::Execution* caller = nullptr;
  for (const model::Execution* each : runs->programsIn(session.record.id)) {
    const bool apart = each->provenance.nested || each->provenance.fresh;
    if (apart || each->status != model::Status::kRunning) continue;
    const auto order = [](const model::Execution& of) { return std::pair(of.depth, of.seq); };
    if (caller == nullptr || order(*each) > order(*caller)) caller = each;
  }
  if (caller == nullptr) return {.parent_id = "", .depth = session.deepest + 1};
  // A call by another agent's program is recorded without an id, because the session's agent cannot
  // see the program.
  const bool seen = session.record.principal.sees(caller->principal);
  return {.parent_id = seen ? caller->id : "", .depth = caller->depth + 1};
}

std::optional<HomeRefusal> Sessions::Impl::tooDeep(const CallSite& site) const {
  if (site.depth <= config.max_call_depth) return std::nullopt;
  return HomeRefusal{
      .denied = {.rule = "",
                 .reason = "the call is " + std::to_string(site.depth) +
                           " calls deep, and at most " + std::to_string(config.max_call_depth) +
                           " are allowed (session.max_call_depth)",
                 .remedy = "call it from a program that is less deep"},
      .details = {{"reason", "call_depth"},
                  {"depth", site.depth},
                  {"max_call_depth", config.max_call_depth}}};
}

}  // namespace cloister::orchestrator
