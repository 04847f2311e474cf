// SPDX-License-Identifier: Apache-2.0
#include "api/compat/e2b/cell_stream.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "api/compat/compat.h"
#include "api/compat/raised.h"
#include "base/clock.h"
#include "base/json.h"
#include "store/records/clean.h"

namespace cloister::api::compat::e2b {
namespace {

namespace json = base::json;
using model::Stream;

constexpr Millis kKeepAlive{5'000};
constexpr size_t kPiece = size_t{32} << 10;

struct MimeRow {
  std::string_view mime;
  std::string_view name;
};
constexpr auto kNames = std::to_array<MimeRow>({{"text/plain", "text"},
                                                {"text/html", "html"},
                                                {"text/markdown", "markdown"},
                                                {"image/svg+xml", "svg"},
                                                {"image/png", "png"},
                                                {"image/jpeg", "jpeg"},
                                                {"application/pdf", "pdf"},
                                                {"text/latex", "latex"},
                                                {"application/json", "json"},
                                                {"application/javascript", "javascript"}});

// The end of `text` that may begin a character of UTF-8 moves into `rest`; other bytes that are no
// UTF-8 become U+FFFD.
std::string wholeText(std::string text, std::string& rest, bool last) {
  text.insert(0, std::exchange(rest, {}));
  constexpr size_t kLongest = 3;  // bytes of an incomplete character
  for (size_t back = 1; !last && back <= std::min(kLongest, text.size()); ++back) {
    const auto byte = static_cast<uint8_t>(text[text.size() - back]);
    if ((byte & 0xc0) == 0x80) continue;
    const size_t wanted = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    if (wanted > back) {
      rest = text.substr(text.size() - back);
      text.resize(text.size() - back);
    }
    break;
  }
  return store::cleanText(text);
}

// A string's repr without its quotes, as E2B's interpreter shows strings.
std::string unquoted(std::string text) {
  const bool quoted =
      text.size() >= 2 && (text[0] == '\'' || text[0] == '"') && text[0] == text.back();
  return quoted ? text.substr(1, text.size() - 2) : text;
}

// A table {"columns", "index", "data"} as {"column": [values]}.
std::optional<json::object> tableOf(const json::value& value) {
  const json::object* table = value.if_object();
  if (table == nullptr) return std::nullopt;
  const json::value* columns = table->if_contains("columns");
  const json::value* rows = table->if_contains("data");
  if (columns == nullptr || rows == nullptr || !columns->is_array() || !rows->is_array()) {
    return std::nullopt;
  }
  json::object data;
  const json::array& names = columns->get_array();
  for (size_t at = 0; at < names.size(); ++at) {
    json::array values;
    for (const json::value& row : rows->get_array()) {
      const json::array* cells = row.if_array();
      if (cells != nullptr && at < cells->size()) values.push_back((*cells)[at]);
    }
    const json::string* name = names[at].if_string();
    data[name != nullptr ? std::string_view(*name) : base::toJson(names[at])] = std::move(values);
  }
  return data;
}

json::object resultOf(const json::object& result, bool main) {
  json::object line{{"type", "result"}, {"is_main_result", main}};
  const bool html = result.contains("text/html");
  for (const auto& [mime, value] : result) {
    const auto* const known = std::ranges::find(kNames, std::string_view(mime), &MimeRow::mime);
    if (known == kNames.end()) {
      line[mime] = value;
      continue;
    }
    line[known->name] = value;
    if (known->name == "text" && value.is_string()) {
      line["text"] = unquoted(std::string(value.get_string()));
    }
    if (known->name != "json" || !html) continue;
    if (auto table = tableOf(value)) {
      line.erase("json");
      line["data"] = *std::move(table);
    }
  }
  return line;
}

// A figure is shown on the side; the value of the cell's last expression is the main result.
bool isFigure(const json::object& result) {
  const json::value* text = result.if_contains("text/plain");
  if (!result.contains("image/png") || text == nullptr || !text->is_string()) return false;
  return std::string_view(text->get_string()).starts_with("<Figure") ||
         std::string_view(text->get_string()).starts_with("Figure(");
}

// The kernel itself ended, with the cell or instead of it.
bool isBroken(const model::Execution& execution) {
  if (execution.status == model::Status::kCancelled) return true;
  return !execution.exit_code && execution.error.has_value();
}

}  // namespace

Task<bool> CellStream::send(BodyWriter& out) {
  uint64_t seen = 0;
  while (true) {
    const bool last = log_->closed();
    if (!co_await sendOutput(out, last)) co_return false;
    if (last) break;
    if (seen == log_->version()) co_await log_->wait(seen, kKeepAlive);
    const bool idle = seen == log_->version() && !log_->closed();
    seen = log_->version();
    if (idle && !co_await out.write(jsonLine(json::object{{"type", "keepalive"}}))) co_return false;
  }
  co_return co_await sendEnd(out);
}

Task<bool> CellStream::sendOutput(BodyWriter& out, bool last) {
  for (const Stream stream : {Stream::kStdout, Stream::kStderr}) {
    const bool is_out = stream == Stream::kStdout;
    uint64_t& offset = is_out ? out_ : err_;
    while (true) {
      std::string piece(log_->kept(stream, offset).substr(0, kPiece));
      offset += piece.size();
      const bool final = last && piece.empty();
      std::string text = wholeText(std::move(piece), is_out ? out_rest_ : err_rest_, final);
      if (!is_out && !traceback_.empty()) {
        traceback_ += std::exchange(text, {});
      } else if (const size_t at = is_out ? std::string::npos : tracebackBegin(text);
                 at != std::string::npos) {
        traceback_ = text.substr(at);
        text.resize(at);
      }
      const bool more = !log_->kept(stream, offset).empty();
      if (!text.empty()) {
        const json::object line{{"type", is_out ? "stdout" : "stderr"},
                                {"text", text},
                                {"timestamp", base::formatTime(base::wallMicros())}};
        if (!co_await out.write(jsonLine(line))) co_return false;
      }
      if (!more && (!last || final)) break;
    }
  }
  co_return true;
}

Task<bool> CellStream::sendResults(BodyWriter& out, const model::Execution& execution) {
  const json::array results = execution.results;
  size_t main = results.size();
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i].is_object() && !isFigure(results[i].get_object())) main = i;
  }
  for (size_t i = 0; i < results.size(); ++i) {
    if (!results[i].is_object()) continue;
    const json::object line = resultOf(results[i].get_object(), i == main);
    if (!co_await out.write(jsonLine(line))) co_return false;
  }
  co_return true;
}

