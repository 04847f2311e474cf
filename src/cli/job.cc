// SPDX-License-Identifier: Apache-2.0
#include "cli/job.h"

#include <signal.h>
#include <unistd.h>

#include "cli/api.h"
#include "cli/render/outline.h"
#include "cli/render/terminal.h"
#include "cli/render/verdict.h"
#include "model/execution.h"

namespace cloister::cli {
namespace {

constexpr int kStatusBrokenPipe = kStatusSignal + SIGPIPE;

std::string targetOf(const std::string& id) {
  return "/v1/executions/" + net::percentEncode(id);
}

// After any failure, nothing may continue to run without its user. `id` is "" if the answer with
// the id was not awaited.
int abandon(Job& job, std::string id, bool reader_gone) {
  constexpr Millis kPatience{5'000};
  net::BlockingClient client(job.endpoint);
  if (id.empty()) {
    const auto execution = submitOnce(client, job.submission, kPatience);
    if (execution) id = textOf(*execution, "id");
  }
  if (!id.empty()) {
    const auto cancelled = client.exchange({.method = "DELETE", .target = targetOf(id)}, kPatience);
    if (!cancelled) writeTo(STDERR_FILENO, "cloister: " + cancelled.error().message + "\n");
  }
  if (reader_gone) return kStatusBrokenPipe;
  const int signal = job.signals.take();
  return signal > 0 ? kStatusSignal + signal : kStatusService;
}

}  // namespace

Result<json::object> submitOnce(net::BlockingClient& client, const Submission& submission,
                                Millis timeout) {
  const std::string text = base::toJson(submission.body);
  const net::HttpRequest request{.method = "POST",
                                 .target = submission.target,
                                 .body = text,
                                 .headers = {{"Idempotency-Key", submission.idempotency_key}}};
  const net::HttpResponse answer = TRY(client.exchange(request, timeout));
  if (answer.head.status >= 300) return std::unexpected(refusal(answer.head, answer.body));
  return parseObject(answer.body);
}

Result<json::object> submit(net::BlockingClient& client, const Submission& submission) {
  constexpr Millis kPatience{60'000};
  auto made = submitOnce(client, submission, kPatience);
  const bool again = !made && made.error().code == Code::kUnavailable && !client.interrupted();
  return again ? submitOnce(client, submission, kPatience) : made;
}

bool isDenied(const json::object& execution) {
  return textOf(execution, "status") == model::statusName(model::Status::kDenied);
}

Result<Outcome> start(Job& job) {
  auto execution = submit(job.client, job.submission);
  if (execution) return *std::move(execution);
  if (job.client.interrupted()) return abandon(job, "", false);
  return std::unexpected(execution.error());
}

Result<Outcome> follow(Job& job, net::BlockingClient& client, const std::string& id) {
  Follower follower(client, id, job.output);
  auto ended = follower.toEnd();
  if (!ended) {
    const int status = abandon(job, id, follower.readerGone());
    if (client.interrupted() || follower.readerGone()) return status;
    return std::unexpected(ended.error());
  }
  const bool blocked = textOf(*ended, "status") == model::statusName(model::Status::kBlocked);
  if (blocked) return *std::move(ended);
  if (auto whole = follower.rest(client, *ended); !whole) return kStatusBrokenPipe;
  if (!job.output.print) return TRY(call(client, "GET", targetOf(id)));
  return *std::move(ended);
}

void report(const json::object& execution, const Globals& globals) {
  if (globals.json) {
    printJson(execution);
  } else if (!globals.quiet) {
    writeTo(STDERR_FILENO, explain(execution));
  }
}

}  // namespace cloister::cli
