// SPDX-License-Identifier: Apache-2.0
// The kernels of a session: assigning code to kernels, starting, listing and ending kernels.
#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/crypto.h"
#include "base/id.h"
#include "orchestrator/sessions/sessions_impl.h"
#include "wire/kernel.h"
#include "wire/node.h"

namespace cloister::orchestrator {
namespace {

bool isCode(const model::ExecRequest& request) {
  return std::holds_alternative<std::monostate>(request.run.command);
}

model::AuditEvent startedEventOf(const model::Session& session, const Kernel& kernel,
                                 const std::string& permit_id) {
  return {
      .action = "kernel.started",
      .subject = session.id,
      .principal = session.principal,
      .details = {
          {"kernel", kernel.name()}, {"language", kernel.language()}, {"permit_id", permit_id}}};
}

}  // namespace

// Code goes to a kernel, except code in a language without kernels, or code for a separate program.
Result<std::shared_ptr<Kernel>> Sessions::Impl::toKernel(const SessionPtr& session,
                                                         model::ExecRequest& request) {
  if (!isCode(request) || request.kernel == model::kNoKernel) return nullptr;
  const model::Language* language = control->languages.find(request.run.language);
  if (language == nullptr) return nullptr;  // reported later
  if (language->kernel.empty()) {
    if (!request.kernel) return nullptr;
    return fail(Code::kInvalid, "kernel: " + language->name + " has none; leave it out", "kernel");
  }
  if (!request.kernel && request.process) return nullptr;
  if (request.run.code.size() > config.kernels.code_bytes) {
    return fail(Code::kTooLarge,
                "code: at most " + std::to_string(config.kernels.code_bytes) +
                    " bytes are allowed for a kernel (kernels.code_bytes); put more in a file, or "
                    "ask for kernel \"none\"",
                "code");
  }
  const std::string name = request.kernel.value_or(language->name);
  request.kernel = name;
  if (session->kernels.size() >= config.kernels.max_per_session) {
    // Removes kernels whose only cells were refused.
    std::erase_if(session->kernels, [](const auto& known) {
      return known.second.use_count() == 1 && !known.second->wasStarted();
    });
  }
  std::shared_ptr<Kernel>& kernel = session->kernels[name];
  if (!kernel && session->kernels.size() > config.kernels.max_per_session) {
    session->kernels.erase(name);
    return fail(Code::kQuota, "kernel: the session has " +
                                  std::to_string(config.kernels.max_per_session) +
                                  " already (kernels.max_per_session); use one of those");
  }
  if (kernel && kernel->language() != language->name) {
    return fail(Code::kInvalid,
                "kernel: \"" + name + "\" is one for " + kernel->language() + "; use another name",
                "kernel");
  }
  if (!kernel) {
    kernel = std::make_shared<Kernel>(
        control->executor, name, language->name, config.kernels,
        [weak = weak_from_this(), of = std::weak_ptr(session)](
            std::shared_ptr<Kernel> which,
            std::function<bool()> over) -> Task<Result<Kernel::Begun>> {
          const auto self = weak.lock();
          const SessionPtr session = of.lock();
          if (!self || !session) co_return fail(Code::kConflict, "starting a kernel: too late");
          co_return co_await self->startKernel(session, std::move(which), std::move(over));
        });
  }
  return kernel;
}

// The kernel starts only after its audit row is durable.
Task<Result<Kernel::Begun>> Sessions::Impl::startKernel(SessionPtr session,
                                                        std::shared_ptr<Kernel> kernel,
                                                        std::function<bool()> over) {
  const auto self = shared_from_this();
  const model::Language* language = control->languages.find(kernel->language());
  model::RunRequest as = session->request;
  as.nested = false;
  as.fresh = false;
  as.secrets.clear();
  as.env = session->record.env;
  if (!as.deps.empty()) as.layers_of = session->record.language;
  as.image = session->record.provenance.image;
  model::ExecSpec spec = policy::resolveKernel(*language, as, kernel->dir(), control->languages);
  const std::string& cwd = session->record.cwd;
  spec.run.argv.insert(spec.run.argv.begin(), {std::string(wire::kernel::kKernel), kernel->dir(),
                                               cwd.empty() ? "/workspace" : cwd});
  spec.run.timeout = kForever;
  spec.for_files = true;
  if (const Additions* additions = session->additions()) addTo(spec, *additions);
  Subject subject = subjectWithin(*session, "kernel", as, session->record.principal);
  subject.execution_id = base::newId("kernel");
  subject.spec_sha256 = base::sha256Hex(wire::encodeExecSpec(spec));
  const Ruling ruling = co_await control->permits.rule(subject);
  const model::Limits most = control->permits.mostAllowed(ruling, subject);
  as.limits.wall = std::max(as.limits.wall, most.wall);
  as.limits.cpu_time = std::max(as.limits.cpu_time, most.cpu_time);
  Permission granted =
      control->permits.ask(ruling, subject, base::newId("permit"), approvalOf(*session, false));
  if (!granted) co_return fail(Code::kDenied, granted.error().reason);
  CO_TRY(co_await control->ledger.write(
      store::appendEvent,
      withRuling(startedEventOf(session->record, *kernel, granted->fields.id), ruling)));
  Kernel::Begun begun{
      .host = makeSessionHost(control->executor, session, {.waits = true, .over = std::move(over)}),
      .spec = std::move(spec)};
  if (control->quotas != nullptr) {
    begun.charge = [quotas = control->quotas, by = session->record.principal,
                    of = std::weak_ptr(session)](uint64_t cpu_ms) {
      if (const SessionPtr in = of.lock()) {
        in->addProcessorTime(cpu_ms);
        cpu_ms = in->chargeProgram(cpu_ms);
      }
      quotas->charge(by, cpu_ms);
    };
  }
  if (session->workspace_held && session->held_kernel == kernel.get()) begun.host->pass();
  CO_TRY(co_await begun.host->prepare(std::move(granted->permit), begun.spec));
  co_return begun;
}

Result<std::vector<KernelState>> Sessions::kernels(const model::Principal& principal,
                                                   const std::string& id) {
  const SessionPtr session = TRY(impl_->findLive(principal, id, "listing a session's kernels"));
  std::vector<KernelState> states;
  for (const auto& [name, kernel] : session->kernels)
    states.push_back(kernel->state());
  return states;
}

Task<Result<std::shared_ptr<Kernel>>> Sessions::Impl::stopKernel(model::Principal principal,
                                                                 SessionPtr session,
                                                                 std::string name, KernelStop how) {
  const auto found = session->kernels.find(name);
  if (found == session->kernels.end()) {
    co_return fail(Code::kNotFound, how.doing + ": there is none of this name");
  }
  const std::shared_ptr<Kernel> kernel = found->second;
  CO_TRY(session->notHeldTo(how.doing));  // held for an approved cell
  CO_TRY(co_await control->ledger.write(store::appendEvent, {.action = how.action,
                                                             .subject = session->record.id,
                                                             .principal = principal,
                                                             .details = {{"kernel", name}}}));
  kernel->stop(how.why);
  co_await kernel->stopped();
  co_return kernel;
}

Task<Result<KernelState>> Sessions::restartKernel(model::Principal principal, std::string id,
                                                  std::string name) {
  const std::shared_ptr<Impl> impl = impl_;
  const std::string doing = "restarting a session's kernel";
  const SessionPtr session = CO_TRY(impl->findToUse(principal, id, doing));
  CO_TRY(co_await impl->wake(session, principal));
  const auto kernel = CO_TRY(co_await impl->stopKernel(
      principal, session, name, {doing, "kernel.restarted", "it was restarted on request"}));
  co_return kernel->state();
}

Task<Result<>> Sessions::endKernel(model::Principal principal, std::string id, std::string name) {
  const std::shared_ptr<Impl> impl = impl_;
  const std::string doing = "ending a session's kernel";
  const SessionPtr session = CO_TRY(impl->findToUse(principal, id, doing));
  CO_TRY(co_await impl->wake(session, principal));
  const auto kernel = CO_TRY(co_await impl->stopKernel(
      principal, session, name, {doing, "kernel.ended", "it was ended on request"}));
  // Its cells leave once their ends are recorded.
  const base::Monotonic patience = base::monotonicNow() + impl->config.patience.programs;
  while (kernel->state().cells > 0 && !session->ending && base::monotonicNow() < patience)
    co_await kernel->changed().wait(patience);
  const auto now = session->kernels.find(name);
  if (now != session->kernels.end() && now->second == kernel && !kernel->runs() &&
      kernel->state().cells == 0)
    session->kernels.erase(now);
  co_return Result<>{};
}

}  // namespace cloister::orchestrator
