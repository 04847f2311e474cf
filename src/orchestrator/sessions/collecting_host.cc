// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/sessions/collecting_host.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace cloister::orchestrator {
namespace {

namespace files = wire::files;
using model::Outcome;

class CollectingHost final : public Host {
 public:
  CollectingHost(std::unique_ptr<Host> inner, AskFiles ask, model::ArtifactRules rules)
      : inner_(std::move(inner)), ask_(std::move(ask)), rules_(std::move(rules)) {}

  [[nodiscard]] bool startsAtOnce() const override { return inner_->startsAtOnce(); }
  Result<> admit() override { return inner_->admit(); }
  void occupy() override { inner_->occupy(); }
  void vacate() override { inner_->vacate(); }
  void pass() override {
    passes_ = true;
    inner_->pass();
  }
  Task<Result<runtime::SandboxInfo>> prepare(model::SignedPermit permit,
                                             const model::ExecSpec& spec) override {
    return inner_->prepare(std::move(permit), spec);
  }
  Task<Result<Outcome>> run(const model::ExecSpec& spec, runtime::ExecObserver& observer) override;
  void cancel() override;
  Task<Result<>> release() override { return inner_->release(); }
  Task<Result<>> input(std::string bytes) override { return inner_->input(std::move(bytes)); }
  Result<> signal(int number) override { return inner_->signal(number); }
  Result<> resize(model::TerminalSize size) override { return inner_->resize(size); }
  void complete(model::Execution& execution) override { inner_->complete(execution); }
  [[nodiscard]] Cause cause() const override { return inner_->cause(); }
  void tell(const model::Execution& execution) override { inner_->tell(execution); }

 private:
  Task<Result<std::shared_ptr<FileCall>>> call(std::vector<std::string> argv);
  Task<Result<int64_t>> clock();
  Task<Result<bool>> collect(int64_t since, const model::ExecSpec& spec,
                             runtime::ExecObserver& observer);
  Task<Result<>> copy(files::Entry file, const model::ExecSpec& spec,
                      runtime::ExecObserver& observer);

  std::unique_ptr<Host> inner_;
  AskFiles ask_;
  model::ArtifactRules rules_;
  std::shared_ptr<FileCall> call_;  // the last call
  // Shared with the calls; a call may outlive the host.
  const std::shared_ptr<bool> cancelled_ = std::make_shared<bool>(false);
  bool passes_ = false;
};

void CollectingHost::cancel() {
  *cancelled_ = true;
  inner_->cancel();  // wakes a call that waits for the workspace
  if (call_) call_->abandon();
}

Task<Result<std::shared_ptr<FileCall>>> CollectingHost::call(std::vector<std::string> argv) {
  if (*cancelled_) co_return fail(Code::kUnavailable, "collecting artifacts: cancelled");
  FileRequest request{.argv = std::move(argv), .takes_input = false, .action = ""};
  request.passes = passes_;
  request.over = [cancelled = cancelled_] { return *cancelled; };
  call_ = CO_TRY(co_await ask_(std::move(request)));
  if (*cancelled_) call_->abandon();
  co_return call_;
}

Task<Result<Outcome>> CollectingHost::run(const model::ExecSpec& spec,
                                          runtime::ExecObserver& observer) {
  const auto since = co_await clock();
  auto outcome = co_await inner_->run(spec, observer);
  if (!outcome || inner_->cause() != Cause::kNone) co_return outcome;
  const auto whole = since ? co_await collect(*since, spec, observer)
                           : Result<bool>(std::unexpected(since.error()));
  if (!whole || !*whole) outcome->artifacts_truncated = true;
  co_return outcome;
}

// The sandbox's clock, which may differ from ours.
Task<Result<int64_t>> CollectingHost::clock() {
  const auto asked = CO_TRY(co_await call({"clock"}));
  const files::Entry now = CO_TRY(co_await asked->entry());
  co_return now.modified_at;
}

// False where some were left out.
Task<Result<bool>> CollectingHost::collect(int64_t since, const model::ExecSpec& spec,
                                           runtime::ExecObserver& observer) {
  std::vector<std::string> argv{"changed", std::to_string(since), std::to_string(rules_.max_files)};
  argv.insert(argv.end(), rules_.globs.begin(), rules_.globs.end());
  const auto asked = CO_TRY(co_await call(std::move(argv)));
  std::vector<files::Entry> found;
  bool whole = true;
  while (auto part = CO_TRY(co_await asked->next())) {
    if (const auto* end = std::get_if<files::EndOfEntries>(&*part)) whole = end->left_out == 0;
    if (auto* entry = std::get_if<files::Entry>(&*part)) found.push_back(std::move(*entry));
    if (found.size() > rules_.max_files) co_return false;  // not from our file server
  }
  uint64_t room = rules_.max_bytes;
  for (files::Entry& file : found) {
    if (file.size > room) {
      whole = false;
      continue;
    }
    room -= file.size;
    if (const auto copied = co_await copy(std::move(file), spec, observer); !copied) whole = false;
  }
  co_return whole;
}

// An unchanged file of the request is no artifact. A growing file counts with its size at
// discovery; a vanished file does not count. A server that sends more bytes is not our file server.
Task<Result<>> CollectingHost::copy(files::Entry file, const model::ExecSpec& spec,
                                    runtime::ExecObserver& observer) {
  const auto sent = std::ranges::find(spec.files, file.path, &model::FileSpec::path);
  const bool compared = sent != spec.files.end() && file.size == sent->content.size();
  const auto asked = CO_TRY(co_await call({"read", file.path, "0", std::to_string(file.size)}));
  CO_TRY(co_await asked->entry());
  std::string held;  // content that may be unchanged
  if (!compared) co_await observer.onFileBegin(file.path, file.size);
  for (uint64_t left = file.size;;) {
    const std::string piece = CO_TRY(co_await asked->read());
    if (piece.empty()) break;
    if (piece.size() > left) {
      asked->abandon();
      co_return fail(Code::kInternal, "collecting " + file.path + ": it does not end");
    }
    left -= piece.size();
    if (compared) held += piece;
    if (!compared) co_await observer.onFileData(piece);
  }
  if (compared && held == sent->content) co_return Result<>{};
  if (compared) {
    co_await observer.onFileBegin(file.path, file.size);
    co_await observer.onFileData(held);
  }
  co_await observer.onFileEnd();
  co_return Result<>{};
}

}  // namespace

std::unique_ptr<Host> makeCollectingHost(std::unique_ptr<Host> inner, AskFiles ask,
                                         model::ArtifactRules rules) {
  return std::make_unique<CollectingHost>(std::move(inner), std::move(ask), std::move(rules));
}

}  // namespace cloister::orchestrator
