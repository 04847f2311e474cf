// SPDX-License-Identifier: Apache-2.0
#include "api/compat/opensandbox/exec_events.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "api/compat/raised.h"

namespace cloister::api::compat::opensandbox {
namespace {

namespace json = base::json;

constexpr size_t kPiece = size_t{64} << 10;
constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
constexpr int64_t kMicrosPerMilli = 1000;

int64_t nowMillis() {
  return base::wallMicros() / kMicrosPerMilli;
}

json::array linesOf(std::string_view text) {
  json::array lines;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    lines.push_back(json::string(readable(line)));
  }
  return lines;
}

json::object errorEvent(json::object error) {
  json::object said = event("error");
  said["error"] = std::move(error);
  return said;
}

// The end of a program that was not its own exit.
std::string reasonOf(const model::Execution& ended) {
  if (ended.error) return ended.error->message;
  if (!ended.signal.empty()) return "signal: " + ended.signal;
  return "the program " + std::string(model::statusName(ended.status));
}

json::object commandError(const model::Execution& ended) {
  const bool refused = ended.status == model::Status::kDenied;
  if (refused) {
    const std::string why = reasonOf(ended);
    return {{"ename", "PermissionDenied"}, {"evalue", why}, {"traceback", json::array{why}}};
  }
  const bool own =
      ended.status == model::Status::kCompleted || ended.status == model::Status::kFailed;
  const bool exited = own && ended.exit_code.value_or(0) != 0 && ended.signal.empty();
  const int code = exited ? *ended.exit_code : -1;
  const std::string status = exited ? "exit status " + std::to_string(code) : reasonOf(ended);
  return {{"ename", "CommandExecError"},
          {"evalue", std::to_string(code)},
          {"traceback", json::array{status}}};
}

json::object codeError(const model::Execution& ended) {
  const bool exited = ended.exit_code && ended.signal.empty();
  if (exited && !ended.err.bytes.empty()) return errorOf(ended.err.bytes);
  const std::string why =
      exited ? "exit status " + std::to_string(*ended.exit_code) : reasonOf(ended);
  const std::string name = ended.error ? ended.error->type : "ExecutionError";
  return {{"ename", name}, {"evalue", why}, {"traceback", json::array{why}}};
}

// The clients of execd call text/plain "text".
json::object resultOf(const json::value& result) {
  json::object renamed;
  if (const json::object* parts = result.if_object()) {
    for (const auto& [type, data] : *parts)
      renamed[type == "text/plain" ? std::string_view("text") : std::string_view(type)] = data;
  }
  return renamed;
}

bool succeeded(const model::Execution& ended) {
  return ended.status == model::Status::kCompleted && ended.signal.empty() &&
         ended.exit_code.value_or(0) == 0;
}

// A reader of both streams of a log.
class Follower {
 public:
  Follower(orchestrator::OutputLog& log, BodyWriter& out) : log_(log), out_(out) {}

  // Sends a piece of each stream; false: there is no more for now.
  Task<Result<bool>> sendSome() {
    const bool out = CO_TRY(co_await sendFrom(model::Stream::kStdout, stdout_));
    const bool err = CO_TRY(co_await sendFrom(model::Stream::kStderr, stderr_));
    co_return out || err;
  }

  Task<Result<>> sendRest() {
    for (auto* side : {&stdout_, &stderr_})
      CO_TRY(co_await send(side->type, side->lines.rest()));
    co_return Result<>{};
  }

 private:
  struct Side {
    std::string_view type;
    uint64_t at = 0;
    Lines lines = {};
  };

  Task<Result<bool>> sendFrom(model::Stream stream, Side& side) {
    // A copy: the log may move while the client takes its time.
    const std::string piece(log_.kept(stream, side.at).substr(0, kPiece));
    if (piece.empty()) co_return false;
    side.at = std::max(side.at, log_.begin(stream)) + piece.size();
    CO_TRY(co_await send(side.type, side.lines.take(piece)));
    co_return true;
  }

  Task<Result<>> send(std::string_view type, std::vector<std::string> lines) {
    std::string blobs;
    for (const std::string& line : lines)
      blobs += toBlob(textEvent(type, line));
    if (!blobs.empty()) CO_TRY(co_await out_.write(blobs));
    co_return Result<>{};
  }

  orchestrator::OutputLog& log_;
  BodyWriter& out_;
  Side stdout_{.type = "stdout"};
  Side stderr_{.type = "stderr"};
};

std::string cutText(const model::Execution& ended) {
  std::string text;
  for (const auto& [name, kept] : {std::pair{"stdout", &ended.out}, {"stderr", &ended.err}}) {
    if (!kept->truncated) continue;
    text += std::string(text.empty() ? "" : "; ") + name + " has " + std::to_string(kept->total) +
            " bytes, and its first " + std::to_string(kept->bytes.size()) + " are here";
    if (!kept->artifact.empty()) text += " (all of it: artifact " + kept->artifact + ")";
  }
  return text;
}

}  // namespace

