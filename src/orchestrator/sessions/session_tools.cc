// SPDX-License-Identifier: Apache-2.0
// Tool calls from within a session: a process in the sandbox calls (wire/files.h, `tools`), and
// each call becomes a program in a sandbox of its own within the session, decided, permitted and
// recorded like any other. The input is hostile: a malformed message ends the line, and the next
// line is offered after a pause.
#include <string>
#include <string_view>
#include <utility>

#include "async/spawn.h"
#include "orchestrator/sessions/sessions_impl.h"
#include "wire/files_codec.h"

namespace cloister::orchestrator {
namespace {

namespace json = base::json;
namespace files = wire::files;

constexpr auto kPause = std::chrono::seconds(1);
// Delay before reporting a refusal, because each refusal has a record: a looping program must not
// fill the ledger at the speed of the disk.
constexpr auto kRefusalPause = Millis(250);
constexpr auto kLook = Millis(1'000);
constexpr size_t kPiece = size_t{64} << 10;

json::object toObject(const Error& error) {
  const bool passes = error.code == Code::kQuota || error.code == Code::kUnavailable;
  model::RunError said{.type = std::string(model::errorTypeOf(error.code)),
                       .message = error.message,
                       .details = {},
                       .retryable = passes && !error.lasting};
  if (!error.field.empty()) said.details["field"] = error.field;
  return {{"error", toJsonObject(said)}};
}

}  // namespace

// A line into a session's sandbox, during its lifetime.
class Sessions::Impl::ToolLine : public std::enable_shared_from_this<ToolLine> {
 public:
  ToolLine(std::shared_ptr<Impl> of, SessionPtr session, std::shared_ptr<FileCall> call)
      : sessions_(std::move(of)),
        session_(std::move(session)),
        call_(std::move(call)),
        changed_(sessions_->control->executor) {}

  Task<void> run() {
    const auto self = shared_from_this();
    const auto begun = co_await call_->next();
    if (!begun || !*begun || !std::holds_alternative<files::EndOfEntries>(**begun)) co_return;
    std::string heard;
    for (bool going = true; going;) {
      const auto piece = co_await call_->read();
      if (!piece || piece->empty()) break;
      heard += *piece;
      going = take(heard);
    }
    call_->abandon();
  }

 private:
  // Takes the complete calls. False for input that no runner sends.
  bool take(std::string& heard) {
    std::string_view rest = heard;
    for (;;) {
      auto call = files::takeToolCall(rest);
      if (!call || (*call && std::exchange(asked_[(*call)->caller], true))) return false;
      if (!*call) break;
      async::spawn(sessions_->control->executor, answer((*call)->caller, std::move((*call)->line)));
    }
    heard.erase(0, heard.size() - rest.size());
    return true;
  }

  Task<void> answer(uint32_t caller, std::string line) {
    const auto self = shared_from_this();
    const auto execution = co_await perform(std::move(line));
    if (!execution || execution->started_at == 0) {
      co_await session_->ended(base::monotonicNow() + kRefusalPause);
    }
    const json::object said =
        execution ? model::toJsonObject(*execution) : toObject(execution.error());
    co_await send(caller, base::toJson(said) + "\n");
  }

  Task<Result<model::Execution>> perform(std::string line) {
    json::value body = CO_TRY(base::parseJson(line, {.max_bytes = files::kMaxToolRequest}));
    if (!body.is_object()) co_return fail(Code::kInvalid, "a call: must be a JSON object");
    json::object& asked = body.get_object();
    if (!asked.contains("nested") && !asked.contains(model::kSandboxMember)) asked["nested"] = true;
    model::ExecRequest request =
        CO_TRY(model::parseExecRequest(asked, sessions_->config.requests, session_->record));
    if (!request.run.nested && !request.run.fresh) {
      co_return fail(
          Code::kInvalid,
          "sandbox: a call from within has one of its own, nested or fresh; leave it out",
          asked.contains("nested") ? "nested" : "sandbox");
    }
    if (!request.parent_id.empty()) {
      co_return fail(Code::kInvalid, "parent_id: the service knows who calls; leave it out",
                     "parent_id");
    }
    request.from_inside = true;
    const model::Principal principal = session_->record.principal;
    CO_TRY(store::stillHolds(sessions_->control->store, principal));
    const auto accepted =
        CO_TRY(co_await sessions_->exec(principal, session_, std::move(request), ""));
    const auto log = sessions_->runs->findLog(principal, accepted.id);
    // A blocked call is answered at once: approvers may first want the calling program to end.
    const auto blocked = [&] { return log->latest().status == model::Status::kBlocked; };
    while (log && !log->closed() && !blocked())
      co_await log->wait(log->version(), kLook);
    if (log) co_return log->withOutput();
    co_return sessions_->control->store.get(store::Scope::of(principal), accepted.id);
  }

  // Sends whole answers, one after the other. Only then may the caller call again.
  Task<void> send(uint32_t caller, std::string text) {
    while (sending_)
      co_await changed_.wait();
    sending_ = true;
    asked_[caller] = false;
    Result<> sent = co_await call_->send(files::toolAnswerHead(caller, text.size()));
    for (size_t at = 0; sent && at < text.size(); at += kPiece)
      sent = co_await call_->send(text.substr(at, kPiece));
    sending_ = false;
    changed_.notify();
  }

  std::shared_ptr<Impl> sessions_;
  SessionPtr session_;
  std::shared_ptr<FileCall> call_;
  async::Signal changed_;
  bool asked_[files::kMostToolCallers] = {};
  bool sending_ = false;
};

// Waits before the next line; no wait in another sandbox after a move.
Task<void> Sessions::Impl::pauseTools(SessionPtr session, const runtime::Sandbox* was) {
  const auto until = base::monotonicNow() + kPause;
  const auto moved = [&] { return !session->moving && session->box.get() != was; };
  while (!session->ending && !moved() && (session->moving || base::monotonicNow() < until))
    co_await session->changed.wait(session->moving ? base::monotonicNow() + kPause : until);
}

// While the session lives: after a line's end, caused by somebody inside or by a move, another line
// follows.
Task<void> Sessions::Impl::serveTools(SessionPtr session) {
  const auto self = shared_from_this();
  while (!session->ending && !draining) {
    const runtime::Sandbox* const in = session->box.get();
    FileRequest request{{"tools"}, true, ""};
    request.stays = true;
    auto call = co_await askFiles(session, session->record.principal, std::move(request));
    if (call) co_await std::make_shared<ToolLine>(self, session, *std::move(call))->run();
    if (session->ending) break;
    co_await pauseTools(session, in);
  }
}

}  // namespace cloister::orchestrator
