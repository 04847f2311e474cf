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
// A session's sandbox runs several behaviours side by side, keeps files of `write`, and also has
//   pwd               where it was started       trap         waits for a signal, says its number
//   die WHY…          the whole sandbox does     cat          goes on until the end of its input
// Anything else cannot be started, like a missing command.
#include "runtime/fake/fake_runtime.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <map>
#include <utility>

#include <fnmatch.h>

#include "base/clock.h"
#include "base/crypto.h"
#include "runtime/fake/fake_files.h"
#include "runtime/fake/fake_info.h"
#include "runtime/fake/fake_state.h"
#include "wire/files_codec.h"
#include "wire/node.h"

namespace cloister::runtime {
namespace {

using model::End;
using model::Outcome;
using Words = std::vector<std::string>;

uint64_t number(const Words& argv, size_t index) {
  uint64_t value = 0;
  if (index >= argv.size()) return value;
  std::from_chars(argv[index].data(), argv[index].data() + argv[index].size(), value);
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

constexpr size_t kInputBuffer = 65'536;
constexpr size_t kMaxPrograms = 256;  // at the same time in a sandbox

class FakeProgram;

// State shared by a sandbox's programs.
struct Home {
  explicit Home(const boost::asio::any_io_executor& executor) : changed(executor) {}

  void end(const model::SandboxEnd& why);

  async::Signal changed;
  std::optional<model::SandboxEnd> ended;
  std::vector<model::FileSpec> files;
  std::vector<FakeProgram*> programs;
};

class FakeProgram final : public Exec {
 public:
  FakeProgram(std::shared_ptr<FakeRuntime::State> state, std::shared_ptr<Home> home,
              const model::Limits& limits, model::ExecSpec spec)
      : state_(std::move(state)),
        home_(std::move(home)),
        limits_(limits),
        spec_(std::move(spec)),
        changed_(state_->executor),
        pending_(spec_.input),
        input_ended_(!spec_.keep_input) {
    home_->programs.push_back(this);
  }
  FakeProgram(const FakeProgram&) = delete;
  FakeProgram& operator=(const FakeProgram&) = delete;
  ~FakeProgram() override { std::erase(home_->programs, this); }

  Task<Result<Outcome>> run(ExecObserver& observer) override;
  void cancel() override {
    cancelled_ = true;
    wake();
  }
  Task<Result<>> input(std::string bytes) override;
  Result<> signal(int number) override;
  Result<> resize(model::TerminalSize) override { return fail(Code::kConflict, "no terminal"); }
  void wake() {
    changed_.notify();
    state_->changed.notify();
  }

 private:
  struct Run {
    const model::ExecSpec& spec;
    ExecObserver& observer;
    Outcome& outcome;
    const Words& argv;
    std::vector<model::FileSpec> made;
  };
  using Behaviour = Task<void> (FakeProgram::*)(Run&);
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
  Task<void> pwd(Run& run);
  Task<void> trap(Run& run);
  Task<void> die(Run& run);
  Task<void> serve(Run& run);

  Task<void> collect(Run& run);
  void interrupted(Run& run, bool timed_out) const;
  [[nodiscard]] bool stopped() const { return cancelled_ || home_->ended; }

  std::shared_ptr<FakeRuntime::State> state_;
  std::shared_ptr<Home> home_;
  model::Limits limits_;
  model::ExecSpec spec_;
  async::Signal changed_;
  std::string pending_;  // unread input
  bool input_ended_;
  int signal_ = 0;
  bool cancelled_ = false;
  bool ended_ = false;
};

void Home::end(const model::SandboxEnd& why) {
  if (ended) return;
  ended = why;
  changed.notify();
  for (FakeProgram* program : programs)
    program->wake();
}

class FakeSandbox final : public Sandbox {
 public:
  FakeSandbox(std::shared_ptr<FakeRuntime::State> state, model::PermitFields permit)
      : state_(std::move(state)),
        permit_(std::move(permit)),
        home_(std::make_shared<Home>(state_->executor)) {
    info_ = fakeInfo(permit_, state_->image);
    state_->live++;
    state_->kills.emplace_back([home = std::weak_ptr(home_)](const model::SandboxEnd& why) {
      if (const auto there = home.lock()) there->end(why);
    });
  }
  FakeSandbox(const FakeSandbox&) = delete;
  FakeSandbox& operator=(const FakeSandbox&) = delete;
  ~FakeSandbox() override { release(); }

  const SandboxInfo& info() const override { return info_; }
  std::optional<model::Usage> used() const override { return state_->used; }
  Task<Result<Outcome>> exec(const model::ExecSpec& spec, ExecObserver& observer) override {
    alone_ = std::make_unique<FakeProgram>(state_, home_, permit_.limits, spec);
    if (cancelled_) alone_->cancel();
    co_return co_await alone_->run(observer);
  }
  Task<Result<std::unique_ptr<Exec>>> open(const model::SignedPermit& permit,
                                           const model::ExecSpec& spec) override;
  Task<model::SandboxEnd> died() override {
    const std::shared_ptr<Home> home = home_;
    while (!home->ended)
      co_await home->changed.wait();
    co_return *home->ended;
  }
  void cancel() override {
    cancelled_ = true;
    if (alone_) alone_->cancel();
  }
  Task<Result<>> teardown() override {
    release();
    co_return Result<>{};
  }

 private:
  void release() {
    if (std::exchange(released_, true)) return;
    state_->live--;
    home_->end({});
  }

  std::shared_ptr<FakeRuntime::State> state_;
  model::PermitFields permit_;
  SandboxInfo info_;
  std::shared_ptr<Home> home_;
  std::unique_ptr<FakeProgram> alone_;  // the program of a sandbox with a single run
  bool cancelled_ = false;
  bool released_ = false;
};

Task<Result<std::unique_ptr<Exec>>> FakeSandbox::open(const model::SignedPermit& permit,
                                                      const model::ExecSpec& spec) {
  auto fields = wire::decodePermit(permit.encoded);
  if (!fields) co_return std::unexpected(std::move(fields).error());
  if (home_->ended) co_return fail(Code::kUnavailable, "running in a session: its sandbox is gone");
  const bool ours = !permit_.session_id.empty() && fields->session_id == permit_.session_id &&
                    !fields->execution_id.empty() &&
                    fields->spec_sha256 == base::sha256Hex(wire::encodeExecSpec(spec));
  if (!ours) co_return fail(Code::kDenied, "running in a session: the permit is for another");
  if (home_->programs.size() >= kMaxPrograms) {
    co_return fail(Code::kQuota, "running in a session: too many programs at once");
  }
  co_return std::make_unique<FakeProgram>(state_, home_, fields->limits, spec);
}

const std::map<std::string, FakeProgram::Behaviour, std::less<>>& FakeProgram::behaviours() {
  static const std::map<std::string, Behaviour, std::less<>> kAll = {
      {"echo", &FakeProgram::echo},     {"err", &FakeProgram::err},
      {"cat", &FakeProgram::cat},       {"env", &FakeProgram::env},
      {"exit", &FakeProgram::exit},     {"segv", &FakeProgram::segv},
      {"show", &FakeProgram::show},     {"write", &FakeProgram::write},
      {"flood", &FakeProgram::flood},   {"mix", &FakeProgram::mix},
      {"sleep", &FakeProgram::sleep},   {"hold", &FakeProgram::hold},
      {"memory", &FakeProgram::memory}, {"spin", &FakeProgram::spin},
      {"fork", &FakeProgram::fork},     {"disk", &FakeProgram::disk},
      {"lost", &FakeProgram::lost},     {"pwd", &FakeProgram::pwd},
      {"trap", &FakeProgram::trap},     {"die", &FakeProgram::die},
  };
  return kAll;
}

Task<Result<Outcome>> FakeProgram::run(ExecObserver& observer) {
  const auto begin = base::monotonicNow();
  Outcome outcome;
  outcome.started_at = base::wallMicros();
  const std::string name = spec_.run.argv.empty() ? "" : spec_.run.argv[0];
  if (name == "broken") co_return fail(Code::kInternal, "running a program: the fake is broken");
  if (spec_.for_files) {
    outcome.end = End::kExited;
    observer.onStarted();
    Run run{spec_, observer, outcome, spec_.run.argv, {}};
    co_await serve(run);
  } else if (const auto found = behaviours().find(name); found == behaviours().end()) {
    outcome.end = End::kExited;
    outcome.exit_code = 127;  // as in a shell
    observer.onStarted();
    co_await observer.onOutput(model::Stream::kStderr,
                               "cloister: " + name + ": No such file or directory in PATH\n");
  } else {
    outcome.end = End::kExited;
    observer.onStarted();
    Run run{spec_, observer, outcome, spec_.run.argv, {}};
    co_await (this->*found->second)(run);
    if (home_->ended) co_return fail(Code::kUnavailable, "running a program: its sandbox is gone");
    if (outcome.end == End::kExited || outcome.end == End::kSignaled) co_await collect(run);
  }
  ended_ = true;
  changed_.notify();
  outcome.usage.processes = std::max(outcome.usage.processes.value_or(0), 1U);
  outcome.usage.disk_limit_bytes = model::scratchBytes(limits_);
  outcome.usage.wall_ms = std::chrono::duration_cast<Millis>(base::monotonicNow() - begin).count();
  outcome.finished_at = base::wallMicros();
  co_return outcome;
}

Task<void> FakeProgram::echo(Run& run) {
  const std::string line = joined(run.argv);
  co_await run.observer.onOutput(model::Stream::kStdout, line);
}

Task<void> FakeProgram::err(Run& run) {
  const std::string line = joined(run.argv);
  co_await run.observer.onOutput(model::Stream::kStderr, line);
}

Task<void> FakeProgram::cat(Run& run) {
  const auto until = base::monotonicNow() + run.spec.run.timeout;
  while (!stopped() && (!pending_.empty() || !input_ended_) && base::monotonicNow() < until) {
    const std::string piece = std::exchange(pending_, {});
    changed_.notify();
    if (!piece.empty()) {
      co_await run.observer.onOutput(model::Stream::kStdout, piece);
    } else {
      co_await changed_.wait(until);
    }
  }
  if (cancelled_ || !input_ended_) interrupted(run, !cancelled_);
}

Task<void> FakeProgram::env(Run& run) {
  for (const std::string& entry : run.spec.env) {
    const std::string line = entry + "\n";
    co_await run.observer.onOutput(model::Stream::kStdout, line);
  }
}

Task<void> FakeProgram::exit(Run& run) {
  run.outcome.exit_code = static_cast<int>(number(run.argv, 1));
  if (run.argv.size() > 2) co_await err(run);
}

Task<void> FakeProgram::segv(Run& run) {
  run.outcome.end = End::kSignaled;
  run.outcome.signal = 11;
  co_return;
}

Task<void> FakeProgram::show(Run& run) {
  run.outcome.exit_code = 1;
  std::vector<model::FileSpec> files = home_->files;
  files.insert(files.end(), run.spec.files.begin(), run.spec.files.end());
  for (const model::FileSpec& file : files) {
    if (run.argv.size() < 2 || file.path != run.argv[1]) continue;
    run.outcome.exit_code = 0;
    co_await run.observer.onOutput(model::Stream::kStdout, file.content);
  }
}

Task<void> FakeProgram::write(Run& run) {
  if (run.argv.size() <= 2) co_return;
  home_->files.push_back(run.made.emplace_back(run.argv[1], run.argv[2], 0644));
}

Task<void> FakeProgram::flood(Run& run) {
  uint64_t left = number(run.argv, 1);
  const std::string chunk(16'384, 'x');
  while (left > 0 && !stopped()) {
    const std::string_view piece = std::string_view(chunk).substr(0, left);
    co_await run.observer.onOutput(model::Stream::kStdout, piece);
    left -= piece.size();
  }
  if (cancelled_) interrupted(run, false);
}

Task<void> FakeProgram::mix(Run& run) {
  const uint64_t count = number(run.argv, 1);
  for (uint64_t i = 0; i < count; i++) {
    const std::string line = std::to_string(i) + "\n";
    co_await run.observer.onOutput(i % 2 == 0 ? model::Stream::kStdout : model::Stream::kStderr,
                                   line);
  }
}

Task<void> FakeProgram::sleep(Run& run) {
  const Millis asked(number(run.argv, 1));
  const auto now = base::monotonicNow();
  const bool too_long = asked >= run.spec.run.timeout;
  const auto until = now + std::min(asked, run.spec.run.timeout);
  while (!stopped() && base::monotonicNow() < until)
    co_await changed_.wait(until);
  if (cancelled_ || too_long) interrupted(run, !cancelled_);
}

Task<void> FakeProgram::hold(Run& run) {
  const auto until = base::monotonicNow() + run.spec.run.timeout;
  while (!stopped() && !state_->released && base::monotonicNow() < until)
    co_await state_->changed.wait(until);
  if (!state_->released) interrupted(run, !cancelled_);
}

Task<void> FakeProgram::memory(Run& run) {
  const uint64_t used = number(run.argv, 1);
  const uint64_t limit = limits_.memory_bytes;
  run.outcome.usage.max_rss_bytes = std::min(used, limit);
  if (used > limit) {
    run.outcome.signal = 9;
    hit(run.outcome, model::limit_name::kMemory, limit, limit, "bytes", true);
  }
  co_return;
}

Task<void> FakeProgram::spin(Run& run) {
  const uint64_t used = number(run.argv, 1);
  const auto limit = static_cast<uint64_t>(limits_.cpu_time.count());
  run.outcome.usage.cpu_ms = static_cast<int64_t>(std::min(used, limit));
  if (used > limit) {
    run.outcome.signal = 9;
    hit(run.outcome, model::limit_name::kCpuTime, limit, limit, "ms", true);
  }
  co_return;
}

Task<void> FakeProgram::fork(Run& run) {
  const uint64_t asked = number(run.argv, 1);
  const uint64_t limit = limits_.pids;
  run.outcome.usage.processes = static_cast<uint32_t>(std::min(asked, limit));
  if (asked > limit) {
    run.outcome.exit_code = 1;
    hit(run.outcome, model::limit_name::kPids, limit, limit, "processes", false);
  }
  co_return;
}

Task<void> FakeProgram::disk(Run& run) {
  const uint64_t asked = number(run.argv, 1);
  const uint64_t limit = model::scratchBytes(limits_);
  if (asked > limit) {
    run.outcome.exit_code = 1;
    hit(run.outcome, model::limit_name::kDisk, limit, limit, "bytes", false);
  }
  co_return;
}

Task<void> FakeProgram::lost(Run& run) {
  run.outcome.end = End::kRunnerLost;
  run.outcome.message = "the runner died";
  co_return;
}

Task<void> FakeProgram::pwd(Run& run) {
  const std::string line = (run.spec.cwd.empty() ? "/workspace" : run.spec.cwd) + "\n";
  co_await run.observer.onOutput(model::Stream::kStdout, line);
}

Task<void> FakeProgram::trap(Run& run) {
  const auto until = base::monotonicNow() + run.spec.run.timeout;
  while (!stopped() && signal_ == 0 && base::monotonicNow() < until)
    co_await changed_.wait(until);
  if (signal_ == 0) co_return interrupted(run, !cancelled_);
  const std::string line = std::to_string(signal_) + "\n";
  co_await run.observer.onOutput(model::Stream::kStdout, line);
}

Task<void> FakeProgram::die(Run& run) {
  const std::string why = joined(run.argv);
  home_->end({model::SandboxEnd::Kind::kRunnerLost, why.substr(0, why.size() - 1)});
  co_return;
}

Task<void> FakeProgram::serve(Run& run) {
  std::string input;
  std::string out;
  const bool holds = run.argv[0] == wire::files::kHold;  // answers before its input ends
  int error = holds ? serveFakeFiles(home_->files, run.argv, input, out) : 0;
  if (holds) co_await run.observer.onOutput(model::Stream::kStdout, std::exchange(out, {}));
  while (error == 0 && !stopped() && (!pending_.empty() || !input_ended_)) {
    input += std::exchange(pending_, {});
    changed_.notify();
    if (!input_ended_) co_await changed_.wait();
  }
  if (stopped()) co_return interrupted(run, false);
  if (!holds) error = serveFakeFiles(home_->files, run.argv, input, out);
  if (error == 0) co_return co_await run.observer.onOutput(model::Stream::kStdout, out);
  run.outcome.exit_code = wire::files::kFailed;
  const std::string said = fakeFailure(error, run.argv[0]);
  co_await run.observer.onOutput(model::Stream::kStderr, said);
}

Task<Result<>> FakeProgram::input(std::string bytes) {
  while (pending_.size() >= kInputBuffer && !ended_ && !stopped())
    co_await changed_.wait();
  if (ended_ || stopped()) co_return fail(Code::kConflict, "sending input: the program has ended");
  if (input_ended_) co_return fail(Code::kConflict, "sending input: it had its end already");
  pending_ += bytes;
  input_ended_ = bytes.empty();
  changed_.notify();
  co_return Result<>{};
}

Result<> FakeProgram::signal(int number) {
  if (ended_ || stopped()) return fail(Code::kConflict, "sending a signal: the program has ended");
  signal_ = number;
  changed_.notify();
  return {};
}

void FakeProgram::interrupted(Run& run, bool timed_out) const {
  run.outcome.end = timed_out ? End::kTimedOut : End::kCancelled;
  run.outcome.signal = 9;
  if (!timed_out) return;
  const auto limit = static_cast<uint64_t>(run.spec.run.timeout.count());
  run.outcome.limits.push_back({std::string(model::limit_name::kWall), limit, limit, "ms", true});
}

Task<void> FakeProgram::collect(Run& run) {
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
  const std::shared_ptr<State> state = state_;
  auto fields = wire::decodePermit(permit.encoded);
  if (!fields) co_return std::unexpected(std::move(fields).error());
  while (state->provisions_held)
    co_await state->changed.wait();
  if (state->provision_error) co_return std::unexpected(*state->provision_error);
  state->provisioned.push_back(fields->execution_id.empty() ? fields->session_id
                                                            : fields->execution_id);
  state->changed.notify();
  co_return std::make_unique<FakeSandbox>(state, *std::move(fields));
}

Task<Result<base::json::object>> FakeRuntime::plan(const model::SignedPermit& permit) {
  auto fields = wire::decodePermit(permit.encoded);
  if (!fields) co_return std::unexpected(std::move(fields).error());
  const auto [memory, pids] = std::pair(fields->limits.memory_bytes, fields->limits.pids);
  co_return base::json::object{{"runtime", "fake"},
                               {"limits", {{"memory_bytes", memory}, {"pids", pids}}}};
}

std::optional<model::PoolStats> FakeRuntime::pool() const {
  return state_->pool;
}

std::optional<model::ImageState> FakeRuntime::image() const {
  return state_->image;
}

void FakeRuntime::setImage(model::ImageState state) {
  state_->image = std::move(state);
}

void FakeRuntime::setUsed(const model::Usage& usage) {
  state_->used = usage;
}

void FakeRuntime::keepReady(model::PoolStats stats) {
  state_->pool = std::move(stats);
}

void FakeRuntime::release() {
  state_->released = true;
  state_->changed.notify();
}

void FakeRuntime::killSandboxes(const model::SandboxEnd& why) {
  for (const auto& kill : std::exchange(state_->kills, {}))
    kill(why);
}

void FakeRuntime::holdProvisions(bool hold) {
  state_->provisions_held = hold;
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
