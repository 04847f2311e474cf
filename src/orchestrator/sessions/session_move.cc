// SPDX-License-Identifier: Apache-2.0
// A session moves to stronger isolation. Another sandbox is made beside the present sandbox, and
// the workspace is copied to the new sandbox. Only after the move is durable is the old sandbox
// given up. After an earlier failure the session stays unchanged.
#include <utility>

#include "async/spawn.h"
#include "base/id.h"
#include "base/log.h"
#include "orchestrator/sessions/sessions_impl.h"

namespace cloister::orchestrator {
namespace {

using model::Session;

constexpr char kDoing[] = "moving a session";
constexpr Millis kEndAgain{50};

std::unexpected<Error> conflict(const std::string& why) {
  return fail(Code::kConflict, std::string(kDoing) + ": " + why);
}

Task<Result<>> copyAll(FileCall& from, FileCall& to) {
  for (;;) {
    std::string piece = CO_TRY(co_await from.read());
    if (piece.empty()) break;
    CO_TRY(co_await to.send(std::move(piece)));
  }
  CO_TRY(co_await from.finish());
  CO_TRY(co_await to.send(""));
  co_return co_await to.finish();
}

void describe(const runtime::SandboxInfo& info, const model::PermitFields& permit,
              model::Provenance& provenance) {
  provenance.runtime = info.runtime;
  provenance.node = info.node;
  provenance.image = info.image;
  provenance.image_digest = info.image_digest;
  provenance.weakened = info.weakened;
  provenance.permit_id = permit.id;
  provenance.policy_id = permit.policy_id;
}

}  // namespace

// During a move nothing is started in the session, and the session has a second place.
class Sessions::Impl::OnItsWay {
 public:
  OnItsWay(Impl& sessions, SessionPtr session) : sessions_(sessions), session_(std::move(session)) {
    session_->moving = true;
    session_->arrived = false;  // of its second place, from now on
    sessions_.control->places.awaitSession(need(), true);
  }
  OnItsWay(const OnItsWay&) = delete;
  OnItsWay& operator=(const OnItsWay&) = delete;
  ~OnItsWay() {
    session_->moving = false;
    session_->changed.notify();
    if (!std::exchange(session_->arrived, true)) sessions_.control->places.arrive(need());
    sessions_.control->places.giveSession(need(), true);
    sessions_.control->changed.notify();
    sessions_.runs->startWaiting();
  }

 private:
  [[nodiscard]] Need need() const {
    return sessions_.control->places.needOf(session_->record.limits,
                                            session_->record.principal.tenant);
  }

