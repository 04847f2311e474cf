// SPDX-License-Identifier: Apache-2.0
// The scope of a session: its purpose, which binds every user of the session, whatever policy
// allows.
#include "orchestrator/sessions/session_scope.h"

#include <algorithm>
#include <utility>

#include "model/capability.h"
#include "orchestrator/sessions/sessions_impl.h"
#include "wire/files.h"

namespace cloister::orchestrator {
namespace {

namespace capability = model::capability;

struct Verb {
  std::string_view name;
  std::vector<std::string_view> needs;
};

const std::vector<Verb>& verbs() {
  static const std::vector<Verb> kVerbs = {
      {"stat", {capability::kFileRead}},
      {"list", {capability::kFileRead}},
      {"read", {capability::kFileRead}},
      {"pack", {capability::kFileRead}},
      {wire::files::kSave, {capability::kFileRead}},
      {"watch", {capability::kFileRead}},
      {wire::files::kCheckpoint, {capability::kFileRead}},
      {"write", {capability::kFileWrite}},
      {"append", {capability::kFileWrite}},
      {"mkdir", {capability::kFileWrite}},
      {"unpack", {capability::kFileWrite}},
      {wire::files::kRestore, {capability::kFileWrite}},
      {"remove", {capability::kFileDelete}},
      {"move", {capability::kFileDelete, capability::kFileWrite}},
      {"connect", {capability::kNetwork}},
  };
  return kVerbs;
}

base::json::array toArray(const std::vector<std::string>& texts) {
  return base::json::array(texts.begin(), texts.end());
}

}  // namespace

std::vector<std::string> filesNeed(const std::vector<std::string>& argv) {
  const auto found = std::ranges::find(verbs(), argv.at(0), &Verb::name);
  if (found != verbs().end()) return {found->needs.begin(), found->needs.end()};
  return {model::kCapabilities.begin(), model::kCapabilities.end()};
}

bool onlyReads(const std::vector<std::string>& argv) {
  return filesNeed(argv) == std::vector<std::string>{std::string(capability::kFileRead)};
}

std::optional<HomeRefusal> Sessions::Impl::beyondScope(const LiveSession& session,
                                                       const std::vector<std::string>& needs) {
  const std::vector<std::string> missing = model::beyondScope(session.record, needs);
  if (missing.empty()) return std::nullopt;
  const std::string names = model::capabilityNames(missing);
  return HomeRefusal{
      .denied = {.rule = "",
                 .reason = "the session was made without " + names + ", which this needs",
                 .remedy = "make a session whose capabilities have " + names + ", or do without"},
      .details = {{"reason", "session_scope"},
                  {"missing", toArray(missing)},
                  {"capabilities", toArray(session.record.capabilities)}}};
}

Task<Result<>> Sessions::Impl::withinScope(SessionPtr session, model::Principal principal,
                                           std::vector<std::string> needs, std::string doing) {
  const auto self = shared_from_this();
  std::optional<HomeRefusal> refusal = beyondScope(*session, needs);
  if (!refusal) co_return Result<>{};
  CO_TRY(session->count());  // counts like a refused program
  refusal->details["doing"] = doing;
  CO_TRY(
      co_await control->ledger.write(store::appendEvent, {.action = "session.refused",
                                                          .subject = session->record.id,
                                                          .principal = std::move(principal),
                                                          .details = std::move(refusal->details)}));
  control->metrics.denied("files");
  co_return fail(Code::kDenied,
                 doing + ": " + refusal->denied.reason + "; " + refusal->denied.remedy,
                 "capabilities");
}

}  // namespace cloister::orchestrator
