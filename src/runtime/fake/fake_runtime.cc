// SPDX-License-Identifier: Apache-2.0
// Behaviours (argv[0], then its arguments):
//   echo WORD…        the words and a newline on stdout; `err` the same on stderr
//   cat               stdin to stdout            env          the environment, a line each
//   exit CODE         ends with that code        segv         ends by SIGSEGV
//   show PATH         a file of the request      write PATH TEXT   makes a file (an artifact)
//   flood BYTES       that many bytes 'x' on stdout, 16 KiB at a time
//   mix COUNT         COUNT lines "N\n", even ones on stdout, odd ones on stderr
//   sleep MS          takes that long            hold         until release() or its end is asked
//   memory BYTES      uses that much memory      spin MS      uses that much processor time
//   fork COUNT        starts that many processes disk BYTES   fills the scratch file system
//   lost              the runner dies            broken       a fault of the runtime's own
// Anything else cannot be started, as a command that does not exist.
#include "runtime/fake/fake_runtime.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <map>
#include <utility>

#include <fnmatch.h>

#include "base/clock.h"
#include "wire/node.h"

namespace cloister::runtime {

struct FakeRuntime::State {
  explicit State(boost::asio::any_io_executor e) : executor(std::move(e)), changed(executor) {}

  boost::asio::any_io_executor executor;
  Signal changed;  // released, or a sandbox more
  bool released = false;
  size_t live = 0;
  std::vector<std::string> provisioned;
  std::optional<Error> provision_error;
};

namespace {

using model::End;
using model::Outcome;
using Words = std::vector<std::string>;

uint64_t number(const Words& argv, size_t index) {
  uint64_t value = 0;
  if (index < argv.size()) {
    std::from_chars(argv[index].data(), argv[index].data() + argv[index].size(), value);
  }
  return value;
}

std::string joined(const Words& argv) {
  std::string line;
  for (size_t i = 1; i < argv.size(); i++)
    line += (i > 1 ? " " : "") + argv[i];
  return line + "\n";
}

void hit(Outcome& outcome, std::string_view limit, uint64_t value, uint64_t used,
         std::string_view unit, bool fatal) {
  outcome.limits.push_back({std::string(limit), value, used, std::string(unit), fatal});
  if (fatal) outcome.end = End::kLimit;
}

bool matchesAny(const std::vector<std::string>& globs, const std::string& path) {
  return std::ranges::any_of(globs, [&](const std::string& glob) {
    return glob == "**" || fnmatch(glob.c_str(), path.c_str(), FNM_PATHNAME) == 0;
  });
}

class FakeSandbox final : public Sandbox {
 public:
  FakeSandbox(std::shared_ptr<FakeRuntime::State> state, model::PermitFields permit)
      : state_(std::move(state)), permit_(std::move(permit)), changed_(state_->executor) {
    info_ = {"fake", "fake", "sha256:" + std::string(64, '0'), {"isolation: none (fake runtime)"}};
    state_->live++;
  }
  FakeSandbox(const FakeSandbox&) = delete;
  FakeSandbox& operator=(const FakeSandbox&) = delete;
  ~FakeSandbox() override { release(); }

  const SandboxInfo& info() const override { return info_; }
  Task<Result<Outcome>> exec(const model::ExecSpec& spec, ExecObserver& observer) override;
  void cancel() override {
    cancelled_ = true;
    changed_.notify();
    state_->changed.notify();
  }
  Task<Result<>> teardown() override {
    release();
    co_return Result<>{};
  }

 private:
  struct Run {
    const model::ExecSpec& spec;
    ExecObserver& observer;
    Outcome& outcome;
    const Words& argv;
    std::vector<model::FileSpec> made;
  };
  using Behaviour = Task<void> (FakeSandbox::*)(Run&);
  static const std::map<std::string, Behaviour, std::less<>>& behaviours();

  Task<void> echo(Run& run);
  Task<void> err(Run& run);
  Task<void> cat(Run& run);
  Task<void> env(Run& run);
  Task<void> exit(Run& run);
  Task<void> segv(Run& run);
  Task<void> show(Run& run);
  Task<void> write(Run& run);
  Task<void> flood(Run& run);
  Task<void> mix(Run& run);
  Task<void> sleep(Run& run);
  Task<void> hold(Run& run);
  Task<void> memory(Run& run);
  Task<void> spin(Run& run);
  Task<void> fork(Run& run);
  Task<void> disk(Run& run);
  Task<void> lost(Run& run);

  Task<void> collect(Run& run);
  void interrupted(Run& run, bool timed_out) const;
  void release() {
    if (!std::exchange(released_, true)) state_->live--;
  }