std::vector<std::string> Lines::take(std::string_view bytes) {
  std::vector<std::string> lines;
  held_ += bytes;
  size_t at = 0;
  for (size_t end = held_.find('\n', at); end != std::string::npos; end = held_.find('\n', at)) {
    lines.push_back(held_.substr(at, end - at));
    at = end + 1;
  }
  held_.erase(0, at);
  while (held_.size() > kMostLine) {
    const size_t whole =
        base::withoutCutCharacter(std::string_view(held_).substr(0, kMostLine)).size();
    const size_t cut = whole == 0 ? kMostLine : whole;
    lines.push_back(held_.substr(0, cut));
    held_.erase(0, cut);
  }
  return lines;
}

std::vector<std::string> Lines::rest() {
  if (held_.empty()) return {};
  return {std::exchange(held_, {})};
}

std::string readable(std::string_view text) {
  if (base::isUtf8(text)) return std::string(text);
  constexpr size_t kMostBytes = 4;  // of a character
  std::string mended;
  while (!text.empty()) {
    size_t size = 0;
    for (size_t n = 1; n <= std::min(kMostBytes, text.size()) && size == 0; ++n) {
      if (base::isUtf8(text.substr(0, n))) size = n;
    }
    mended += size == 0 ? kReplacement : text.substr(0, size);
    text.remove_prefix(std::max<size_t>(size, 1));
  }
  return mended;
}

json::object event(std::string_view type) {
  return {{"type", type}, {"timestamp", nowMillis()}};
}

json::object textEvent(std::string_view type, std::string_view text) {
  json::object said = event(type);
  said["text"] = readable(text);
  return said;
}

std::vector<json::object> endEvents(const model::Execution& ended, Program program) {
  std::vector<json::object> events;
  if (const std::string cut = cutText(ended); !cut.empty()) {
    events.push_back(textEvent("status", cut));
  }
  if (ended.cell && ended.cell->state_lost) {
    events.push_back(textEvent(
        "status", "the interpreter ended, and its state is lost: " + ended.cell->lost_why));
  }
  if (ended.cell) {
    json::object count = event("execution_count");
    count["execution_count"] = ended.cell->number;
    events.push_back(std::move(count));
  }
  for (const json::value& result : ended.results) {
    json::object shown = event("result");
    shown["results"] = resultOf(result);
    events.push_back(std::move(shown));
  }
  if (!succeeded(ended)) {
    events.push_back(
        errorEvent(program == Program::kCode ? codeError(ended) : commandError(ended)));
    return events;
  }
  json::object complete = event("execution_complete");
  complete["execution_time"] = ended.usage.wall_ms;
  events.push_back(std::move(complete));
  return events;
}

json::object errorOf(std::string_view said) {
  if (const auto raised = readTraceback(said)) {
    return {{"ename", readable(raised->name)},
            {"evalue", readable(raised->value)},
            {"traceback", linesOf(raised->traceback)}};
  }
  while (said.ends_with('\n'))
    said.remove_suffix(1);
  const std::string_view last = said.substr(said.rfind('\n') + 1);  // npos + 1 is 0
  return {{"ename", "Error"}, {"evalue", readable(last)}, {"traceback", linesOf(said)}};
}

std::string toBlob(const json::object& event) {
  return base::toJson(event) + "\n\n";
}

Task<bool> sendExecution(std::shared_ptr<orchestrator::OutputLog> log, Opening opening,
                         Program program, Millis ping, BodyWriter& out) {
  std::string first = toBlob(textEvent("init", opening.id));
  if (!opening.note.empty()) first += toBlob(textEvent("status", opening.note));
  if (!co_await out.write(first)) co_return false;
  Follower follower(*log, out);
  bool waits = false;
  for (base::Monotonic next_ping = base::monotonicNow() + ping;;) {
    const uint64_t seen = log->version();
    const auto some = co_await follower.sendSome();
    if (!some) co_return false;
    if (*some) continue;
    if (log->closed()) break;
    const model::Execution& now = log->latest();
    if (now.status == model::Status::kBlocked && !std::exchange(waits, true)) {
      const std::string why = now.error ? now.error->message : "the program waits for an approval";
      if (!co_await out.write(toBlob(textEvent("status", why)))) co_return false;
    }
    if (base::monotonicNow() >= next_ping) {
      next_ping = base::monotonicNow() + ping;
      if (!co_await out.write(toBlob(textEvent("ping", "pong")))) co_return false;
    }
    const auto left = std::chrono::ceil<Millis>(next_ping - base::monotonicNow());
    co_await log->wait(seen, std::max(Millis(1), left));
  }
  if (!co_await follower.sendRest()) co_return false;
  for (const json::object& each : endEvents(log->withOutput(), program)) {
    if (!co_await out.write(toBlob(each))) co_return false;
  }
  co_return true;
}

}  // namespace cloister::api::compat::opensandbox
