// SPDX-License-Identifier: Apache-2.0
// run, exec, get_logs, cancel: programs. Each is an execution as made by REST; only waiting and
// answering differ.
#include <algorithm>

#include "api/mcp/results.h"
#include "api/mcp/text.h"
#include "api/mcp/tool.h"
#include "api/rest/requests.h"
#include "async/spawn.h"
#include "base/clock.h"
#include "base/content_type.h"
#include "model/network_text.h"

namespace cloister::api::mcp {
namespace {

using model::Execution;

constexpr Millis kTick{250};  // between notifications of progress, at least

// Renames an argument to the request's name, or converts its form.
Result<> rename(json::object& arguments, std::string_view from, std::string_view to) {
  const json::value* value = arguments.if_contains(from);
  if (value == nullptr) return {};
  if (arguments.contains(to)) {
    return fail(Code::kInvalid, std::string(from) + ": not together with " + std::string(to),
                std::string(from));
  }
  json::value moved = *value;
  arguments.erase(from);
  arguments[to] = std::move(moved);
  return {};
}

// The body of POST /v1/executions or …/exec.
Result<> toBody(json::object& arguments) {
  if (const json::value* command = arguments.if_contains("command");
      command != nullptr && !command->is_string()) {
    return fail(Code::kInvalid, "command: must be a string; give a list as argv", "command");
  }
  if (const json::value* argv = arguments.if_contains("argv");
      argv != nullptr && !argv->is_array()) {
    return fail(Code::kInvalid, "argv: must be a list; give a line for the shell as command",
                "argv");
  }
  TRY(rename(arguments, "argv", "command"));
  TRY(listedEnv(arguments));
  return namedNetwork(arguments);
}

Result<bool> takeFlag(json::object& arguments, std::string_view name) {
  const json::value* value = arguments.if_contains(name);
  if (value == nullptr || value->is_null()) {
    arguments.erase(name);
    return false;
  }
  if (!value->is_bool()) {
    return fail(Code::kInvalid, std::string(name) + ": must be true or false", std::string(name));
  }
  const bool flag = value->get_bool();
  arguments.erase(name);
  return flag;
}

// A cancelled call ends its execution, whatever becomes of the call.
void endWith(Server& server, const Call& call, const std::string& id) {
  call.exchange->onCancel([&server, principal = call.principal, id] {
    async::spawn(server.executor(),
                 [](Server& own, model::Principal who, std::string execution) -> Task<void> {
                   (void)co_await own.rest().service.cancel(std::move(who), std::move(execution));
                 }(server, principal, id));
  });
}

// Further waiting is useless: the execution has ended, or waits for people.
bool isSettled(const Execution& run) {
  return model::isTerminal(run.status) || run.status == model::Status::kBlocked;
}

Task<Result<Execution>> watch(Server& server, Call& call, std::string id) {
  const base::Monotonic begin = base::monotonicNow();
  const auto log = CO_TRY(server.rest().service.log(call.principal, id));
  base::Monotonic next = begin + server.settings().heartbeat;
  uint64_t seen = 0;
  uint64_t told = 0;
  bool err_last = false;
  uint64_t err_seen = 0;
  while (true) {
    Execution now = CO_TRY(co_await server.rest().service.wait(call.principal, id, kTick));
    if (isSettled(now)) co_return now;
    const uint64_t err = log->total(model::Stream::kStderr);
    const uint64_t total = log->total(model::Stream::kStdout) + err;
    if (total == seen && base::monotonicNow() < next) continue;
    if (total != seen) err_last = err != err_seen;
    err_seen = err;
    seen = total;
    next = base::monotonicNow() + server.settings().heartbeat;
    const auto elapsed = std::chrono::duration_cast<Millis>(base::monotonicNow() - begin).count();
    told = std::max(told + 1, static_cast<uint64_t>(elapsed));
    std::string line =
        lastLine(log->kept(err_last ? model::Stream::kStderr : model::Stream::kStdout, 0));
    if (line.empty()) line = std::string(model::statusName(now.status));
    call.progress(told, std::nullopt, line);
  }
}

// To its end; without progress, no longer than clients wait.
Task<Result<Execution>> follow(Server& server, Call& call, Execution started) {
  endWith(server, call, started.id);
  if (isSettled(started)) co_return started;
  if (!call.progress_token.is_null()) co_return co_await watch(server, call, started.id);
  co_return co_await server.rest().service.wait(call.principal, started.id,
                                                server.settings().sync_wait);
}

std::string summaryLine(const Execution& run) {
  std::string line = "status: " + std::string(model::statusName(run.status));
  if (run.exit_code) line += ", exit code " + std::to_string(*run.exit_code);
  if (!run.signal.empty()) line += ", ended by " + run.signal;
  if (model::isTerminal(run.status)) {
    line += " after " + std::to_string(run.usage.wall_ms) + " ms";
  }
  return line;
}

bool isOurs(const Execution& run) {
  namespace type = model::error_type;
  if (run.status == model::Status::kDenied || run.status == model::Status::kBlocked) return true;
  if (run.status != model::Status::kFailed || !run.error) return false;
  const std::string& why = run.error->type;
  return why != type::kResourceLimit && why != type::kOutputLimit && why != type::kTimeout;
}

std::string afterApproval(const Execution& run) {
  const std::string id = textIn(run.error->details, "escalation_id");
  if (run.status == model::Status::kBlocked) {
    return "a person has to approve " + id +
           "; it then runs by itself: go on with something else, and look again with get_logs of " +
           run.id + ", or cancel";
  }
  if (textIn(run.error->details, "reason").empty() && !id.empty()) {
    return "a person has to approve " + id + "; then send the same again, with approval " + id;
  }
  return "do without it, or ask anew";
}

std::string nextStepOf(const Execution& run) {
  namespace type = model::error_type;
  if (run.status == model::Status::kRunning || run.status == model::Status::kQueued) {
    return "it goes on: call get_logs with execution_id " + run.id +
           " and wait_seconds 45, or cancel";
  }
  if (!run.error) return "";
  const std::string& why = run.error->type;
  if (why == type::kApprovalRequired) return afterApproval(run);
  if (why == type::kPermissionDenied) {
    return "do without it, or ask the operator to allow it in the policy";
  }
  if (why == type::kTimeout) return "make it faster, or ask for more with timeout_seconds";
  if (why == type::kResourceLimit) return "use less, or ask for a higher limit";
  if (run.error->retryable) return "call again";
  return isOurs(run) ? "call again once; if it stays, tell the operator" : "";
}

json::object provenanceOf(const Execution& run) {
  json::array weakened;
  for (const std::string& each : run.provenance.weakened)
    weakened.emplace_back(json::string(each));
  return {{"runtime", run.provenance.runtime},
          {"image_digest", run.provenance.image_digest.empty()
                               ? json::value(nullptr)
                               : json::value(run.provenance.image_digest)},
          {"policy_id", run.provenance.policy_id},
          {"permit_id", run.provenance.permit_id},
          {"weakened", std::move(weakened)}};
}

json::object structuredOf(const Execution& run, const Excerpt& out, const Excerpt& err,
                          const std::vector<FileFacts>& files) {
  json::object told{{"status", model::statusName(run.status)},
                    {"id", run.id},
                    {"execution_id", run.id},
                    {"stdout", out.text},
                    {"stderr", err.text},
                    {"stdout_bytes", run.out.total},
                    {"stderr_bytes", run.err.total},
                    {"truncated", !out.whole || !err.whole}};
  if (!run.session_id.empty()) told["session_id"] = run.session_id;
  if (run.exit_code) told["exit_code"] = *run.exit_code;
  if (!run.signal.empty()) told["signal"] = run.signal;
  if (run.cell && run.cell->state_lost) {
    told["state_lost"] = run.cell->lost_before ? "before" : "with";
    told["state_lost_reason"] = run.cell->lost_why;
  }
  json::array artifacts;
  for (const FileFacts& file : files)
    artifacts.push_back(fileObject(file));
  told["artifacts"] = std::move(artifacts);
  told["resource_usage"] = model::toJsonObject(run.usage);
  told["provenance"] = provenanceOf(run);
  told["network"] = model::toJsonObject(run.network);
  if (!run.error) return told;
  if (const std::string limit = textIn(run.error->details, "limit"); !limit.empty()) {
    told["limit_hit"] = limit;
  }
  if (const std::string id = textIn(run.error->details, "escalation_id"); !id.empty()) {
    told["escalation_id"] = id;
  }
  json::object error{{"type", run.error->type},
                     {"message", run.error->message},
                     {"retryable", run.error->retryable}};
  if (const std::string next = nextStepOf(run); !next.empty()) error["next_step"] = next;
  told["error"] = std::move(error);
  return told;
}

std::string textOf(const Execution& run, const Excerpt& out, const Excerpt& err,
                   const std::string& value, const std::vector<ShownFigure>& figures,
                   const std::vector<FileFacts>& files) {
  std::string text = summaryLine(run) + "\nexecution_id: " + run.id;
  if (!run.session_id.empty()) text += "\nsession_id: " + run.session_id;
  if (run.error) text += "\n" + run.error->type + ": " + run.error->message;
  if (const std::string next = nextStepOf(run); !next.empty()) text += "\nnext step: " + next;
  const auto stream = [&](std::string_view name, const Excerpt& shown, uint64_t total) {
    if (total == 0) return;
    text += "\n--- " + std::string(name) + " (" + std::to_string(total) + " bytes)\n" + shown.text;
    if (text.ends_with('\n')) text.pop_back();
  };
  stream("stdout", out, run.out.total);
  stream("stderr", err, run.err.total);
  const auto network = model::networkLines(run.network);
  if (!network.empty()) text += "\n--- network";
  for (const std::string& line : network)
    text += "\n" + line;
  if (!value.empty()) text += "\n--- value\n" + value;
  if (!figures.empty()) text += "\n--- figures" + figureLines(figures);
  if (run.results_truncated) {
    const std::string lines = model::leftOutText(run.results_left_out);
    text += "\n--- left out\n" + (lines.empty() ? "some results were over a bound\n" : lines);
    text.pop_back();
  }
  if (!files.empty()) text += "\n--- files it left behind";
  for (const FileFacts& file : files)
    text += "\n" + lineOf(file);
  return text;
}

// Links to the files, and the small figures themselves.
Task<json::array> blocksOf(Server& server, Call& call, const Execution& run,
                           const std::vector<ShownFigure>& figures,
                           const std::vector<FileFacts>& files) {
  const Settings& settings = server.settings();
  json::array links;
  json::array images;
  for (const ShownFigure& figure : figures) {
    if (!figure.bytes.empty()) images.push_back(imageBlock(figure.bytes, figure.type));
  }
  for (const FileFacts& file : files) {
    links.push_back(linkBlock(file));
    const bool small = file.size <= settings.inline_image_bytes && file.size > 0;
    if (!isFigure(file.content_type) || !small) continue;
    if (images.size() >= settings.inline_images || call.exchange->cancelled()) continue;
    model::Artifact found;
    const auto part = file.id.empty()
                          ? co_await readFile(server, call, run.session_id, file.path, 0, file.size)
                          : co_await readArtifact(server, call, file.id, 0, file.size, found);
    // A name is only a claim: the bytes decide.
    if (part && part->size == file.size &&
        base::sniffContentType(file.path, part->bytes) == file.content_type) {
      images.push_back(imageBlock(part->bytes, file.content_type));
    }
  }
  for (json::value& link : links)
    images.push_back(std::move(link));
  co_return images;
}

Task<std::vector<FileFacts>> filesOf(Server& server, Call& call, const Execution& run) {
  std::vector<FileFacts> files;
  for (const model::ArtifactRef& each : run.artifacts) {
    files.push_back({.path = each.path,
                     .uri = artifactUri(each.id),
                     .id = each.id,
                     .size = each.size,
                     .content_type = each.content_type,
                     .full_size = each.full_size});
  }
  if (run.session_id.empty() || run.started_at == 0) co_return files;
  if (!model::isTerminal(run.status) || call.exchange->cancelled()) co_return files;
  constexpr int64_t kMost = 64;
  Wanted wanted;
  wanted.limit = kMost;
  wanted.since = run.started_at;
  auto changed = co_await listFiles(server, call, run.session_id, std::move(wanted));
  if (changed) std::ranges::move(changed->first, std::back_inserter(files));
  co_return files;  // the session has ended meanwhile
}

Task<Outcome> present(Server& server, Call& call, Execution run) {
  const size_t most = server.settings().text_bytes;
  const std::string id = run.id;
  const auto shown_of = [&](const model::KeptOutput& kept, std::string_view name) {
    return excerpt(kept.bytes, kept.total, most,
                   "get_logs with execution_id " + id + ", stream " + std::string(name) +
                       " and offset reads it");
  };
  const Excerpt out = shown_of(run.out, "stdout");
  const Excerpt err = shown_of(run.err, "stderr");
  const std::vector<FileFacts> files = co_await filesOf(server, call, run);
  Answer answer;
  const std::string value = shownResults(run.results, most);
  const Settings& settings = server.settings();
  const std::vector<ShownFigure> figures =
      figuresOf(run, settings.inline_images, settings.inline_image_bytes);
  answer.structured = structuredOf(run, out, err, files);
  if (!value.empty()) answer.structured["value"] = value;
  if (!figures.empty()) answer.structured["figures"] = figureObjects(figures);
  if (run.results_truncated) answer.structured["left_out"] = run.results_left_out;
  answer.text = textOf(run, out, err, value, figures, files);
  answer.more = co_await blocksOf(server, call, run, figures, files);
  answer.is_error = isOurs(run);
  co_return answer;
}

Task<Outcome> inSession(Server& server, Call& call, std::string session_id,
                        json::object arguments) {
  RestParts& rest = server.rest();
  std::string key = CO_TRY(takeKey(arguments));
  const model::Session session = CO_TRY(rest.sessions.get(call.principal, session_id));
  model::ExecRequest wanted = CO_TRY(model::parseExecRequest(arguments, rest.bounds, session));
  const bool background = wanted.background;
  Execution run = CO_TRY(
      co_await rest.sessions.exec(call.principal, session_id, std::move(wanted), std::move(key)));
  if (background) co_return co_await present(server, call, std::move(run));
  run = CO_TRY(co_await follow(server, call, std::move(run)));
  co_return co_await present(server, call, std::move(run));
}

}  // namespace

Task<Outcome> runTool(Server& server, Call& call, json::object arguments) {
  CO_TRY(toBody(arguments));
  const std::string session = CO_TRY(takeText(arguments, "session_id"));
  if (!session.empty()) co_return co_await inSession(server, call, session, std::move(arguments));
  const bool background = CO_TRY(takeFlag(arguments, "background"));
  std::string key = CO_TRY(takeKey(arguments));
  RestParts& rest = server.rest();
  model::RunRequest wanted = CO_TRY(model::parseRunRequest(arguments, rest.bounds));
  Execution run =
      CO_TRY(co_await rest.service.run(call.principal, std::move(wanted), std::move(key)));
  if (!background) run = CO_TRY(co_await follow(server, call, std::move(run)));
  co_return co_await present(server, call, std::move(run));
}

Task<Outcome> execTool(Server& server, Call& call, json::object arguments) {
  CO_TRY(toBody(arguments));
  const std::string session = CO_TRY(takeText(arguments, "session_id"));
  if (session.empty()) co_return fail(Code::kInvalid, "session_id: is required", "session_id");
  co_return co_await inSession(server, call, session, std::move(arguments));
}

namespace {

struct Window {
  std::string name = "stdout";
  uint64_t offset = 0;
  int64_t tail_lines = 0;
  size_t most = 0;
  Millis wait{0};
};

Result<Window> readWindow(const Server& server, base::ObjectReader& reader) {
  constexpr int64_t kMost = 65'536;
  constexpr double kLongest = 45;
  Window window;
  window.name = TRY(reader.text("stream")).value_or("stdout");
  if (window.name != "stdout" && window.name != "stderr") {
    return fail(Code::kInvalid, "stream: must be stdout or stderr", "stream");
  }
  window.offset = static_cast<uint64_t>(TRY(reader.integer("offset", 0, INT64_MAX)).value_or(0));
  window.tail_lines = TRY(reader.integer("tail_lines", 1, 1'000'000)).value_or(0);
  window.most =
      static_cast<size_t>(TRY(reader.integer("max_bytes", 1, kMost))
                              .value_or(static_cast<int64_t>(server.settings().text_bytes)));
  const double wait = TRY(reader.number("wait_seconds", 0, kLongest)).value_or(0);
  window.wait = Millis(static_cast<int64_t>(wait * 1000));
  return window;
}

// The offset of the last `lines` lines.
uint64_t tailOffset(std::string_view text, int64_t lines) {
  size_t at = text.size();
  if (text.ends_with('\n')) --at;
  while (lines-- > 0) {
    at = at == 0 ? std::string_view::npos : text.rfind('\n', at - 1);
    if (at == std::string_view::npos) return 0;
  }
  return at + 1;
}

}  // namespace

Task<Outcome> logsTool(Server& server, Call& call, json::object arguments) {
  base::ObjectReader reader(arguments, "");
  const std::string id = CO_TRY(reader.text("execution_id")).value_or("");
  const Window window = CO_TRY(readWindow(server, reader));
  CO_TRY(reader.finish());
  orchestrator::RunService& service = server.rest().service;
  Execution run = CO_TRY(service.get(call.principal, id));
  if (window.wait.count() > 0 && !model::isTerminal(run.status)) {
    run = CO_TRY(co_await service.wait(call.principal, id, window.wait));
  }
  const auto log = CO_TRY(service.log(call.principal, id));
  const auto stream = window.name == "stdout" ? model::Stream::kStdout : model::Stream::kStderr;
  const std::string_view kept = log->kept(stream, 0);
  uint64_t from = std::min<uint64_t>(kept.size(), window.offset);
  if (window.tail_lines > 0) from = tailOffset(kept, window.tail_lines);
  std::string_view bytes = kept.substr(from);
  if (window.tail_lines > 0 && bytes.size() > window.most) {
    bytes = bytes.substr(bytes.size() - window.most);
    from = kept.size() - bytes.size();
  }
  bytes = bytes.substr(0, window.most);
  if (from + bytes.size() < kept.size()) bytes = base::withoutCutCharacter(bytes);
  const uint64_t next = from + bytes.size();
  const uint64_t total = log->total(stream);
  const bool complete = log->closed() && next == kept.size();
  Answer answer;
  answer.structured = {{"status", model::statusName(run.status)},
                       {"execution_id", id},
                       {"stream", window.name},
                       {"text", plainText(bytes)},
                       {"offset", from},
                       {"next_offset", next},
                       {"total_bytes", total},
                       {"kept_bytes", kept.size()},
                       {"complete", complete}};
  if (run.exit_code) answer.structured["exit_code"] = *run.exit_code;
  answer.text = summaryLine(run) + "\n" + window.name + ", bytes " + std::to_string(from) + " to " +
                std::to_string(next) + " of " + std::to_string(total);
  if (next < kept.size()) {
    answer.text += "; go on with offset " + std::to_string(next);
  } else if (!complete) {
    answer.text +=
        "; it goes on: call again with offset " + std::to_string(next) + " and wait_seconds";
  }
  answer.text += "\n---\n" + std::string(plainText(bytes));
  co_return answer;
}

Task<Outcome> cancelTool(Server& server, Call& call, json::object arguments) {
  base::ObjectReader reader(arguments, "");
  const std::string id = CO_TRY(reader.text("execution_id")).value_or("");
  CO_TRY(reader.finish());
  orchestrator::RunService& service = server.rest().service;
  Execution run = CO_TRY(co_await service.cancel(call.principal, id));
  if (!model::isTerminal(run.status)) {
    constexpr Millis kPatience{5'000};
    run = CO_TRY(co_await service.wait(call.principal, id, kPatience));
  }
  Answer answer;
  answer.structured = {{"status", model::statusName(run.status)}, {"execution_id", id}};
  answer.text = summaryLine(run) + "\nexecution_id: " + id;
  co_return answer;
}

}  // namespace cloister::api::mcp
