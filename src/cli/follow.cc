// SPDX-License-Identifier: Apache-2.0
#include "cli/follow.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/crypto.h"
#include "cli/api.h"
#include "cli/render/verdict.h"
#include "cli/transfer.h"
#include "model/execution.h"

namespace cloister::cli {

Follower::Follower(net::BlockingClient& client, const std::string& id, FollowOptions options)
    : stream_(client, "/v1/executions/" + net::percentEncode(id) + "/events"),
      options_(options),
      out_{STDOUT_FILENO, !options.raw && isTerminal(STDOUT_FILENO)},
      err_{STDERR_FILENO, !options.raw && isTerminal(STDERR_FILENO)},
      progress_(options.progress),
      said_blocked_(!options.say_blocked) {}

Result<> Follower::output(Output& to, const json::object& data) {
  std::string bytes = TRY(base::fromBase64(textOf(data, "data")));
  const auto offset = static_cast<uint64_t>(std::max<int64_t>(0, integerOf(data, "offset")));
  return output(to, offset, std::move(bytes));
}

Result<> Follower::output(Output& to, uint64_t offset, std::string bytes) {
  const uint64_t end = offset + bytes.size();
  if (end <= to.offset) return {};  // seen before the connection broke
  if (offset < to.offset) bytes.erase(0, to.offset - offset);
  to.offset = end;
  if (!options_.print) return {};
  progress_.stop();
  if (!writeTo(to.fd, to.filtered ? to.filter(bytes) : bytes)) {
    reader_gone_ = true;
    return fail(Code::kUnavailable, "writing the output: nobody reads it");
  }
  return {};
}

Result<bool> Follower::handle(const net::SseEvent& event) {
  json::object data = TRY(parseObject(event.data));
  if (event.type == "stdout") TRY(output(out_, data));
  if (event.type == "stderr") TRY(output(err_, data));
  if (event.type != "status") return false;
  execution_ = std::move(data);
  const auto status = model::statusFromName(textOf(execution_, "status"));
  if (status == model::Status::kBlocked && !std::exchange(said_blocked_, true)) {
    progress_.clear();
    writeTo(STDERR_FILENO, blockedText(execution_, options_.wait_approval));
  }
  const bool left = status == model::Status::kBlocked && !options_.wait_approval;
  return left || (status && model::isTerminal(*status));
}

Millis Follower::tick() {
  constexpr Millis kTick{100};
  const std::string status = textOf(execution_, "status");
  progress_.tick(status.empty() || status == "running" ? "running" : printable(status));
  return progress_.active() ? kTick : EventStream::kSilence;
}

Result<json::object> Follower::toEnd() {
  TRY(stream_.read([this](const net::SseEvent& event) { return handle(event); },
                   [this] { return tick(); }));
  progress_.stop();
  return std::move(execution_);
}

Result<> Follower::rest(net::BlockingClient& client, json::object& execution) {
  if (!options_.print) return {};
  TRY(restOf(client, "stdout", out_, execution));
  TRY(restOf(client, "stderr", err_, execution));
  const bool limit =
      textOf(objectOf(execution, "error"), "type") == model::error_type::kOutputLimit;
  if (limit && !boolOf(execution, "output_cut") && textOf(execution, "status") == "completed") {
    execution["error"] = nullptr;  // a bound without a loss is not reported
  }
  return {};
}

Result<> Follower::restOf(net::BlockingClient& client, std::string_view name, Output& to,
                          json::object& execution) {
  const std::string stream(name);
  const auto total = static_cast<uint64_t>(integerOf(execution, stream + "_bytes"));
  const std::string artifact = textOf(execution, stream + "_artifact");
  if (to.offset < total && !artifact.empty()) {
    uint64_t at = 0;
    const auto take = [&](std::string_view piece) -> Result<> {
      const uint64_t begin = std::exchange(at, at + piece.size());
      return output(to, begin, std::string(piece));
    };
    const std::string content = "/v1/artifacts/" + net::percentEncode(artifact) + "/content";
    const auto fetched = download(client, content, stream, take);
    if (!fetched && reader_gone_) return fetched;
  }
  execution[stream + "_truncated"] = to.offset < total;
  if (to.offset < total) execution["output_cut"] = true;
  return {};
}

}  // namespace cloister::cli