  Impl& sessions_;
  SessionPtr session_;
};

std::shared_ptr<void> Sessions::Impl::holdSecondPlace(const SessionPtr& session) {
  return std::make_shared<OnItsWay>(*this, session);
}

Result<> Sessions::Impl::hasRoomToMove() const {
  if (control->places.sandboxesOfSessions() < control->places.forSessions()) return {};
  return fail(Code::kQuota, std::string(kDoing) +
                                ": it needs a second sandbox for a moment, and all that are for "
                                "sessions are taken; come back later");
}

Task<Result<Session>> Sessions::move(model::Principal principal, std::string id,
                                     model::SessionMove to) {
  const std::shared_ptr<Impl> impl = impl_;
  const SessionPtr session = CO_TRY(impl->findToUse(principal, id, kDoing));
  CO_TRY(co_await impl->wake(session, principal));
  CO_TRY(session->admitTo(kDoing));
  CO_TRY(impl->hasRoomToMove());
  const auto moving = impl->holdSecondPlace(session);
  CO_TRY(co_await impl->clear(session, to.end_programs, Cause::kCancelled));
  CO_TRY(co_await impl->goOnInAnother(session, principal, to, Impl::kMoved));
  session->log->publish(session->now());
  co_return session->now();
}

Task<Result<>> Sessions::Impl::goOnInAnother(SessionPtr session, model::Principal by,
                                             model::SessionMove to, const char* why, Held rules) {
  const auto self = shared_from_this();
  const Held before = session->held;
  if (rules) {
    session->held = std::move(rules);
  } else if (agents != nullptr) {
    session->held = CO_TRY(agents->heldFor(session->record.principal));
  }
  auto made = co_await makeAnother(session, to, why);
  auto done = made ? co_await carryOver(session, std::move(by), *std::move(made))
                   : Result<>(std::unexpected(std::move(made).error()));
  if (!done) session->held = before;
  co_return done;
}

// Empties the session of programs and of file requests.
Task<Result<>> Sessions::Impl::clear(SessionPtr session, bool end_programs, Cause cause) {
  if (session->programs > 0 && !end_programs) {
    co_return conflict(
        "programs, or requests for files, are under way in it; end them, or ask for "
        "that with end_programs");
  }
  const auto end_all = [&] {
    runs->endPrograms(session->record.id, cause, false);
    for (const auto& each : session->calls) {
      if (const auto call = each.lock()) call->abandon();
    }
  };
  end_all();
  const auto kernels = session->kernels;
  for (const auto& [name, kernel] : kernels) {
    kernel->stop("it was ended for a move of its session to another sandbox");
    co_await kernel->stopped();
  }
  // A program admitted just before may have no record yet, and so could not be ended.
  const base::Monotonic until = base::monotonicNow() + config.patience.programs;
  for (base::Monotonic now; session->programs > 0 && (now = base::monotonicNow()) < until;) {
    end_all();
    co_await emptied(*session, std::min(until, now + kEndAgain));
  }
  if (session->programs == 0) co_return Result<>{};
  co_return conflict("what runs in it did not end in time");
}

// Makes a sandbox allowed by policy; for a moving session, with stronger isolation than the present
// sandbox.
Task<Result<Sessions::Impl::Moved>> Sessions::Impl::makeAnother(SessionPtr of,
                                                                const model::SessionMove& to,
                                                                const char* why) {
  LiveSession& session = *of;
  CO_TRY(co_await waitForPlace(session));
  model::RunRequest request = session.request;
  if (!to.runtime.empty()) request.runtime = to.runtime;
  if (!to.tier.empty()) request.tier = to.tier;
  request.image = session.record.provenance.image;
  Subject subject = subjectWithin(session, "session", request, session.record.principal);
  subject.inside.clear();
  CO_TRY(loadSecrets(session));
  if (session.secrets) subject.brokered = &session.secrets->brokered;
  Ruling ruling = co_await control->permits.rule(subject);
  // An approval covers the requested sandbox, not every sandbox of a later move.
  Permission granted =
      control->permits.ask(ruling, subject, base::newId("permit"),
                           why == kMoved ? Permits::Approval() : approvalOf(session, true));
  if (!granted) {
    const policy::Denied& denied = granted.error();
    co_return fail(Code::kDenied, std::string(kDoing) + ": " + denied.reason +
                                      (denied.remedy.empty() ? "" : "; " + denied.remedy));
  }
  const std::string& runtime = granted->fields.runtime;
  const auto given = policy::runtimeStrength(runtime);
  const auto had = policy::runtimeStrength(session.runtime);
  if (given < had || (given == had && why == kMoved)) {
    co_return conflict("it is in runtime \"" + session.runtime + "\", and \"" + runtime +
                       "\" is no stronger; ask for a stronger runtime or tier");
  }
  if (!control->nodes.connected()) {
    co_return fail(Code::kUnavailable, std::string(kDoing) + ": no node is connected");
  }
  const std::string plan_sha256 =
      granted->network ? base::sha256Hex(model::encodePlan(*granted->network)) : "";
  OpenedDoor door = CO_TRY(co_await openDoor(of, std::move(granted->network)));
  auto made = control->nodes.connected()
                  ? co_await control->nodes.runtime()->provision(granted->permit)
                  : fail(Code::kUnavailable, "no node is connected");
  if (!made) {
    closeDoor(std::move(door.permit));
    co_return std::unexpected(std::move(made).error().within(kDoing));
  }
  std::string weaker = control->permits.weaker(ruling, subject);
  co_return Moved{.why = why,
                  .box = *std::move(made),
                  .permit = std::move(granted->fields),
                  .request = std::move(request),
                  .ruling = std::move(ruling),
                  .weaker = std::move(weaker),
                  .door = std::move(door.permit),
                  .plan_sha256 = plan_sha256,
                  .additions = std::move(door.additions),
                  .weakened = std::move(door.weakened)};
}

// Only the end of the copy decides which sandbox is given up.
Task<Result<>> Sessions::Impl::carryOver(SessionPtr session, model::Principal principal,
                                         Moved moved) {
  const auto self = shared_from_this();
  const std::shared_ptr<runtime::Sandbox> before = session->box;
  const std::string runtime_before = session->runtime;
  const std::string door_before = session->open_door;
  auto done = co_await copyWorkspace(session, principal, moved);
  if (done && session->ending) done = std::unexpected(endedError(kDoing, session->ending->reason));
  if (done) done = co_await recordMove(*session, moved, principal);
  // A session that ended meanwhile has already given up its last sandbox.
  const bool there = session->box != nullptr;
  const bool has_new = there ? done.has_value() : moved.entered;
  if (there) session->box = has_new ? moved.box : before;
  if (there) session->open_door = has_new ? moved.door : door_before;
  if (there && has_new) session->plan_sha256 = moved.plan_sha256;
  if (there && has_new) session->network_additions = moved.additions;
  if (has_new) forgetVisitors(*session);
  if (const auto used = has_new ? before->used() : std::nullopt) session->earlier.add(*used);
  if (!done) session->runtime = runtime_before;
  async::spawn(control->executor, giveUp(has_new ? before : moved.box, session->record.id,
                                         has_new ? door_before : moved.door));
  if (done) async::spawn(control->executor, watchSandbox(session, moved.box));
  co_return done;
}

// From the second request on, requests for files go to the new sandbox.
Task<Result<>> Sessions::Impl::copyWorkspace(SessionPtr session, model::Principal principal,
                                             Moved& moved) {
  const auto too_late = [&] {
    return std::unexpected(endedError(kDoing, session->ending->reason));
  };
  if (session->ending) co_return too_late();  // while the other sandbox was made
  const auto from =
      CO_TRY(co_await askFiles(session, principal, {{wire::files::kSave}, false, ""}));
  if (session->ending) co_return too_late();
  session->box = moved.box;
  session->open_door = moved.door;
  moved.entered = true;
  session->runtime = moved.permit.runtime;
  const auto into =
      CO_TRY(co_await askFiles(session, principal, {{wire::files::kRestore}, true, ""}));
  auto copied = co_await copyAll(*from, *into);
  if (!copied) co_return std::unexpected(std::move(copied).error().within(kDoing));
  co_return copied;
}

Task<Result<>> Sessions::Impl::recordMove(LiveSession& session, const Moved& moved,
                                          const model::Principal& by) {
  while (session.changing)
    co_await session.changed.wait();
  if (session.ending) co_return std::unexpected(endedError(kDoing, session.ending->reason));
  session.changing = true;
  Session record = session.now();
  describe(moved.box->info(), moved.permit, record.provenance);
  auto& weakened = record.provenance.weakened;
  if (!moved.weaker.empty()) weakened.push_back(moved.weaker);
  weakened.insert(weakened.end(), moved.weakened.begin(), moved.weakened.end());
  const model::Provenance provenance = record.provenance;
  model::AuditEvent event = withRuling(
      movedEvent(moved.why, record, session.record.provenance.runtime, by), moved.ruling);
  if (!moved.plan_sha256.empty()) event.details["network_plan_sha256"] = moved.plan_sha256;
  auto written =
      co_await control->ledger.write(store::updateSession, std::move(record), std::move(event));
  session.changing = false;
  if (written) {
    session.record.provenance = provenance;
    session.request = moved.request;
    session.ruling = moved.ruling;
  }
  session.changed.notify();
  co_return written;
}

Task<void> Sessions::Impl::giveUp(std::shared_ptr<runtime::Sandbox> box, std::string id,
                                  std::string door) {
  const auto self = shared_from_this();
  if (const auto done = co_await box->teardown(); !done) {
    base::log(base::Level::kError, "sandbox not torn down",
              {{"session", id}, {"reason", done.error().message}});
  }
  closeDoor(std::move(door));
}

}  // namespace cloister::orchestrator