Task<bool> CellStream::sendEnd(BodyWriter& out) {
  const model::Execution execution = log_->latest();
  const bool failed = execution.exit_code.value_or(1) != 0;
  auto raised = failed ? readTraceback(traceback_) : std::nullopt;
  if (!raised && !traceback_.empty()) {
    const json::object line{{"type", "stderr"}, {"text", traceback_}};
    if (!co_await out.write(jsonLine(line))) co_return false;
  }
  if (!co_await sendResults(out, execution)) co_return false;
  if (execution.cell) {
    const json::object line{{"type", "number_of_executions"},
                            {"execution_count", execution.cell->number}};
    if (!co_await out.write(jsonLine(line))) co_return false;
  }
  if (failed && !raised) raised = readTraceback(log_->kept(Stream::kStderr, 0));
  if (failed && !raised) {
    const std::string why = execution.error
                                ? execution.error->message
                                : "exit status " + std::to_string(execution.exit_code.value_or(-1));
    raised = Raised{
        .name = execution.error ? execution.error->type : "Error", .value = why, .traceback = why};
  }
  if (raised) {
    const json::object line{{"type", "error"},
                            {"name", raised->name},
                            {"value", raised->value},
                            {"traceback", raised->traceback}};
    if (!co_await out.write(jsonLine(line))) co_return false;
  }
  const std::string_view type =
      isBroken(execution) ? "unexpected_end_of_execution" : "end_of_execution";
  co_return (co_await out.write(jsonLine(json::object{{"type", type}}))).has_value();
}

}  // namespace cloister::api::compat::e2b
