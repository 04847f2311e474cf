// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/sessions/kernel.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "async/spawn.h"
#include "model/execution.h"
#include "wire/kernel.h"

namespace cloister::orchestrator {
namespace {

using model::Outcome;

constexpr Millis kStartPatience{20'000};
constexpr size_t kMostSaid = 4096;
constexpr char kSessionEnded[] = "its session ended";
// Beyond a cell's own time and its kernel's interrupt: the node then ends the program.
constexpr Millis kBackstop{15'000};

// The output of a kernel that failed to start: hostile, shortened for a message.
std::string shown(std::string_view said) {
  constexpr size_t kMost = 200;
  std::string text(said.substr(0, kMost));
  while (text.ends_with('\n'))
    text.pop_back();
  for (char& c : text) {
    if (c < ' ' || c > '~') c = '?';
  }
  return text.empty() ? "it did not begin" : text;
}

// The reason of an interpreter's end by itself.
std::string causeOf(const Result<Outcome>& outcome) {
  if (!outcome) return outcome.error().message;
  for (const model::LimitHit& hit : outcome->limits) {
    if (hit.fatal) return "it reached its limit " + hit.limit;
  }
  if (outcome->signal != 0) return "it was ended by " + model::signalName(outcome->signal);
  if (outcome->end == model::End::kExited)
    return "it exited with status " + std::to_string(outcome->exit_code);
  return outcome->message.empty() ? "it ended" : outcome->message;
}

}  // namespace

// An interpreter, from its start to its end.
class Kernel::Instance final : public runtime::ExecObserver {
 public:
  explicit Instance(Begun begun) : begun_(std::move(begun)) {}

  static Task<void> run(std::shared_ptr<Instance> self, std::shared_ptr<Kernel> kernel) {
    auto outcome = co_await self->begun_.host->run(self->begun_.spec, *self);
    std::ignore = co_await self->begun_.host->release();
    if (outcome) self->onUsage(outcome->usage);
    self->outcome_ = std::move(outcome);
    self->begun_.host.reset();  // the host holds the session, which holds its kernels
    kernel->changed_.notify();
  }

  void hear(async::Signal& changed) { changed_ = &changed; }
  // While there is no outcome.
  [[nodiscard]] Host& host() { return *begun_.host; }
  [[nodiscard]] bool ready() const { return said_.starts_with(wire::kernel::kReady); }
  // The reason of a failed start.
  [[nodiscard]] std::string reason() const {
    if (outcome_ && !*outcome_) return outcome_->error().message;
    return outcome_ && !(*outcome_)->message.empty() ? (*outcome_)->message : said_;
  }
  [[nodiscard]] const std::optional<Result<Outcome>>& outcome() const { return outcome_; }
  // Notes the reason of an end by the service.
  void endFor(std::string_view why) {
    if (why_.empty()) why_ = why;
  }
  [[nodiscard]] bool isEnding() const { return !why_.empty(); }
  [[nodiscard]] std::string why() const {
    return !why_.empty() ? why_ : outcome_ ? causeOf(*outcome_) : std::string("it ended");
  }
  [[nodiscard]] int64_t startedAt() const { return started_at_; }
  [[nodiscard]] Millis cpu() const { return Millis(cpu_ms_); }

  void onStarted() override {}
  void onUsage(const model::Usage& usage) override {
    if (usage.cpu_ms <= cpu_ms_) return;
    if (begun_.charge) begun_.charge(static_cast<uint64_t>(usage.cpu_ms - cpu_ms_));
    cpu_ms_ = usage.cpu_ms;
    if (changed_ != nullptr) changed_->notify();
  }
  Task<void> onOutput(model::Stream /*stream*/, std::string_view bytes) override {
    said_ += bytes.substr(0, kMostSaid - std::min(kMostSaid, said_.size()));
    if (changed_ != nullptr) changed_->notify();
    co_return;
  }
  Task<void> onFileBegin(std::string /*path*/, uint64_t /*size*/) override { co_return; }
  Task<void> onFileData(std::string_view /*bytes*/) override { co_return; }
  Task<void> onFileEnd() override { co_return; }

 private:
  Begun begun_;
  std::string said_;
  int64_t cpu_ms_ = 0;  // as last reported
  std::optional<Result<Outcome>> outcome_;
  std::string why_;
  int64_t started_at_ = base::wallMicros();
  async::Signal* changed_ = nullptr;
};

base::json::object toJsonObject(const KernelState& state) {
  const std::string started = base::formatTime(state.started_at);
  return {{"name", state.name},
          {"language", state.language},
          {"status", !state.running    ? "not_started"
                     : state.cells > 0 ? "busy"
                                       : "idle"},
          {"cells", state.cells},
          {"number", state.number},
          {"started_at", state.running ? base::json::value(started) : base::json::value(nullptr)}};
}

Kernel::Kernel(boost::asio::any_io_executor executor, std::string name, std::string language,
               KernelBounds bounds, Begin begin)
    : name_(std::move(name)),
      language_(std::move(language)),
      bounds_(bounds),
      begin_(std::move(begin)),
      changed_(std::move(executor)) {}

Kernel::~Kernel() = default;

bool Kernel::runs() const {
  return instance_ && !instance_->outcome();
}

KernelState Kernel::state() const {
  return {.name = name_,
          .language = language_,
          .running = runs(),
          .cells = static_cast<uint32_t>(line_.size()),
          .number = number_,
          .started_at = runs() ? instance_->startedAt() : 0};
}

void Kernel::adapt(const model::ExecRequest& request, model::ExecSpec& spec) const {
  spec.compile.clear();
  spec.files = request.run.files;
  spec.run.argv = {std::string(wire::kernel::kCell), dir(), request.run.code};
  spec.run.timeout = request.run.limits.wall + bounds_.interrupt + kBackstop;
  spec.env.clear();
  spec.cwd.clear();
  spec.for_files = true;
}

void Kernel::join(const void* cell) {
  line_.push_back(cell);
}

void Kernel::leave(const void* cell) {
  if (std::erase(line_, cell) > 0) changed_.notify();
}

bool Kernel::isNext(const void* cell) const {
  return !line_.empty() && line_.front() == cell;
}

Task<Result<uint64_t>> Kernel::ensure(std::function<bool()> over) {
  const auto self = shared_from_this();
  if (abandoned_) co_return fail(Code::kConflict, "starting a kernel: its session has ended");
  if (runs() && instance_->isEnding()) co_await stopped();
  if (runs()) co_return ++number_;
  number_ = 0;
  if (std::exchange(keeps_, false)) loss_ = instance_->why();
  Begun begun = CO_TRY(co_await begin_(self, [self, over] { return over() || self->abandoned_; }));
  const auto instance = std::make_shared<Instance>(std::move(begun));
  instance->hear(changed_);
  instance_ = instance;
  async::spawn(changed_.executor(), Instance::run(instance, self));
  if (abandoned_) stop(kSessionEnded);  // meanwhile
  const base::Monotonic until = base::monotonicNow() + kStartPatience;
  while (!instance->ready() && !instance->outcome() && base::monotonicNow() < until)
    co_await changed_.wait(until);
  if (instance->ready() && !instance->outcome()) {
    keeps_ = true;
    co_return ++number_;
  }
  stop("it did not begin in time");
  co_return fail(Code::kUnsupported,
                 "starting the kernel " + name_ + ": " + shown(instance->reason()));
}

const Result<Outcome>* Kernel::outcome() const {
  return instance_ && instance_->outcome() ? &*instance_->outcome() : nullptr;
}

Millis Kernel::cpu() const {
  return instance_ ? instance_->cpu() : Millis(0);
}

void Kernel::signal(int number) {
  if (runs()) std::ignore = instance_->host().signal(number);
}

void Kernel::stop(std::string_view why) {
  if (!runs()) return;
  instance_->endFor(why);
  instance_->host().cancel();
}

std::string Kernel::sayLoss() {
  keeps_ = false;
  loss_.reset();
  return instance_ ? instance_->why() : std::string();
}

Task<void> Kernel::stopped() {
  const auto self = shared_from_this();
  const auto instance = instance_;
  while (instance && !instance->outcome())
    co_await changed_.wait();
}

void Kernel::abandon() {
  abandoned_ = true;
  stop(kSessionEnded);
  changed_.notify();
}

}  // namespace cloister::orchestrator
