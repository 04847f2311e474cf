// SPDX-License-Identifier: Apache-2.0
#include "api/mcp/hosted_server.h"

#include <algorithm>
#include <string>
#include <utility>

#include "api/rest/requests.h"
#include "async/spawn.h"
#include "base/log.h"
#include "base/version.h"

namespace cloister::api::mcp {
namespace {

constexpr uint16_t kBridgePort = 39'871;
constexpr size_t kMaxCommand = 64;
constexpr size_t kMaxServerName = 32;
constexpr size_t kMaxToolName = 64;
constexpr size_t kMaxDescription = 4096;
constexpr size_t kMaxSchemaBytes = size_t{64} << 10;
constexpr size_t kMaxPages = 32;
constexpr size_t kMaxLastWords = 400;
constexpr Millis kTick{250};
constexpr std::string_view kProtocol = "2025-06-18";

std::unexpected<Error> bad(std::string_view field, std::string_view wanted) {
  return fail(Code::kInvalid, std::string(field) + ": must be " + std::string(wanted),
              std::string(field));
}

bool isServerName(std::string_view name) {
  const auto fits = [](char each) {
    return (each >= 'a' && each <= 'z') || (each >= '0' && each <= '9') || each == '-';
  };
  return !name.empty() && name.size() <= kMaxServerName && std::ranges::all_of(name, fits) &&
         name.front() >= 'a' && name.front() <= 'z';
}

bool isToolName(std::string_view name) {
  const auto fits = [](char each) {
    return (each >= 'a' && each <= 'z') || (each >= 'A' && each <= 'Z') ||
           (each >= '0' && each <= '9') || each == '_' || each == '-' || each == '.';
  };
  return !name.empty() && name.size() <= kMaxToolName && std::ranges::all_of(name, fits);
}

Result<std::vector<std::string>> readCommand(const json::object& body) {
  const json::value* value = body.if_contains("command");
  const json::array* items = value == nullptr ? nullptr : value->if_array();
  if (items == nullptr || items->empty() || items->size() > kMaxCommand) {
    return bad("command", "a list of 1 to " + std::to_string(kMaxCommand) +
                              " texts: the program and its arguments");
  }
  std::vector<std::string> command;
  for (const json::value& item : *items) {
    const std::string_view text = item.is_string() ? std::string_view(item.get_string()) : "";
    if (!item.is_string() || text.contains('\0') || (command.empty() && text.empty())) {
      return bad("command[" + std::to_string(command.size()) + "]", "a text without NUL");
    }
    command.emplace_back(text);
  }
  return command;
}

// The parts of a tool's definition that are passed on.
std::optional<json::object> knownTool(const json::value& told) {
  const json::object* tool = told.if_object();
  if (tool == nullptr || !isToolName(textIn(*tool, "name"))) return std::nullopt;
  json::object known{
      {"name", textIn(*tool, "name")},
      {"description",
       std::string(base::withoutCutCharacter(
           std::string_view(textIn(*tool, "description")).substr(0, kMaxDescription)))}};
  const json::object& schema = objectIn(*tool, "inputSchema");
  if (textIn(schema, "type") != "object" || base::toJson(schema).size() > kMaxSchemaBytes) {
    return std::nullopt;
  }
  known["inputSchema"] = schema;
  json::object hints;
  for (const std::string_view name :
       {"readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"}) {
    const json::value* hint = objectIn(*tool, "annotations").if_contains(name);
    if (hint != nullptr && hint->is_bool()) hints[name] = *hint;
  }
  if (!hints.empty()) known["annotations"] = std::move(hints);
  return known;
}

// The parts of a result that are passed on.
Result<json::object> knownResult(const json::object& told) {
  constexpr std::string_view kBlocks[] = {"text", "image", "audio", "resource", "resource_link"};
  const json::value* content = told.if_contains("content");
  json::object known{{"content", json::array()}, {"isError", false}};
  const json::array none;
  const json::array& blocks =
      content != nullptr && content->is_array() ? content->get_array() : none;
  for (const json::value& block : blocks) {
    const std::string type = block.is_object() ? textIn(block.get_object(), "type") : "";
    if (std::ranges::find(kBlocks, type) != std::end(kBlocks)) {
      known["content"].as_array().push_back(block);
    }
  }
  const json::value* structured = told.if_contains("structuredContent");
  if (structured != nullptr && structured->is_object()) known["structuredContent"] = *structured;
  const json::value* error = told.if_contains("isError");
  if (error != nullptr && error->is_bool()) known["isError"] = *error;
  return known;
}

}  // namespace

Result<ServerDefinition> parseDefinition(const json::object& body, const RestParts& parts) {
  ServerDefinition definition;
  definition.name = textIn(body, "name");
  if (!isServerName(definition.name)) {
    return bad("name", "a small letter, and then small letters, digits and -, at most " +
                           std::to_string(kMaxServerName) + " in all");
  }
  definition.command = TRY(readCommand(body));
  for (const std::string_view name : {"ttl_seconds", "idle_ttl_seconds"}) {
    if (body.contains(name)) {
      return fail(Code::kInvalid,
                  std::string(name) +
                      ": a server lives by mcp.servers.idle_seconds of the "
                      "configuration; leave it out",
                  std::string(name));
    }
  }
  for (const auto& member : body) {
    if (member.key() != "name" && member.key() != "command") {
      definition.session[member.key()] = member.value();
    }
  }
  TRY(model::parseSessionRequest(definition.session, parts.bounds, parts.session_bounds));
  return definition;
}

json::object toJsonObject(const ServerDefinition& definition) {
  json::object object = definition.session;
  object["name"] = definition.name;
  json::array command;
  for (const std::string& each : definition.command)
    command.push_back(json::string(each));
  object["command"] = std::move(command);
  return object;
}

HostedServer::HostedServer(boost::asio::any_io_executor executor, RestParts& parts,
                           const HostedSettings& settings, ServerDefinition definition,
                           model::Principal principal)
    : parts_(parts),
      settings_(settings),
      definition_(std::move(definition)),
      principal_(std::move(principal)),
      used_(base::monotonicNow()),
      changed_(std::move(executor)) {}

Task<Result<>> HostedServer::ensure() {
  const auto self = shared_from_this();
  while (state_ == State::kStarting)
    co_await changed_.wait();
  used_ = base::monotonicNow();
  if (state_ == State::kRunning) {
    if (!std::exchange(stale_, false)) co_return Result<>{};
    co_return co_await learnTools(base::monotonicNow() + settings_.start);
  }
  CO_TRY(mayStart());
  state_ = State::kStarting;
  ++starts_;
  auto started = co_await launch();
  if (started) {
    state_ = State::kRunning;
    error_.clear();
    async::spawn(changed_.executor(), watchIdle(self, link_));
  } else {
    error_ = started.error().message + lastWords();
    if (link_) close(link_, error_);
    co_await endSession();
    state_ = State::kStopped;
  }
  used_ = base::monotonicNow();
  changed_.notify();
  if (started) co_return Result<>{};
  const Code code = started.error().code;
  const bool of_request = code == Code::kDenied || code == Code::kQuota || code == Code::kInvalid;
  co_return fail(of_request ? code : Code::kUnavailable,
                 "MCP server " + definition_.name + ": " + error_);
}

Result<> HostedServer::mayStart() {
  const base::Monotonic now = base::monotonicNow();
  while (!recent_starts_.empty() && recent_starts_.front() + std::chrono::minutes(1) < now)
    recent_starts_.pop_front();
  if (recent_starts_.size() < settings_.starts_per_minute) {
    recent_starts_.push_back(now);
    return {};
  }
  Error error{Code::kUnavailable,
              "MCP server " + definition_.name + ": started " +
                  std::to_string(recent_starts_.size()) +
                  " times within a minute (mcp.servers.starts_per_minute); its last error: " +
                  (error_.empty() ? "none" : error_),
              ""};
  error.retry_after_seconds = 60;
  return std::unexpected(std::move(error));
}

Task<Result<>> HostedServer::launch() {
  json::object body = definition_.session;
  const auto ttl = std::chrono::duration_cast<std::chrono::seconds>(parts_.session_bounds.max_ttl);
  body["ttl_seconds"] = ttl.count();
  body["idle_ttl_seconds"] = ttl.count();
  json::object metadata = objectIn(body, "metadata");
  metadata["mcp_server"] = definition_.name;
  metadata["tool_type"] = "mcp_stdio";
  body["metadata"] = std::move(metadata);
  model::SessionRequest request =
      CO_TRY(model::parseSessionRequest(body, parts_.bounds, parts_.session_bounds));
  const model::Session session =
      CO_TRY(co_await parts_.sessions.create(principal_, std::move(request), ""));
  session_ = session.id;
  if (session.status != model::SessionStatus::kRunning) {
    co_return fail(Code::kDenied, "its session needs an approval: approve " + session.id +
                                      ", or ask the operator for a rule that allows it");
  }
  const base::Monotonic until = base::monotonicNow() + settings_.start;
  CO_TRY(co_await startBridge(session));
  CO_TRY(co_await waitUntilReady(until));
  CO_TRY(co_await connect(until));
  CO_TRY(co_await handshake(until));
  co_return co_await learnTools(until);
}

Task<Result<>> HostedServer::startBridge(const model::Session& session) {
  json::array argv{"python3", "-c", json::string(parts_.tool_programs.mcp_bridge),
                   json::string(std::to_string(kBridgePort))};
  for (const std::string& each : definition_.command)
    argv.push_back(json::string(each));
  const json::object body{{"command", std::move(argv)}, {"background", true}};
  model::ExecRequest request = CO_TRY(model::parseExecRequest(body, parts_.bounds, session));
  const model::Execution run =
      CO_TRY(co_await parts_.sessions.exec(principal_, session.id, std::move(request), ""));
  execution_ = run.id;
  if (run.status == model::Status::kDenied && run.error) {
    co_return fail(Code::kDenied, run.error->message);
  }
  co_return Result<>{};
}

Task<Result<>> HostedServer::waitUntilReady(base::Monotonic until) {
  const auto log = CO_TRY(parts_.service.log(principal_, execution_));
  while (true) {
    const uint64_t seen = log->version();
    if (log->kept(model::Stream::kStdout, 0).contains("ready\n")) co_return Result<>{};
    if (log->closed()) co_return fail(Code::kUnavailable, "the program did not start");
    const base::Monotonic now = base::monotonicNow();
    if (now >= until)
      co_return fail(Code::kUnavailable, "the sandbox did not start it" + late("its start"));
    co_await log->wait(seen, std::chrono::duration_cast<Millis>(until - now));
  }
}

Task<Result<>> HostedServer::connect(base::Monotonic /*until*/) {
  const auto link = std::make_shared<Link>();
  link->call = CO_TRY(co_await parts_.sessions.connect(principal_, session_, kBridgePort));
  const auto opened = co_await link->call->next();
  if (!opened) co_return std::unexpected(opened.error());
  if (!*opened || !std::holds_alternative<wire::files::EndOfEntries>(**opened)) {
    co_return fail(Code::kUnavailable, "the sandbox gave no connection to it");
  }
  link_ = link;
  async::spawn(changed_.executor(), readFrom(shared_from_this(), link));
  async::spawn(changed_.executor(), writeTo(shared_from_this(), link));
  co_return Result<>{};
}

Task<Result<>> HostedServer::handshake(base::Monotonic until) {
  const json::object told =
      CO_TRY(co_await ask("initialize",
                          {{"protocolVersion", kProtocol},
                           {"capabilities", json::object()},
                           {"clientInfo", {{"name", "cloister"}, {"version", base::version()}}}},
                          until));
  if (textIn(told, "protocolVersion").empty()) {
    co_return fail(Code::kUnavailable, "its answer to initialize has no protocolVersion");
  }
  say(notification("notifications/initialized", {}));
  co_return Result<>{};
}

Task<Result<>> HostedServer::learnTools(base::Monotonic until) {
  json::array tools;
  std::string cursor;
  for (size_t page = 0; page < kMaxPages; ++page) {
    json::object params;
    if (!cursor.empty()) params["cursor"] = cursor;
    const json::object told = CO_TRY(co_await ask("tools/list", std::move(params), until));
    const json::value* listed = told.if_contains("tools");
    if (listed == nullptr || !listed->is_array()) {
      co_return fail(Code::kUnavailable, "its answer to tools/list has no tools");
    }
    for (const json::value& each : listed->get_array()) {
      auto tool = knownTool(each);
      if (tool && tools.size() < settings_.tools) tools.push_back(*std::move(tool));
    }
    cursor = textIn(told, "nextCursor");
    if (cursor.empty() || tools.size() >= settings_.tools) break;
  }
  tools_ = std::move(tools);
  co_return Result<>{};
}

Task<Result<json::object>> HostedServer::call(std::string tool, json::object arguments,
                                              ExchangePtr exchange) {
  const auto self = shared_from_this();
  CO_TRY(co_await ensure());
  ++calls_;
  auto answer =
      co_await ask("tools/call", {{"name", std::move(tool)}, {"arguments", std::move(arguments)}},
                   base::monotonicNow() + settings_.call, std::move(exchange));
  --calls_;
  used_ = base::monotonicNow();
  changed_.notify();
  if (!answer) co_return std::unexpected(std::move(answer).error());
  co_return knownResult(*answer);
}

// " in time", with the setting that bounds it.
std::string HostedServer::late(std::string_view what) const {
  const bool call = what == "tools/call";
  const auto bound = call ? settings_.call : settings_.start;
  return " in time: " + std::to_string(bound.count() / 1000) + " s by mcp.servers." +
         (call ? "call_seconds" : "start_seconds");
}

// Sends a request and waits for its answer.
Task<Result<json::object>> HostedServer::ask(std::string method, json::object params,
                                             base::Monotonic until, ExchangePtr exchange) {
  const int64_t id = next_id_++;
  const LinkPtr link = link_;
  const std::string about = "MCP server " + definition_.name + ": ";
  pending_[id] = {};
  if (!link ||
      !say({{"jsonrpc", "2.0"}, {"id", id}, {"method", method}, {"params", std::move(params)}})) {
    pending_.erase(id);
    co_return fail(Code::kUnavailable, about + "it does not read its input");
  }
  while (true) {
    const auto found = pending_.find(id);
    if (found->second.answer) break;
    const bool cancelled = exchange && exchange->cancelled();
    const base::Monotonic now = base::monotonicNow();
    if (!link->open || cancelled || now >= until) {
      pending_.erase(found);
      if (!link->open) co_return fail(Code::kUnavailable, about + error_);
      say(notification("notifications/cancelled", {{"requestId", id}}));
      co_return fail(
          Code::kUnavailable,
          about + (cancelled ? "the call was cancelled" : "no answer to " + method + late(method)));
    }
    co_await changed_.wait(std::min(until, now + kTick));
  }
  const json::object answer = *std::move(pending_.extract(id).mapped().answer);
  if (answer.contains("error")) {
    co_return fail(Code::kInvalid, about + textIn(objectIn(answer, "error"), "message"));
  }
  co_return objectIn(answer, "result");
}

// False if too much waits to be written already.
bool HostedServer::say(const json::object& message) {
  if (!link_ || !link_->open) return false;
  std::string line = base::toJson(message) + "\n";
  if (link_->out_bytes + line.size() > 2 * settings_.message_bytes + kMaxSchemaBytes) return false;
  link_->out_bytes += line.size();
  link_->out.push_back(std::move(line));
  changed_.notify();
  return true;
}

Task<void> HostedServer::writeTo(std::shared_ptr<HostedServer> self, LinkPtr link) {
  while (link->open) {
    if (link->out.empty()) {
      co_await self->changed_.wait();
      continue;
    }
    const std::string line = std::move(link->out.front());
    link->out.pop_front();
    constexpr size_t kPiece = size_t{64} << 10;
    for (size_t at = 0; at < line.size() && link->open; at += kPiece) {
      if (!co_await link->call->send(line.substr(at, kPiece))) {
        self->close(link, "it closed its input");
      }
    }
    link->out_bytes -= line.size();
  }
}

Task<void> HostedServer::readFrom(std::shared_ptr<HostedServer> self, LinkPtr link) {
  const size_t most = self->settings_.message_bytes;
  std::string buffer;
  while (link->open) {
    auto piece = co_await link->call->read();
    if (!piece || piece->empty()) break;
    buffer += *piece;
    size_t begin = 0;
    for (size_t end = 0; link->open && (end = buffer.find('\n', begin)) != std::string::npos;
         begin = end + 1) {
      if (end - begin > most) break;
      if (!self->take(link, std::string_view(buffer).substr(begin, end - begin))) break;
    }
    buffer.erase(0, begin);
    if (std::min(buffer.find('\n'), buffer.size()) > most) {
      self->close(link, "it sent a message of more than " + std::to_string(most) +
                            " bytes (mcp.servers.message_bytes)");
    }
  }
  const bool first = link->open;
  if (first) self->close(link, "it ended");
  if (self->link_ != link || self->state_ != State::kRunning) co_return;
  self->error_ += self->lastWords();
  self->state_ = State::kStopped;
  co_await self->endSession();
  self->changed_.notify();
}

// Takes a message of the server. False once the link is closed.
bool HostedServer::take(const LinkPtr& link, std::string_view line) {
  const auto parsed =
      base::parseJson(line, {.max_bytes = settings_.message_bytes, .max_depth = 64});
  const json::object* message = parsed ? parsed->if_object() : nullptr;
  const json::value* id = message == nullptr ? nullptr : message->if_contains("id");
  const bool answers = message != nullptr && !message->contains("method");
  const auto asked =
      answers && id != nullptr && id->is_int64() ? pending_.find(id->get_int64()) : pending_.end();
  if (asked != pending_.end()) {
    asked->second.answer = *message;
    link->unasked = 0;
    changed_.notify();
    return true;
  }
  link->unasked += line.size() + 1;
  if (link->unasked > 4 * settings_.message_bytes) {
    close(link, "it floods: it sent " + std::to_string(link->unasked) +
                    " bytes without an answer (4 times mcp.servers.message_bytes)");
    return false;
  }
  if (message != nullptr && textIn(*message, "method") == "notifications/tools/list_changed") {
    stale_ = state_ == State::kRunning;
  }
  if (message == nullptr || answers || id == nullptr || id->is_null()) return true;
  // A request of the server: there is nobody to answer but for a sign of life.
  if (textIn(*message, "method") == "ping") {
    say({{"jsonrpc", "2.0"}, {"id", *id}, {"result", json::object()}});
  } else {
    say({{"jsonrpc", "2.0"},
         {"id", *id},
         {"error", {{"code", code::kMethodNotFound}, {"message", "not offered to this server"}}}});
  }
  return true;
}

void HostedServer::close(const LinkPtr& link, std::string why) {
  if (!link->open) return;
  link->open = false;
  error_ = std::move(why);
  link->call->abandon();
  changed_.notify();
}

// The end of its standard error, as the end of a sentence.
std::string HostedServer::lastWords() const {
  if (execution_.empty()) return "";
  const auto log = parts_.service.log(principal_, execution_);
  if (!log) return "";
  std::string_view text = (*log)->kept(model::Stream::kStderr, 0);
  while (text.ends_with('\n'))
    text.remove_suffix(1);
  if (text.size() > kMaxLastWords) text.remove_prefix(text.size() - kMaxLastWords);
  while (!text.empty() && (static_cast<unsigned char>(text.front()) & 0xC0) == 0x80)
    text.remove_prefix(1);
  if (text.empty() || !base::isUtf8(text)) return "";
  return "; its last words: " + std::string(text);
}

Task<void> HostedServer::endSession() {
  const std::string session = std::exchange(session_, {});
  execution_.clear();
  if (session.empty()) co_return;
  const auto ended = co_await parts_.sessions.end(principal_, session);
  if (!ended && ended.error().code != Code::kNotFound) {
    base::log(base::Level::kWarn, "ending the session of an MCP server failed",
              {{"session", session}, {"error", ended.error().message}});
  }
}

Task<void> HostedServer::stop(std::string why) {
  const auto self = shared_from_this();
  while (state_ == State::kStarting)
    co_await changed_.wait();
  if (state_ == State::kStopped) co_return;
  state_ = State::kStopped;
  close(link_, std::move(why));
  co_await endSession();
  changed_.notify();
}

Task<void> HostedServer::watchIdle(std::shared_ptr<HostedServer> self, LinkPtr link) {
  while (link->open) {
    const base::Monotonic end = self->used_ + self->settings_.idle;
    if (!self->isBusy() && base::monotonicNow() >= end) {
      co_await self->stop("");  // no error: no call is under way
      co_return;
    }
    co_await self->changed_.wait(std::max(end, base::monotonicNow() + kTick));
  }
}

}  // namespace cloister::api::mcp
