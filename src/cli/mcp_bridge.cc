// SPDX-License-Identifier: Apache-2.0
#include "cli/mcp_bridge.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/crypto.h"
#include "cli/api.h"
#include "cli/render/terminal.h"
#include "net/sse.h"

namespace cloister::cli {
namespace {

constexpr std::string_view kVersionMember = "io.modelcontextprotocol/protocolVersion";
constexpr std::string_view kAccept = "application/json, text/event-stream";
constexpr Millis kAnswer{3'600'000};  // of a request: the server bounds its own work
constexpr Millis kShort{30'000};      // of anything else
constexpr int kInternal = -32603;
constexpr int kInvalidRequest = -32600;
constexpr int kParse = -32700;
constexpr int kNotFound = 404;
using Headers = std::map<std::string, std::string>;

// A header's value; text unfit for headers is encoded as defined by MCP.
std::string headerValue(const std::string& text) {
  const bool plain = std::ranges::all_of(text, [](char c) { return c >= ' ' && c < 0x7f; });
  const bool odd =
      text.empty() || text.front() == ' ' || text.back() == ' ' || text.starts_with("=?base64?");
  return plain && !odd ? text : "=?base64?" + base::toBase64(text) + "?=";
}

Headers modernHeaders(const json::object& message, const std::string& version) {
  const std::string method = textOf(message, "method");
  const json::object& params = objectOf(message, "params");
  Headers headers{{"MCP-Protocol-Version", headerValue(version)},
                  {"Mcp-Method", headerValue(method)}};
  const std::string_view parameter = method == "resources/read" ? "uri" : "name";
  if (method == "tools/call" || method == "prompts/get" || method == "resources/read") {
    headers["Mcp-Name"] = headerValue(textOf(params, parameter));
  }
  return headers;
}

// A string or an integer; null for anything else.
json::value idOf(const json::object& message) {
  const json::value* id = message.if_contains("id");
  const bool good = id != nullptr && (id->is_string() || id->is_int64() || id->is_uint64());
  return good ? *id : json::value(nullptr);
}

std::string keyOf(const json::object& message, std::string_view name) {
  const json::value* id = message.if_contains(name);
  return id == nullptr ? std::string() : base::toJson(*id);
}

}  // namespace

McpBridge::~McpBridge() {
  finish();
}

void McpBridge::take(std::string_view line) {
  reap();
  if (line.find_first_not_of(" \t\r") == std::string_view::npos) return;
  const Result<json::value> parsed = base::parseJson(line, {.max_bytes = kMaxLine});
  if (!parsed) return complain(nullptr, kParse, parsed.error().message);
  if (!parsed->is_object()) {
    return complain(nullptr, kInvalidRequest, "a message must be one JSON object");
  }
  const json::object& message = parsed->get_object();
  const json::value id = idOf(message);
  const bool method = message.contains("method");
  const bool response = message.contains("result") || message.contains("error");
  if ((message.contains("id") && id.is_null()) || (!method && !response)) {
    return complain(
        id, kInvalidRequest,
        "a message has a method or an answer, and an id that is a string or an integer");
  }
  const bool request = method && message.contains("id");
  if (request && textOf(message, "method") == "initialize" &&
      !objectOf(objectOf(message, "params"), "_meta").contains(kVersionMember)) {
    return initialize(message, line);
  }
  if (request) return start(message, line);
  if (textOf(message, "method") == "notifications/cancelled") cancel(message);
  forward(message, line);
}

void McpBridge::refuseLine() {
  complain(nullptr, kInvalidRequest,
           "the message is too long: at most " + std::to_string(kMaxLine) + " bytes are taken");
}

Result<net::HttpResponse> McpBridge::post(std::string_view body, const Headers& headers) {
  net::BlockingClient client(endpoint_);
  return client.exchange(
      {.method = "POST", .target = "/mcp", .body = body, .accept = kAccept, .headers = headers},
      kShort);
}

void McpBridge::initialize(const json::object& message, std::string_view line) {
  const json::value& id = message.at("id");
  const auto answer = post(line, {});
  if (!answer) return complain(id, kInternal, answer.error().message);
  const auto told = parseObject(answer->body);
  if (!told || !told->contains("jsonrpc")) {
    return complain(id, kInternal, refusal(answer->head, answer->body).message);
  }
  if (told->contains("result")) {  // a refusal leaves the present session
    const std::scoped_lock lock(mutex_);
    session_ = answer->head.header("mcp-session-id");
    version_ = textOf(objectOf(*told, "result"), "protocolVersion");
    hello_ = line;
  }
  say(answer->body);
}

Headers McpBridge::legacyHeaders() {
  const std::scoped_lock lock(mutex_);
  Headers headers;
  if (!session_.empty()) headers["Mcp-Session-Id"] = session_;
  if (!version_.empty()) headers["MCP-Protocol-Version"] = version_;
  return headers;
}

// The server has forgotten the session after a restart or a long pause: the bridge opens another
// session, unnoticed by the client.
Result<> McpBridge::renew(const std::string& lost) {
  const std::scoped_lock lock(mutex_);
  if (session_ != lost || hello_.empty()) return {};
  const net::HttpResponse answer = TRY(post(hello_, {}));
  session_ = answer.head.header("mcp-session-id");
  if (session_.empty()) return std::unexpected(refusal(answer.head, answer.body));
  return {};
}

// Forwards messages without an answer: notifications, and answers to the server's requests.
void McpBridge::forward(const json::object& message, std::string_view line) {
  const json::object& about = objectOf(objectOf(message, "params"), "_meta");
  const std::string version = textOf(about, kVersionMember);
  const auto answer =
      post(line, version.empty() ? legacyHeaders() : modernHeaders(message, version));
  if (!answer) writeTo(STDERR_FILENO, "cloister: " + printable(answer.error().message) + "\n");
}

void McpBridge::cancel(const json::object& message) {
  const std::string key = keyOf(objectOf(message, "params"), "requestId");
  const std::scoped_lock lock(mutex_);
  for (const JobPtr& job : jobs_) {
    if (job->key != key || job->done) continue;
    job->cancelled = true;
    if (job->modern) job->stop.set();
  }
}

void McpBridge::start(const json::object& message, std::string_view line) {
  const json::value& id = message.at("id");
  auto stop = Latch::make();
  if (!stop) return complain(id, kInternal, stop.error().message);
  const std::string version =
      textOf(objectOf(objectOf(message, "params"), "_meta"), kVersionMember);
  auto job = std::make_shared<Job>(Job{.id = id,
                                       .key = base::toJson(id),
                                       .body = std::string(line),
                                       .modern = !version.empty(),
                                       .headers = {},
                                       .stop = *std::move(stop),
                                       .thread = {}});
  if (job->modern) job->headers = modernHeaders(message, version);
  {
    const std::scoped_lock lock(mutex_);
    if (jobs_.size() < kMaxUnderWay) {
      jobs_.push_back(job);
      job->thread = std::thread([this, job] { run(job); });
      return;
    }
  }
  complain(id, kInternal, "too many requests are under way; wait for one to be answered");
}

void McpBridge::run(const JobPtr& job) {
  const Result<bool> answered = exchange(job);
  bool cancelled = false;
  {
    const std::scoped_lock lock(mutex_);
    cancelled = job->cancelled;
  }
  if (!cancelled && !answered) complain(job->id, kInternal, answered.error().message);
  if (!cancelled && answered && !*answered) {
    complain(job->id, kInternal, "the server ended the answer before it was complete");
  }
  const std::scoped_lock lock(mutex_);
  job->done = true;
  done_.notify_all();
}

Result<bool> McpBridge::exchange(const JobPtr& job) {
  for (int attempt = 0;; ++attempt) {
    Headers headers = job->modern ? job->headers : legacyHeaders();
    net::BlockingClient client(endpoint_, job->stop.fd());
    const net::HttpHead head = TRY(client.open({.method = "POST",
                                                .target = "/mcp",
                                                .body = job->body,
                                                .accept = kAccept,
                                                .headers = headers},
                                               kAnswer));
    const auto session = headers.find("Mcp-Session-Id");
    if (head.status != kNotFound || session == headers.end() || attempt > 0) {
      return pass(client, head, job);
    }
    TRY(renew(session->second));
  }
}

Result<bool> McpBridge::pass(net::BlockingClient& client, const net::HttpHead& head,
                             const JobPtr& job) {
  if (head.header("content-type").starts_with("text/event-stream")) return passEvents(client, job);
  std::string body;
  while (TRY(client.read(body, kShort)) == net::BlockingClient::Piece::kData) {
    if (body.size() > net::BlockingClient::kMaxBody)
      return fail(Code::kTooLarge, "the answer is too long");
  }
  const auto message = parseObject(body);
  if (!message || !message->contains("jsonrpc")) return std::unexpected(refusal(head, body));
  if (message->contains("id")) {
    say(body);
  } else {
    json::object with = *message;  // an error of the transport, for this request
    with["id"] = job->id;
    say(base::toJson(with));
  }
  return true;
}

Result<bool> McpBridge::passEvents(net::BlockingClient& client, const JobPtr& job) {
  net::SseParser parser;
  bool answered = false;
  while (true) {
    std::string bytes;
    const auto piece = TRY(client.read(bytes, kShort));
    if (piece == net::BlockingClient::Piece::kTimeout)
      return fail(Code::kUnavailable, "the server is silent");
    for (const net::SseEvent& event : TRY(parser.feed(bytes))) {
      if (event.data.empty()) continue;
      const auto message = parseObject(event.data);
      answered |= message && !message->contains("method") && keyOf(*message, "id") == job->key;
      say(event.data);
    }
    if (piece == net::BlockingClient::Piece::kEnd) return answered;
  }
}

void McpBridge::complain(const json::value& id, int code, const std::string& message) {
  json::object told{{"jsonrpc", "2.0"}};
  if (!id.is_null()) told["id"] = id;
  told["error"] = json::object{{"code", code}, {"message", message}};
  say(base::toJson(told));
}

void McpBridge::say(std::string_view message) {
  std::string line(message);
  // Between tokens only: in a string a line end is escaped.
  std::ranges::replace_if(line, [](char c) { return c == '\n' || c == '\r'; }, ' ');
  line += '\n';
  const std::scoped_lock lock(writing_);
  if (alive_) alive_ = writeTo(out_, line);
}

void McpBridge::reap() {
  std::vector<JobPtr> done;
  {
    const std::scoped_lock lock(mutex_);
    for (auto at = jobs_.begin(); at != jobs_.end();) {
      const auto next = std::next(at);
      if ((*at)->done) {
        done.push_back(*at);
        jobs_.erase(at);
      }
      at = next;
    }
  }
  for (const JobPtr& job : done)
    job->thread.join();
}

void McpBridge::settle(Millis patience) {
  std::unique_lock lock(mutex_);
  const auto all_done = [&] {
    return std::ranges::all_of(jobs_, [](const JobPtr& job) { return job->done; });
  };
  done_.wait_for(lock, patience, all_done);
}

void McpBridge::finish() {
  std::list<JobPtr> left;
  Headers headers = legacyHeaders();
  {
    const std::scoped_lock lock(mutex_);
    left = std::exchange(jobs_, {});
    for (const JobPtr& job : left) {
      job->cancelled = true;
      job->stop.set();
    }
    session_.clear();
  }
  for (const JobPtr& job : left)
    job->thread.join();
  if (!headers.contains("Mcp-Session-Id")) return;
  net::BlockingClient client(endpoint_);
  (void)client.exchange({.method = "DELETE", .target = "/mcp", .headers = headers}, kShort);
}

}  // namespace cloister::cli
