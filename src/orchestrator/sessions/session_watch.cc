// SPDX-License-Identifier: Apache-2.0
// Sessions::watch: the watches of a session's directories, shared by readers of the same directory.
#include <algorithm>
#include <utility>

#include "async/spawn.h"
#include "orchestrator/sessions/session_scope.h"
#include "orchestrator/sessions/sessions_impl.h"

namespace cloister::orchestrator {
namespace {

// Makes room for another watch by ending a watch without readers.
Result<> makeRoom(LiveSession& session, uint32_t most) {
  if (session.watches.size() < most) return {};
  const auto unread =
      std::ranges::find_if(session.watches, [](const auto& each) { return !each.second->read(); });
  if (unread == session.watches.end()) {
    return fail(Code::kQuota, "watching files: " + std::to_string(most) +
                                  " directories are watched (session.max_watches); leave one");
  }
  unread->second->stop();
  session.watches.erase(unread);
  return {};
}

}  // namespace

Task<Result<std::shared_ptr<FileWatch::Reader>>> Sessions::watch(model::Principal principal,
                                                                 std::string id, std::string path,
                                                                 bool all) {
  const std::shared_ptr<Impl> impl = impl_;
  const SessionPtr session = CO_TRY(impl->findOwn(principal, id, "watching a session's files"));
  CO_TRY(co_await impl->wake(session, principal));
  const std::vector<std::string> asked = {"watch", path};
  CO_TRY(co_await impl->withinScope(session, principal, filesNeed(asked),
                                    "watching a session's files"));
  CO_TRY(co_await impl->mayUseFiles(principal, session, asked));
  std::erase_if(session->watches, [](const auto& each) { return each.second->closed(); });
  const std::pair key(path, all);
  auto& watches = session->watches;
  std::shared_ptr<FileWatch> watch;
  if (const auto found = watches.find(key); found != watches.end()) watch = found->second;
  std::shared_ptr<FileWatch::Reader> reader;
  if (watch) {
    reader = std::make_shared<FileWatch::Reader>(watch);
  } else {
    CO_TRY(makeRoom(*session, impl->config.watches.per_session));
    CO_TRY(session->admitTo("watching a session's files"));
    watch = std::make_shared<FileWatch>(impl->control->executor, impl->config.watches);
    reader = std::make_shared<FileWatch::Reader>(watch);
    watches.emplace(key, watch);
    auto call = co_await impl->askFiles(
        session, std::move(principal),
        {{"watch", path, all ? "1" : "0", std::to_string(impl->config.watches.directories)},
         false,
         ""});
    async::spawn(impl->control->executor, FileWatch::run(watch, std::move(call)));
    async::spawn(impl->control->executor, FileWatch::endUnread(watch));
  }
  CO_TRY(co_await FileWatch::begun(watch));
  co_return reader;
}

}  // namespace cloister::orchestrator
