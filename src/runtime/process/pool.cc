// SPDX-License-Identifier: Apache-2.0
#include "runtime/process/pool.h"

#include <sys/socket.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "linux/message.h"
#include "runtime/spawn.h"

namespace cloister::runtime {
namespace {

namespace asio = boost::asio;

// A program that was just started, and ends soon, is not held up.
constexpr auto kLull = std::chrono::milliseconds(10);

// Kinds that are remembered, besides those in use: each of a client's limits may make another.
constexpr size_t kMaxKinds = 64;

// What an interpreter takes to start, where it was started ahead.
constexpr auto kWarmUp = std::chrono::milliseconds(30);

// The descriptors that put a new process into `group`, and the spec told how many there are.
std::vector<int> groupFds(const linux::Cgroup* group, bool by_zygote, SandboxSpec& spec) {
  if (group == nullptr) return {};
  // A zygote is nobody to the kernel who could make processes in a cgroup (cgroup.h).
  spec.into_cgroup = !by_zygote && group->cloneFd() >= 0;
  if (spec.into_cgroup) return {group->cloneFd()};
  std::vector<int> fds = group->joinFds();
  spec.join_count = static_cast<uint32_t>(fds.size());
  return fds;
}

SpawnRequest requestOf(const SandboxSpec& spec) {
  SpawnRequest request;
  request.spec = spec;
  return request;
}

Task<void> bury(std::shared_ptr<Live> live) {
  std::ignore = co_await live->bury();
}

// The runner's first frame, or that of confine() saying what failed.
Task<Result<>> hello(Live& live) {
  const auto frame = co_await live.nextFrame();
  if (!frame) co_return fail(Code::kInternal, "no word from the runner: " + frame.error().message);
  wire::Reader r(frame->payload);
  const uint32_t number = r.u32();
  if (frame->type == wire::FromRunner::kHello && r.done() && number == 1) co_return Result<>();
  const std::string what(r.bytes());
  if (frame->type == wire::FromRunner::kStartFailed && r.done()) {
    co_return fail(Code::kInternal, what);
  }
  co_return fail(Code::kInternal, "the runner broke its protocol");
}

// As well as anything made ahead could.
bool serves(const Live* live, bool with_interpreter) {
  if (live == nullptr || !with_interpreter) return live != nullptr;
  if (live->ahead() == Live::Ahead::kCopied) return true;
  return live->ahead() == Live::Ahead::kAtFifo &&
         base::monotonicNow() - live->settledAt() >= kWarmUp;
}

}  // namespace

Pool::Pool(asio::any_io_executor executor, std::shared_ptr<ProcessHost> host)
    : executor_(std::move(executor)),
      host_(std::move(host)),
      zygotes_(std::make_shared<Zygotes>(executor_, host_)),
      made_(executor_),
      lull_(executor_),
      period_(executor_) {}

Task<Result<std::shared_ptr<Live>>> Pool::claim(model::Limits limits, std::string prestart) {
  const auto self = shared_from_this();
  Kind& kind = kindOf(limits, prestart);
  kind.limits = limits;
  kind.claims++;
  startPeriod();
  std::shared_ptr<Live> live = takeFor(kind);
  if (!serves(live.get(), !kind.key.empty()) && kind.claims > 1) {
    kind.wanted = std::min(kind.wanted + 1, host_->config().ready);
  }
  kind.waiting++;
  while (!live && kind.making >= kind.waiting) {
    co_await made_.wait();
    live = takeFor(kind);
  }
  kind.waiting--;
  if (live) {
    if (auto limited = live->limit(limits); !limited) {
      runtime::spawn(executor_, bury(live));
      co_return std::unexpected(std::move(limited).error().within("provisioning"));
    }
    co_return live;
  }
  auto made = co_await makeNow(kind, limits);
  if (!made && made.error().code == Code::kUnavailable && co_await giveUpOne()) {
    made = co_await makeNow(kind, limits);
  }
  co_return made;
}

Pool::Kind* Pool::find(const SandboxSpec& spec, const std::string& key) {
  const auto found = std::ranges::find_if(
      kinds_, [&](const Kind& kind) { return kind.key == key && kind.spec == spec; });
  return found == kinds_.end() ? nullptr : &*found;
}

Pool::Kind& Pool::kindOf(const model::Limits& limits, const std::string& key) {
  SandboxSpec spec = host_->planFor(limits, 0).spec;
  spec.ids = {};
  if (Kind* known = find(spec, key)) return *known;
  if (kinds_.size() >= kMaxKinds) {
    const auto idle = std::ranges::find_if(kinds_, &Kind::idle);
    if (idle != kinds_.end()) kinds_.erase(idle);
  }
  // What others of this key start is what it will.
  const auto like = std::ranges::find(kinds_, key, &Kind::key);
  Kind& kind = kinds_.emplace_back();
  kind.spec = spec;
  kind.key = key;
  if (!key.empty() && like != kinds_.end()) kind.prestart = like->prestart;
  return kind;
}

void Pool::learn(const model::Limits& limits, const std::string& key, Prestart prestart) {
  Kind& kind = kindOf(limits, key);
  if (!kind.prestart) kind.prestart = std::move(prestart);
}

// Where nothing was started ahead, anything can be; but a copy of a zygote is had sooner.
std::shared_ptr<Live> Pool::takeFor(Kind& kind) {
  auto live = take(kind);
  if (live || kind.key.empty() || zygotes_->has(kind.key)) return live;
  Kind* plain = find(kind.spec, "");
  return plain != nullptr ? take(*plain) : nullptr;
}

// One that is ready and still lives, in the root that is the present one.
std::shared_ptr<Live> Pool::take(Kind& kind) {
  while (!kind.ready.empty()) {
    auto live = std::move(kind.ready.front());
    kind.ready.pop_front();
    kind.fewest = std::min(kind.fewest, kind.ready.size());
    if (live->waiting() && live->root() == host_->spawner()) return live;
    runtime::spawn(executor_, bury(std::move(live)));
  }
  return nullptr;
}

void Pool::refill() {
  if (std::exchange(refilling_, true)) return;
  lull_.expires_after(kLull);
  lull_.async_wait([weak = weak_from_this()](const boost::system::error_code& error) {
    const auto self = weak.lock();
    if (!error && self) runtime::spawn(self->executor_, self->makeWanted());
  });
}

// The kind that has least of what it wants, if there is room for one more of it.
Pool::Kind* Pool::lacking() {
  Kind* poorest = nullptr;
  for (Kind& kind : kinds_) {
    const bool lacks = kind.ready.size() + kind.making < kind.wanted;
    if (lacks && (poorest == nullptr || kind.ready.size() < poorest->ready.size())) poorest = &kind;
  }
  return poorest == nullptr || makeRoomFor(*poorest) ? poorest : nullptr;
}

// Among kinds that want more than the bound together, each gets its share.
bool Pool::makeRoomFor(const Kind& kind) {
  if (ready() < host_->config().ready) return true;
  const auto richest =
      std::ranges::max_element(kinds_, {}, [](const Kind& each) { return each.ready.size(); });
  if (richest->ready.size() <= kind.ready.size() + 1) return false;
  richest->wanted--;
  runtime::spawn(executor_, bury(std::move(richest->ready.front())));
  richest->ready.pop_front();
  return true;
}

// One after the other, so that what runs is not starved.
Task<void> Pool::makeWanted() {
  const auto self = shared_from_this();
  while (Kind* kind = lacking()) {
    kind->making++;
    auto live = co_await makeAhead(*kind);
    kind->making--;
    if (live) {
      kind->ready.push_back(*std::move(live));
    } else {
      base::log(base::Level::kWarn, "no sandbox made ahead", {{"reason", live.error().message}});
      kind->wanted = 0;
    }
    made_.notify();
  }
  refilling_ = false;
}

const std::shared_ptr<SpawnQueue>& Pool::spawner() {
  if (!queue_ || queue_->spawner() != host_->spawner()) {
    queue_ = std::make_shared<SpawnQueue>(executor_, host_->spawner());
  }
  return queue_;
}

std::shared_ptr<SpawnQueue> Pool::zygoteFor(const Kind& kind) {
  return kind.prestart ? zygotes_->take(kind.key, *kind.prestart, spawner()) : nullptr;
}

// With a copy of the zygote, if there is one and it can.
Task<Result<std::shared_ptr<Live>>> Pool::makeNow(Kind& kind, model::Limits limits) {
  if (const auto zygote = zygoteFor(kind)) {
    auto live = co_await make(limits, zygote);
    if (live || live.error().code == Code::kUnavailable) co_return live;
    base::log(base::Level::kWarn, "no copy of a zygote", {{"reason", live.error().message}});
    zygotes_->giveUp(kind.key);
  }
  co_return co_await make(limits);
}

Task<Result<std::shared_ptr<Live>>> Pool::makeAhead(Kind& kind) {
  auto live = CO_TRY(co_await makeNow(kind, kind.limits));
  if (!kind.prestart || live->ahead() != Live::Ahead::kNone) co_return live;
  auto started = co_await startAhead(*live, *kind.prestart);
  if (started) co_return live;
  std::ignore = co_await live->bury();
  co_return std::unexpected(std::move(started).error());
}

// A ready one of any kind makes room for one that is asked for.
Task<bool> Pool::giveUpOne() {
  for (Kind& kind : kinds_) {
    if (const auto live = take(kind)) co_return (co_await live->bury()).has_value();
  }
  co_return false;
}

void Pool::drop() {
  for (Kind& kind : kinds_) {
    for (auto& live : std::exchange(kind.ready, {}))
      runtime::spawn(executor_, bury(std::move(live)));
  }
}

size_t Pool::ready() const {
  size_t count = 0;
  for (const Kind& kind : kinds_)
    count += kind.ready.size();
  return count;
}

void Pool::startPeriod() {
  if (std::exchange(in_period_, true)) return;
  period_.expires_after(host_->config().ready_idle);
  period_.async_wait([weak = weak_from_this()](const boost::system::error_code& error) {
    const auto self = weak.lock();
    if (error || !self) return;
    self->endPeriod();
  });
}

// What nobody asked for through the whole period is too many.
void Pool::endPeriod() {
  for (Kind& kind : kinds_) {
    kind.wanted -= std::min<uint32_t>(kind.wanted, static_cast<uint32_t>(kind.fewest));
    while (kind.ready.size() > kind.wanted) {
      runtime::spawn(executor_, bury(std::move(kind.ready.back())));
      kind.ready.pop_back();
    }
    if (std::exchange(kind.claims, 0) == 0 && kind.ready.empty()) kind.wanted = 0;
    kind.fewest = kind.ready.size();
  }
  kinds_.remove_if([](const Kind& kind) { return kind.wanted == 0 && kind.idle(); });
  zygotes_->dropIdle();
  in_period_ = false;
  if (!kinds_.empty() || !zygotes_->empty()) startPeriod();
}

Task<Result<std::shared_ptr<Live>>> Pool::make(model::Limits limits,
                                               std::shared_ptr<SpawnQueue> zygote) {
  const auto slot = host_->takeSlot();
  if (!slot) co_return fail(Code::kUnavailable, "provisioning: all sandboxes are in use");
  SandboxPlan plan = host_->planFor(limits, *slot);
  if (zygote) plan.spec.ids = host_->idsInZygote(*slot);
  const auto maker = zygote ? zygote->spawner() : host_->spawner();
  Live::Parts parts{host_, host_->spawner(), maker, nullptr, *slot, limits};
  if (host_->cgroups() != nullptr) {
    auto group = host_->cgroups()->create("sandbox-" + std::to_string(*slot), plan.cgroup);
    if (!group) {
      host_->returnSlot(*slot);
      co_return std::unexpected(std::move(group).error().within("provisioning"));
    }
    parts.group = *std::move(group);
  }
  const std::vector<int> groups = groupFds(parts.group.get(), zygote != nullptr, plan.spec);
  const auto live = std::make_shared<Live>(executor_, std::move(parts));
  auto started = co_await start(*live, plan.spec, groups, zygote);
  if (started) co_return live;
  std::ignore = co_await live->bury();
  co_return std::unexpected(std::move(started).error().within("starting the sandbox"));
}

Task<Result<>> Pool::start(Live& live, const SandboxSpec& spec, std::span<const int> groups,
                           const std::shared_ptr<SpawnQueue>& zygote) {
  auto [ours, theirs] = CO_TRY(linux::socketPair(SOCK_STREAM));
  std::vector<int> fds = {theirs.get()};
  fds.insert(fds.end(), groups.begin(), groups.end());
  Fd pidfd =
      CO_TRY(zygote ? co_await zygote->spawn(requestOf(spec), fds) : co_await spawn(spec, fds));
  live.adopt(std::move(pidfd), std::move(ours));
  theirs.reset();
  CO_TRY(co_await hello(live));
  if (zygote) CO_TRY(co_await adopt(live));
  live.settle();
  co_return Result<>();
}

Task<Result<Fd>> Pool::spawn(const SandboxSpec& spec, std::span<const int> fds) {
  for (bool again = true;; again = false) {
    const auto queue = spawner();
    auto pidfd = co_await queue->spawn(requestOf(spec), fds);
    if (pidfd || queue->spawner()->alive() || !again) co_return pidfd;
    // Others may have noticed, and replaced it, already.
    if (queue->spawner() == host_->spawner()) {
      base::log(base::Level::kError, "spawner lost, starting another");
      CO_TRY(host_->renew());
    }
  }
}

}  // namespace cloister::runtime
