// SPDX-License-Identifier: Apache-2.0
#include "api/compat/e2b/process.h"

#include <charconv>
#include <memory>
#include <utility>

#include "api/compat/e2b/connect.h"
#include "api/compat/e2b/paths.h"
#include "api/rest/requests.h"
#include "base/crypto.h"

namespace cloister::api::compat::e2b {
namespace {

namespace json = base::json;
using model::Stream;
using orchestrator::OutputLog;

constexpr size_t kPiece = size_t{32} << 10;  // of output in an event
constexpr Millis kKeepAlive{50'000};         // between events of an idle stream, unless asked
constexpr int64_t kMostKeepAlive = 3600;     // seconds
constexpr int kKill = 9;
constexpr int kTerminate = 15;

struct Call {
  RestParts& parts;
  Processes& processes;
};

Result<json::object> messageOf(const RestParts& parts, const Request& request) {
  return parseObject(TRY(onlyMessage(request)), parts.bounds);
}

// A header with a whole number; nullopt without the header.
Result<std::optional<int64_t>> headerNumber(const Request& request, std::string_view name,
                                            int64_t max) {
  if (request.count(name) == 0) return std::nullopt;
  const std::string_view text = request.header(name);
  int64_t number = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  if (parsed.ec == std::errc() && parsed.ptr == text.data() + text.size() && number >= 0 &&
      number <= max) {
    return number;
  }
  return fail(Code::kInvalid,
              std::string(name) + ": must be a whole number of at most " + std::to_string(max),
              "header." + std::string(name));
}

// --- a stream of a program's events

json::object eventOf(std::string_view name, json::object event) {
  return {{"event", json::object{{name, std::move(event)}}}};
}

class EventStream {
 public:
  EventStream(std::shared_ptr<OutputLog> log, const Process& process, Millis keep_alive)
      : log_(std::move(log)), process_(process), keep_alive_(keep_alive) {}

  // Sends events until the end of the program or of the connection.
  Task<void> send(BodyWriter& out) {
    while (!log_->closed() && isWaiting()) {
      if (!co_await waitOrKeepAlive(out)) co_return;
    }
    if (refused()) {
      const Error error = refusal();
      co_await out.write(endOfStream(&error));
      co_return;
    }
    if (!co_await out.write(envelope(eventOf("start", {{"pid", process_.pid}})))) co_return;
    while (true) {
      const bool last = log_->closed();
      if (!co_await sendOutput(out)) co_return;
      if (last) break;
      if (!co_await waitOrKeepAlive(out)) co_return;
    }
    co_await sendEnd(out);
  }

 private:
  [[nodiscard]] bool isWaiting() const {
    const model::Status status = log_->latest().status;
    return status == model::Status::kQueued || status == model::Status::kBlocked;
  }
  [[nodiscard]] bool refused() const {
    return log_->latest().started_at == 0 && log_->latest().error.has_value();
  }
  [[nodiscard]] Error refusal() const {
    const model::Execution& execution = log_->latest();
    const bool denied = execution.status == model::Status::kDenied;
    return {denied ? Code::kDenied : Code::kUnavailable, execution.error->message, ""};
  }

  // False: the client is gone.
  Task<bool> waitOrKeepAlive(BodyWriter& out) {
    if (seen_ == log_->version()) co_await log_->wait(seen_, keep_alive_);
    const bool idle = seen_ == log_->version() && !log_->closed();
    seen_ = log_->version();
    if (!idle) co_return true;
    // Before the start, clients take no other event.
    if (isWaiting()) co_return true;
    co_return (co_await out.write(envelope(eventOf("keepalive", {})))).has_value();
  }

  Task<bool> sendOutput(BodyWriter& out) {
    bool more = true;
    while (more) {
      more = false;
      for (const Stream stream : {Stream::kStdout, Stream::kStderr}) {
        uint64_t& offset = stream == Stream::kStdout ? out_ : err_;
        offset = std::max(offset, log_->begin(stream));
        const std::string piece(log_->kept(stream, offset).substr(0, kPiece));
        if (piece.empty()) continue;
        offset += piece.size();
        more = true;
        if (!co_await out.write(envelope(dataOf(stream, piece)))) co_return false;
      }
    }
    co_return true;
  }

  [[nodiscard]] json::object dataOf(Stream stream, const std::string& piece) const {
    const std::string_view name = process_.terminal           ? "pty"
                                  : stream == Stream::kStdout ? "stdout"
                                                              : "stderr";
    return eventOf("data", {{name, base::toBase64(piece)}});
  }

  Task<void> sendEnd(BodyWriter& out) {
    const model::Execution& execution = log_->latest();
    if (execution.status == model::Status::kTimedOut) {
      co_await out.write(endOfStream("deadline_exceeded", "the program's time is over"));
      co_return;
    }
    const bool ended_by_service =
        !execution.exit_code && execution.signal.empty() && execution.error;
    if (ended_by_service) {
      const Error error{Code::kUnavailable, execution.error->message, ""};
      co_await out.write(endOfStream(&error));
      co_return;
    }
    if (!co_await out.write(envelope(eventOf("end", endOf(execution))))) co_return;
    co_await out.write(endOfStream());
  }

  static json::object endOf(const model::Execution& execution) {
    const int code = execution.exit_code.value_or(-1);
    const bool exited = execution.signal.empty();
    const std::string status =
        exited ? "exit status " + std::to_string(code) : "signal: " + execution.signal;
    json::object end{{"exitCode", exited ? code : -1}, {"exited", exited}, {"status", status}};
    if (!exited || code != 0) end["error"] = execution.error ? execution.error->message : status;
    return end;
  }

  std::shared_ptr<OutputLog> log_;
  Process process_;
  Millis keep_alive_;
  uint64_t seen_ = 0;
  uint64_t out_ = 0;
  uint64_t err_ = 0;
};

Result<Response> streamOf(const Request& request, std::shared_ptr<OutputLog> log,
                          const Process& process) {
  const auto seconds = TRY(headerNumber(request, "keepalive-ping-interval", kMostKeepAlive));
  const Millis keep_alive =
      seconds.value_or(0) > 0 ? Millis(std::chrono::seconds(*seconds)) : kKeepAlive;
  const auto stream = std::make_shared<EventStream>(std::move(log), process, keep_alive);
  Response response;
  response.with("Content-Type", std::string(kConnectStream)).with("X-Accel-Buffering", "no");
  response.stream = [stream](BodyWriter& out) { return stream->send(out); };
  return response;
}

// --- starting

// {"process": {cmd, args, envs, cwd}, "pty", "stdin"} as the body of an exec.
Result<json::object> execBody(const RestParts& parts, base::ObjectReader& reader,
                              Process& process) {
  const json::object* config = TRY(reader.object("process"));
  if (config == nullptr) return fail(Code::kInvalid, "process: required", "process");
  base::ObjectReader inner(*config, "process");
  const auto command = TRY(inner.text("cmd"));
  if (!command || command->empty()) {
    return fail(Code::kInvalid, "process.cmd: required", "process.cmd");
  }
  json::array argv{json::string(*command)};
  if (const json::array* args = TRY(inner.array("args")))
    argv.insert(argv.end(), args->begin(), args->end());
  const json::object* env = TRY(inner.object("envs"));
  json::object body{{"command", std::move(argv)},
                    {"background", true},
                    {"keep_input", TRY(reader.boolean("stdin")).value_or(true)},
                    {"max_output_bytes", parts.bounds.max.output_bytes},
                    {"cwd", resolvedPath(TRY(inner.text("cwd")).value_or(""))}};
  if (env != nullptr) body["env"] = *env;
  if (const json::object* pty = TRY(reader.object("pty"))) {
    const json::value* size = pty->if_contains("size");
    body["tty"] = size == nullptr ? json::value(json::object()) : *size;
    process.terminal = true;
  }
  process.config = *config;
  process.tag = TRY(reader.text("tag"));
  return body;
}

// The time of the client's call is the program's.
Result<> setTime(const RestParts& parts, const Request& request, json::object& body) {
  constexpr int64_t kAny = int64_t{1} << 50;
  const auto millis = TRY(headerNumber(request, "connect-timeout-ms", kAny));
  if (millis.value_or(0) == 0) return {};
  const int64_t most = parts.bounds.max.wall.count();
  body["timeout_seconds"] = static_cast<double>(std::min(*millis, most)) / 1000;
  return {};
}

Task<Result<Response>> start(Call call, Request& request, const model::Session& session) {
  const json::object message = CO_TRY(messageOf(call.parts, request));
  base::ObjectReader reader(message, "");
  Process process;
  json::object body = CO_TRY(execBody(call.parts, reader, process));
  CO_TRY(setTime(call.parts, request, body));
  model::ExecRequest wanted = CO_TRY(model::parseExecRequest(body, call.parts.bounds, session));
  const model::Execution execution = CO_TRY(
      co_await call.parts.sessions.exec(request.principal, session.id, std::move(wanted), ""));
  process.execution = execution.id;
  const Process added = call.processes.add(
      session.id, std::move(process),
      [&](const std::string& id) { return call.parts.sessions.ownerOf(id).has_value(); });
  auto log = CO_TRY(call.parts.service.log(request.principal, execution.id));
  co_return streamOf(request, std::move(log), added);
}

// --- calls about a program

Result<Process> selected(Call call, const model::Session& session, const json::object& message) {
  base::ObjectReader reader(message, "");
  const json::object* selector = TRY(reader.object("process"));
  if (selector == nullptr) return fail(Code::kInvalid, "process: required", "process");
  return call.processes.find(session.id, *selector);
}

// An ended program is as unknown as any other number.
Error asUnknown(Error error, const Process& process) {
  if (error.code != Code::kConflict) return error;
  return {Code::kNotFound, "process with pid " + std::to_string(process.pid) + " not found", ""};
}

Task<Result<Response>> connect(Call call, Request& request, const model::Session& session) {
  const json::object message = CO_TRY(messageOf(call.parts, request));
  const Process process = CO_TRY(selected(call, session, message));
  auto log = CO_TRY(call.parts.service.log(request.principal, process.execution));
  co_return streamOf(request, std::move(log), process);
}

Task<Result<Response>> list(Call call, Request& request, const model::Session& session) {
  CO_TRY(messageOf(call.parts, request));
  json::array items;
  for (const Process& process : call.processes.all(session.id)) {
    if (process.ended) continue;
    const auto execution = call.parts.service.get(request.principal, process.execution);
    if (execution && model::isTerminal(execution->status)) {
      call.processes.end(session.id, process.pid);
    }
    if (!execution || model::isTerminal(execution->status)) continue;
    json::object item{{"pid", process.pid}, {"config", process.config}};
    if (process.tag) item["tag"] = *process.tag;
    items.push_back(std::move(item));
  }
  co_return jsonResponse(200, json::object{{"processes", std::move(items)}});
}

Task<Result<Response>> sendInput(Call call, Request& request, const model::Session& session) {
  const json::object message = CO_TRY(messageOf(call.parts, request));
  const Process process = CO_TRY(selected(call, session, message));
  base::ObjectReader reader(message, "");
  const json::object* input = CO_TRY(reader.object("input"));
  if (input == nullptr) co_return fail(Code::kInvalid, "input: required", "input");
  const std::string_view member = process.terminal ? "pty" : "stdin";
  base::ObjectReader inner(*input, "input");
  const auto text = CO_TRY(inner.text(member));
  if (!text) {
    const std::string field = "input." + std::string(member);
    co_return fail(Code::kInvalid, field + ": required for this program", field);
  }
  auto sent = co_await call.parts.service.input(request.principal, process.execution,
                                                {.data = CO_TRY(base::fromBase64(*text))});
  if (!sent) co_return std::unexpected(asUnknown(std::move(sent).error(), process));
  co_return jsonResponse(200, json::object());
}

Task<Result<Response>> closeStdin(Call call, Request& request, const model::Session& session) {
  const json::object message = CO_TRY(messageOf(call.parts, request));
  const Process process = CO_TRY(selected(call, session, message));
  auto sent = co_await call.parts.service.input(request.principal, process.execution,
                                                {.data = "", .eof = true});
  if (!sent) co_return std::unexpected(asUnknown(std::move(sent).error(), process));
  co_return jsonResponse(200, json::object());
}

// "SIGNAL_SIGKILL", or its number.
Result<int> signalOf(const json::object& message) {
  const json::value* value = message.if_contains("signal");
  if (value != nullptr && (*value == json::string("SIGNAL_SIGKILL") || *value == kKill)) {
    return kKill;
  }
  if (value != nullptr && (*value == json::string("SIGNAL_SIGTERM") || *value == kTerminate)) {
    return kTerminate;
  }
  return fail(Code::kInvalid, "signal: must be SIGNAL_SIGKILL or SIGNAL_SIGTERM", "signal");
}

Task<Result<Response>> sendSignal(Call call, Request& request, const model::Session& session) {
  const json::object message = CO_TRY(messageOf(call.parts, request));
  const Process process = CO_TRY(selected(call, session, message));
  const int number = CO_TRY(signalOf(message));
  auto sent = co_await call.parts.service.signal(request.principal, process.execution, number);
  if (!sent) co_return std::unexpected(asUnknown(std::move(sent).error(), process));
  co_return jsonResponse(200, json::object());
}

// {"pty": {"size"}}
Task<Result<Response>> update(Call call, Request& request, const model::Session& session) {
  const json::object message = CO_TRY(messageOf(call.parts, request));
  const Process process = CO_TRY(selected(call, session, message));
  base::ObjectReader reader(message, "");
  const json::object* pty = CO_TRY(reader.object("pty"));
  if (pty == nullptr) co_return jsonResponse(200, json::object());
  base::ObjectReader inner(*pty, "pty");
  const json::object* size = CO_TRY(inner.object("size"));
  const auto wanted = CO_TRY(model::parseTerminalSize(size == nullptr ? json::object() : *size));
  auto sent = co_await call.parts.service.resize(request.principal, process.execution, wanted);
  if (!sent) co_return std::unexpected(asUnknown(std::move(sent).error(), process));
  co_return jsonResponse(200, json::object());
}

Task<Result<Response>> streamInput(Request& /*request*/) {
  co_return fail(Code::kUnsupported, "StreamInput: this service does not offer it; use SendInput");
}

}  // namespace

std::vector<Route> processRoutes(RestParts& parts, Processes& processes) {
  const auto route = [&](std::string_view pattern, Permission permission, auto handler,
                         std::string_view media) {
    const auto handle = [call = Call{parts, processes}, handler](Request& request,
                                                                 const model::Session& session) {
      return handler(call, request, session);
    };
    return Route{.method = "POST",
                 .pattern = pattern,
                 .access = needs(permission),
                 .query = {},
                 .handle = inSandbox(parts, handle),
                 .json_body = true,
                 .media = media};
  };
  constexpr std::string_view kUnary = "application/json";
  const auto use = Permission::kSessionUse;
  std::vector<Route> routes = {
      route("/e2b/process.Process/Start", use, start, kConnectStream),
      route("/e2b/process.Process/Connect", Permission::kExecutionRead, connect, kConnectStream),
      route("/e2b/process.Process/List", Permission::kExecutionRead, list, kUnary),
      route("/e2b/process.Process/SendInput", use, sendInput, kUnary),
      route("/e2b/process.Process/CloseStdin", use, closeStdin, kUnary),
      route("/e2b/process.Process/SendSignal", use, sendSignal, kUnary),
      route("/e2b/process.Process/Update", use, update, kUnary),
  };
  routes.push_back({.method = "POST",
                    .pattern = "/e2b/process.Process/StreamInput",
                    .access = needs(use),
                    .query = {},
                    .handle = streamInput,
                    .json_body = true,
                    .media = kConnectStream});
  return routes;
}

}  // namespace cloister::api::compat::e2b