  std::shared_ptr<FakeRuntime::State> state_;
  model::PermitFields permit_;
  SandboxInfo info_;
  Signal changed_;
  bool cancelled_ = false;
  bool released_ = false;
};

const std::map<std::string, FakeSandbox::Behaviour, std::less<>>& FakeSandbox::behaviours() {
  static const std::map<std::string, Behaviour, std::less<>> kAll = {
      {"echo", &FakeSandbox::echo},     {"err", &FakeSandbox::err},
      {"cat", &FakeSandbox::cat},       {"env", &FakeSandbox::env},
      {"exit", &FakeSandbox::exit},     {"segv", &FakeSandbox::segv},
      {"show", &FakeSandbox::show},     {"write", &FakeSandbox::write},
      {"flood", &FakeSandbox::flood},   {"mix", &FakeSandbox::mix},
      {"sleep", &FakeSandbox::sleep},   {"hold", &FakeSandbox::hold},
      {"memory", &FakeSandbox::memory}, {"spin", &FakeSandbox::spin},
      {"fork", &FakeSandbox::fork},     {"disk", &FakeSandbox::disk},
      {"lost", &FakeSandbox::lost},
  };
  return kAll;
}

Task<Result<Outcome>> FakeSandbox::exec(const model::ExecSpec& spec, ExecObserver& observer) {
  const auto begin = base::monotonicNow();
  Outcome outcome;
  outcome.started_at = base::wallMicros();
  const std::string name = spec.run.argv.empty() ? "" : spec.run.argv[0];
  if (name == "broken") co_return fail(Code::kInternal, "running a program: the fake is broken");
  if (const auto found = behaviours().find(name); found == behaviours().end()) {
    outcome.end = End::kStartFailed;
    outcome.message = "starting " + name + ": No such file or directory";
  } else {
    outcome.end = End::kExited;
    observer.onStarted();
    Run run{spec, observer, outcome, spec.run.argv, {}};
    co_await (this->*found->second)(run);
    if (outcome.end == End::kExited || outcome.end == End::kSignaled) co_await collect(run);
  }
  outcome.usage.processes = std::max(outcome.usage.processes, 1U);
  outcome.usage.wall_ms = std::chrono::duration_cast<Millis>(base::monotonicNow() - begin).count();
  outcome.finished_at = base::wallMicros();
  co_return outcome;
}

Task<void> FakeSandbox::echo(Run& run) {
  const std::string line = joined(run.argv);
  co_await run.observer.onOutput(model::Stream::kStdout, line);
}

Task<void> FakeSandbox::err(Run& run) {
  const std::string line = joined(run.argv);
  co_await run.observer.onOutput(model::Stream::kStderr, line);
}

Task<void> FakeSandbox::cat(Run& run) {
  if (!run.spec.input.empty()) {
    co_await run.observer.onOutput(model::Stream::kStdout, run.spec.input);
  }
}

Task<void> FakeSandbox::env(Run& run) {
  for (const std::string& entry : run.spec.env) {
    const std::string line = entry + "\n";
    co_await run.observer.onOutput(model::Stream::kStdout, line);
  }
}

Task<void> FakeSandbox::exit(Run& run) {
  run.outcome.exit_code = static_cast<int>(number(run.argv, 1));
  co_return;
}

Task<void> FakeSandbox::segv(Run& run) {
  run.outcome.end = End::kSignaled;
  run.outcome.signal = 11;
  co_return;
}

Task<void> FakeSandbox::show(Run& run) {
  run.outcome.exit_code = 1;
  for (const model::FileSpec& file : run.spec.files) {
    if (run.argv.size() < 2 || file.path != run.argv[1]) continue;
    run.outcome.exit_code = 0;
    co_await run.observer.onOutput(model::Stream::kStdout, file.content);
  }
}

Task<void> FakeSandbox::write(Run& run) {
  if (run.argv.size() > 2) run.made.push_back({run.argv[1], run.argv[2], 0644});
  co_return;
}

Task<void> FakeSandbox::flood(Run& run) {
  uint64_t left = number(run.argv, 1);
  const std::string chunk(16'384, 'x');
  while (left > 0 && !cancelled_) {
    const std::string_view piece = std::string_view(chunk).substr(0, left);
    co_await run.observer.onOutput(model::Stream::kStdout, piece);
    left -= piece.size();
  }
  if (cancelled_) interrupted(run, false);
}

Task<void> FakeSandbox::mix(Run& run) {
  const uint64_t count = number(run.argv, 1);
  for (uint64_t i = 0; i < count; i++) {
    const std::string line = std::to_string(i) + "\n";
    co_await run.observer.onOutput(i % 2 == 0 ? model::Stream::kStdout : model::Stream::kStderr,
                                   line);
  }
}

Task<void> FakeSandbox::sleep(Run& run) {
  const Millis asked(number(run.argv, 1));
  const auto now = base::monotonicNow();
  const bool too_long = asked >= run.spec.run.timeout;
  const auto until = now + std::min(asked, run.spec.run.timeout);
  while (!cancelled_ && base::monotonicNow() < until)
    co_await changed_.wait(until);
  if (cancelled_ || too_long) interrupted(run, !cancelled_);
}

Task<void> FakeSandbox::hold(Run& run) {
  const auto until = base::monotonicNow() + run.spec.run.timeout;
  while (!cancelled_ && !state_->released && base::monotonicNow() < until) {
    co_await state_->changed.wait(until);
  }
  if (!state_->released) interrupted(run, !cancelled_);
}

Task<void> FakeSandbox::memory(Run& run) {
  const uint64_t used = number(run.argv, 1);
  const uint64_t limit = permit_.limits.memory_bytes;
  run.outcome.usage.max_rss_bytes = std::min(used, limit);
  if (used > limit) {
    run.outcome.signal = 9;
    hit(run.outcome, model::limit_name::kMemory, limit, limit, "bytes", true);
  }
  co_return;
}

Task<void> FakeSandbox::spin(Run& run) {
  const uint64_t used = number(run.argv, 1);
  const auto limit = static_cast<uint64_t>(permit_.limits.cpu_time.count());
  run.outcome.usage.cpu_ms = static_cast<int64_t>(std::min(used, limit));
  if (used > limit) {
    run.outcome.signal = 9;
    hit(run.outcome, model::limit_name::kCpuTime, limit, limit, "ms", true);
  }
  co_return;
}

Task<void> FakeSandbox::fork(Run& run) {
  const uint64_t asked = number(run.argv, 1);
  const uint64_t limit = permit_.limits.pids;
  run.outcome.usage.processes = static_cast<uint32_t>(std::min(asked, limit));
  if (asked > limit) {
    run.outcome.exit_code = 1;
    hit(run.outcome, model::limit_name::kPids, limit, limit, "processes", false);
  }
  co_return;
}

Task<void> FakeSandbox::disk(Run& run) {
  const uint64_t asked = number(run.argv, 1);
  const uint64_t limit = model::scratchBytes(permit_.limits);
  if (asked > limit) {
    run.outcome.exit_code = 1;
    hit(run.outcome, model::limit_name::kDisk, limit, limit, "bytes", false);
  }
  co_return;
}

Task<void> FakeSandbox::lost(Run& run) {
  run.outcome.end = End::kRunnerLost;
  run.outcome.message = "the runner died";
  co_return;
}

void FakeSandbox::interrupted(Run& run, bool timed_out) const {
  run.outcome.end = timed_out ? End::kTimedOut : End::kCancelled;
  run.outcome.signal = 9;
  if (!timed_out) return;
  const auto limit = static_cast<uint64_t>(run.spec.run.timeout.count());
  run.outcome.limits.push_back({std::string(model::limit_name::kWall), limit, limit, "ms", true});
}

Task<void> FakeSandbox::collect(Run& run) {
  const model::ArtifactRules& rules = run.spec.artifacts;
  uint32_t files = 0;
  uint64_t bytes = 0;
  for (const model::FileSpec& file : run.made) {
    if (!matchesAny(rules.globs, file.path)) continue;
    if (files >= rules.max_files || bytes + file.content.size() > rules.max_bytes) {
      run.outcome.artifacts_truncated = true;
      continue;
    }
    files++;
    bytes += file.content.size();
    co_await run.observer.onFileBegin(file.path, file.content.size());
    if (!file.content.empty()) co_await run.observer.onFileData(file.content);
    co_await run.observer.onFileEnd();
  }
}

}  // namespace

FakeRuntime::FakeRuntime(boost::asio::any_io_executor executor)
    : state_(std::make_shared<State>(std::move(executor))) {}

FakeRuntime::~FakeRuntime() = default;

Task<Result<std::unique_ptr<Sandbox>>> FakeRuntime::provision(const model::SignedPermit& permit) {
  if (state_->provision_error) co_return std::unexpected(*state_->provision_error);
  auto fields = wire::decodePermit(permit.encoded);
  if (!fields) co_return std::unexpected(std::move(fields).error());
  state_->provisioned.push_back(fields->execution_id);
  state_->changed.notify();
  co_return std::make_unique<FakeSandbox>(state_, *std::move(fields));
}

Task<Result<base::json::object>> FakeRuntime::plan(const model::SignedPermit& permit) {
  auto fields = wire::decodePermit(permit.encoded);
  if (!fields) co_return std::unexpected(std::move(fields).error());
  base::json::object plan;
  plan["runtime"] = "fake";
  plan["limits"] = {{"memory_bytes", fields->limits.memory_bytes}, {"pids", fields->limits.pids}};
  co_return plan;
}

void FakeRuntime::release() {
  state_->released = true;
  state_->changed.notify();
}

void FakeRuntime::failProvision(std::optional<Error> error) {
  state_->provision_error = std::move(error);
}

size_t FakeRuntime::live() const {
  return state_->live;
}

const std::vector<std::string>& FakeRuntime::provisioned() const {
  return state_->provisioned;
}

Task<void> FakeRuntime::waitProvisioned(size_t count) {
  while (state_->provisioned.size() < count)
    co_await state_->changed.wait();
}

}  // namespace cloister::runtime
