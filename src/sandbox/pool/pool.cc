// SPDX-License-Identifier: Apache-2.0
#include "sandbox/pool/pool.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "async/spawn.h"
#include "base/clock.h"
#include "base/log.h"
#include "confine/apply_walls.h"
#include "linux/message.h"
#include "model/escalation.h"
#include "wire/node.h"

namespace cloister::runtime {
namespace {

namespace asio = boost::asio;

// Kinds remembered besides kinds in use: each set of limits of a client may make another.
constexpr size_t kMaxKinds = 64;

// kGuestLull replaces kLull with a guest: starting a kernel takes two processors, and a program
// just started in a guest runs longer.
constexpr std::chrono::milliseconds kGuestLull{60};

// Attempts for guests that fail by chance.
constexpr int kMostBoots = 3;

// Time for an interpreter started ahead to get ready.
constexpr auto kWarmUp = std::chrono::milliseconds(30);

// From where the runner is, or was to be.
Task<Result<>> hello(Live& live) {
  const auto frame = co_await live.nextFrame();
  if (!frame) co_return fail(Code::kInternal, "no word from the runner: " + frame.error().message);
  co_return checkHello(*frame);
}

// Tells the runner which further paths its programs may change. An order sent before a program's
// start applies to the program.
Task<Result<>> openPlaces(Live& live, const std::string& encoded) {
  const model::Walls walls = CO_TRY(wire::decodeWalls(encoded));
  if (walls.writable.empty()) co_return Result<>();
  co_return co_await live.channel().write(
      frameOf(wire::ToRunner::kWritable, 0, writablePayload(walls)));
}

// The descriptors of a guest's request, and the other ends of its pipe of complaints and of what
// its VMM is told by.
struct GuestFiles {
  std::vector<Fd> theirs;
  Fd complaints;
  Fd orders;
};

Result<GuestFiles> guestFiles(const Guest* guest, const SandboxSpec& spec, const std::string& walls,
                              const Template* from, const MemoryImage* image) {
  GuestFiles files;
  if (guest == nullptr) return files;
  if (image != nullptr) {
    files.theirs = TRY(guest->filesFrom(spec, walls, *image));
  } else if (from != nullptr) {
    Guest::Ordered ordered = TRY(guest->filesWith(spec, *from));
    files.theirs = std::move(ordered.files);
    files.orders = std::move(ordered.orders);
  } else {
    files.theirs = TRY(guest->files(spec, walls));
  }
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return failErrno("pipe2");
  files.complaints.reset(ends[0]);
  files.theirs.emplace_back(ends[1]);
  return files;
}

// The properties built into a sandbox, equal for all slots except the user ids.
SandboxSpec specOf(const ProcessHost& host, const model::Limits& limits, const Pool::Alike& alike,
                   const Guest* guest) {
  SandboxSpec spec = host.planFor(limits, 0, guest).spec;
  host.addWalls(alike.walls, guest, spec);
  spec.nests = alike.nests;
  spec.guest_link = alike.link;
  spec.ids = {};
  return spec;
}

// Start with at least the default limits and apply tighter limits afterwards, so that a small CPU
// limit does not stall the shared zygote.
model::Limits toStartIn(model::Limits limits) {
  constexpr model::Limits kUsual;
  limits.memory_bytes = std::max(limits.memory_bytes, kUsual.memory_bytes);
  limits.cpu_millis = std::max(limits.cpu_millis, kUsual.cpu_millis);
  return limits;
}

// As well as anything made ahead could.
bool serves(const Live* live, bool with_interpreter) {
  if (live == nullptr || !with_interpreter) return live != nullptr;
  if (live->ahead() == Live::Ahead::kCopied) return true;
  return live->ahead() == Live::Ahead::kAtFifo &&
         base::monotonicNow() - live->settledAt() >= kWarmUp;
}

}  // namespace

Pool::Pool(asio::any_io_executor executor, std::shared_ptr<ProcessHost> host,
           std::shared_ptr<PresentQueue> spawner, std::shared_ptr<const Guest> guest)
    : executor_(std::move(executor)),
      host_(std::move(host)),
      spawner_(std::move(spawner)),
      guest_(std::move(guest)),
      groups_(std::make_shared<Groups>(executor_, host_)),
      zygotes_(std::make_shared<Zygotes>(executor_, host_)),
      made_(executor_),
      pressure_(host_->config().pressure),
      watch_(executor_),
      lull_(executor_),
      period_(executor_) {}

Task<Result<std::shared_ptr<Live>>> Pool::claim(model::Limits limits, Alike alike) {
  const auto self = shared_from_this();
  const auto asked = base::monotonicNow();
  auto how = model::Served::kReady;
  Kind& kind = kindOf(limits, alike);
  kind.serving++;
  auto live = co_await serve(kind, limits, how);
  kind.serving--;
  if (live) {
    counts_.served[static_cast<size_t>(how)]++;
    counts_.claim.add(base::monotonicNow() - asked);
  } else {
    counts_.failed++;
  }
  co_return live;
}

Task<Result<std::shared_ptr<Live>>> Pool::serve(Kind& kind, model::Limits limits,
                                                model::Served& how) {
  kind.limits = limits;
  kind.claims++;
  kind.used++;
  kind.failed = false;
  startPeriod();
  std::shared_ptr<Live> live = takeFor(kind);
  if (!serves(live.get(), !kind.alike.key.empty()) && kind.claims > 1) {
    kind.wanted = std::min(kind.wanted + 1, mostReady());
  }
  kind.waiting++;
  while (!live && kind.making >= kind.waiting) {
    how = model::Served::kAwaited;
    co_await made_.wait();
    live = takeFor(kind);
  }
  kind.waiting--;
  if (!live) {
    auto made = co_await makeNow(kind, limits);
    while (!made && made.error().code == Code::kUnavailable && co_await makeRoom()) {
      made = co_await makeNow(kind, limits);
    }
    live = CO_TRY(std::move(made));
    const bool copied = live->ahead() == Live::Ahead::kCopied;
    how = copied ? model::Served::kCopied : model::Served::kMade;
  }
  if (auto limited = live->limit(limits); !limited) {
    async::spawn(executor_, discard(live));
    co_return std::unexpected(std::move(limited).error().within("provisioning"));
  }
  co_return live;
}

Pool::Kind* Pool::find(const SandboxSpec& spec, const Alike& alike) {
  const auto found = std::ranges::find_if(
      kinds_, [&](const Kind& kind) { return kind.alike == alike && kind.spec == spec; });
  return found == kinds_.end() ? nullptr : &*found;
}

Pool::Kind& Pool::kindOf(const model::Limits& limits, const Alike& alike) {
  const SandboxSpec spec = specOf(*host_, limits, alike, guest_.get());
  if (Kind* known = find(spec, alike)) return *known;
  if (kinds_.size() >= kMaxKinds) {
    const auto idle = std::ranges::find_if(kinds_, &Kind::idle);
    if (idle != kinds_.end()) kinds_.erase(idle);
  }
  // Sandboxes with the same key start the same program.
  const auto like =
      std::ranges::find_if(kinds_, [&](const Kind& other) { return other.alike.key == alike.key; });
  Kind& kind = kinds_.emplace_back();
  kind.spec = spec;
  kind.alike = alike;
  model::Limits usual;
  model::settle(usual);
  kind.default_limits = spec == specOf(*host_, usual, alike, guest_.get());
  if (!alike.key.empty() && like != kinds_.end()) kind.prestart = like->prestart;
  return kind;
}

void Pool::learn(const model::Limits& limits, const Alike& alike, Prestart prestart) {
  Kind& kind = kindOf(limits, alike);
  if (!kind.prestart) kind.prestart = std::move(prestart);
}

// A sandbox without a prestarted program suits any program; but copying a zygote is faster.
std::shared_ptr<Live> Pool::takeFor(Kind& kind) {
  auto live = take(kind);
  const bool copies = kind.alike.walls.empty() && zygotes_->has(kind.alike.key);
  if (live || kind.alike.key.empty() || copies) return live;
  Kind* plain = find(
      kind.spec, {.walls = kind.alike.walls, .nests = kind.alike.nests, .link = kind.alike.link});
  return plain != nullptr ? take(*plain) : nullptr;
}

// A ready and living sandbox in the current root.
std::shared_ptr<Live> Pool::take(Kind& kind) {
  while (!kind.ready.empty()) {
    auto live = std::move(kind.ready.front());
    kind.ready.pop_front();
    kind.fewest = std::min(kind.fewest, kind.ready.size());
    const bool dead = !live->waiting();
    if (!dead && live->root() == spawner_->root().spawner()) return live;
    if (dead) counts_.dead++;
    async::spawn(executor_, discard(std::move(live)));
  }
  return nullptr;
}

void Pool::refill() {
  if (std::exchange(refilling_, true)) return;
  lull_.expires_after(guest_ ? kGuestLull : kLull);
  lull_.async_wait([weak = weak_from_this()](const boost::system::error_code& error) {
    const auto self = weak.lock();
    if (!error && self) async::spawn(self->executor_, self->makeWanted());
  });
}

uint32_t Pool::mostReady() const {
  return guest_ ? guest_->ready() : host_->config().ready;
}

// Number of ready sandboxes to keep, by demand or by the floor.
uint32_t Pool::target(const Kind& kind) const {
  if (kind.spec.on_disk) return 0;
  const uint32_t floor = kind.failed ? 0 : std::min(host_->config().ready_floor, mostReady());
  return std::max(kind.wanted, floor);
}

bool Pool::lacks(const Kind& kind) const {
  return kind.ready.size() + kind.making < target(kind);
}

bool Pool::lacksAny() const {
  return std::ranges::any_of(kinds_, [this](const Kind& kind) { return lacks(kind); });
}

// Whether a sandbox is to be made without another program's start: for the floor, or postponed
// before.
bool Pool::owes() const {
  return (kept_back_ || host_->config().ready_floor > 0) && lacksAny();
}

// The kind with the fewest ready sandboxes below its target, if there is room for another. A kind
// without recent claims displaces no others.
Pool::Kind* Pool::lacking() {
  const bool full = ready() >= mostReady();
  Kind* poorest = nullptr;
  for (Kind& kind : kinds_) {
    if (!lacks(kind) || (full && kind.used == 0)) continue;
    if (poorest == nullptr || kind.ready.size() < poorest->ready.size()) poorest = &kind;
  }
  return poorest == nullptr || makeRoomFor(*poorest) ? poorest : nullptr;
}

// Kinds whose targets together exceed the bound share the ready sandboxes evenly.
bool Pool::makeRoomFor(const Kind& kind) {
  if (ready() < mostReady()) return true;
  const auto richest =
      std::ranges::max_element(kinds_, {}, [](const Kind& each) { return each.ready.size(); });
  if (richest->ready.size() > kind.ready.size() + 1) {
    richest->wanted -= std::min(richest->wanted, 1U);
    giveUpOldest(*richest);
    return true;
  }
  Kind* least = leastUsed();
  if (least == nullptr || least->used > 0 || least == &kind) return false;
  giveUpOldest(*least);
  return true;
}

// The least used kind with a ready sandbox; nullptr if none.
Pool::Kind* Pool::leastUsed() {
  Kind* least = nullptr;
  for (Kind& kind : kinds_) {
    if (!kind.ready.empty() && (least == nullptr || kind.used < least->used)) least = &kind;
  }
  return least;
}

void Pool::giveUpOldest(Kind& kind) {
  async::spawn(executor_, discard(std::move(kind.ready.front())));
  kind.ready.pop_front();
  kind.fewest = std::min(kind.fewest, kind.ready.size());
}

// Makes sandboxes sequentially, so that running programs are not starved.
Task<void> Pool::makeWanted() {
  const auto self = shared_from_this();
  while (Kind* kind = heldBack() ? nullptr : lacking()) {
    kind->making++;
    const auto begun = base::monotonicNow();
    auto live = co_await makeAhead(*kind);
    kind->making--;
    if (live) {
      kind->ready.push_back(*std::move(live));
      counts_.refill.add(base::monotonicNow() - begun);
    } else {
      base::log(base::Level::kWarn, "no sandbox made ahead", {{"reason", live.error().message}});
      kind->wanted = 0;
      kind->failed = true;
    }
    made_.notify();
  }
  refilling_ = false;
  if (owes() || ready() > 0) watch();
}

// Whether programs inside see the whole root made by the spawner.
bool Pool::hasWholeRoot(const Kind& kind) const {
  return !guest_ && kind.alike.walls.empty();
}

bool Pool::showsAhead(const Kind& kind) const {
  return kind.alike.walls.empty() && (!guest_ || guest_->showsAhead());
}

// The program to start ahead in sandboxes of `kind`, with its language's variables.
Prestart Pool::aheadFor(const Kind& kind) const {
  Prestart prestart = *kind.prestart;
  if (!showsAhead(kind)) return prestart;
  if (guest_ && host_->waitsAlone(prestart.argv, prestart.env)) {
    prestart.env.push_back("PYTHONPATH=/" + std::string(kAhead));
  }
  const auto& languages = host_->config().languages;
  const auto known = std::ranges::find(languages, prestart.argv, &LanguageCommand::argv);
  if (known == languages.end()) return prestart;
  constexpr std::string_view kFile = "{file}";
  for (std::string variable : known->ahead_env) {
    if (const size_t at = variable.find(kFile); at != std::string::npos) {
      variable.replace(at, kFile.size(), "/" + std::string(kAhead) + "/" + known->language);
    }
    prestart.env.push_back(std::move(variable));
  }
  return prestart;
}

std::shared_ptr<SpawnQueue> Pool::zygoteFor(const Kind& kind) {
  // A zygote's copy has the confinement of its zygote: no rules, and no disk.
  if (!kind.prestart || !hasWholeRoot(kind) || kind.spec.on_disk) return nullptr;
  return zygotes_->take(kind.alike.key, *kind.prestart, spawner_->get());
}

// Copies the zygote if possible; else resumes a template, or boots.
Task<Result<std::shared_ptr<Live>>> Pool::makeNow(Kind& kind, model::Limits limits) {
  if (const auto zygote = zygoteFor(kind)) {
    const std::string key = kind.alike.key;
    How by{.zygote = zygote};
    auto live = co_await make(limits, {}, by);
    zygotes_->told(key, *zygote, live.has_value());
    if (live) counts_.copies++;
    if (live || live.error().code == Code::kUnavailable) co_return live;
    base::log(base::Level::kWarn, "no copy of a zygote", {{"reason", live.error().message}});
  }
  if (auto resumed = co_await resume(kind, limits); !resumed || *resumed) co_return resumed;
  How how;
  co_return co_await boot(limits, kind.alike, how);
}

// No program has run in a guest that fails by chance, so boot another.
Task<Result<std::shared_ptr<Live>>> Pool::boot(model::Limits limits, const Alike& alike, How& how) {
  for (int boots = 1;; ++boots) {
    auto live = co_await make(limits, alike, how);
    if (live || !how.by_chance) co_return live;
    if (boots == kMostBoots) {
      live.error().message += "; none of " + std::to_string(boots) + " has booted";
      co_return live;
    }
    base::log(base::Level::kWarn, "booting another one", {{"reason", live.error().message}});
  }
}

Task<Result<std::shared_ptr<Live>>> Pool::makeAhead(Kind& kind) {
  co_await keepTemplate(kind);
  auto live = CO_TRY(co_await makeNow(kind, kind.limits));
  live->settle();
  live->settleIo();
  if (!kind.prestart || live->ahead() != Live::Ahead::kNone) co_return live;
  auto started = co_await startAhead(*live, aheadFor(kind));
  live->settleIo();
  if (started) co_return live;
  std::ignore = co_await live->bury();
  co_return std::unexpected(std::move(started).error());
}

// Frees a slot: removes a ready sandbox of any kind, or waits for a sandbox being made or removed.
// False if there is none, and all slots are in use.
Task<bool> Pool::makeRoom() {
  const auto self = shared_from_this();
  for (Kind& kind : kinds_) {
    if (const auto live = take(kind)) co_return (co_await live->bury()).has_value();
  }
  const auto making = std::ranges::any_of(kinds_, [](const Kind& kind) { return kind.making > 0; });
  if (!making && discarding_ == 0) co_return false;
  co_await made_.wait();
  co_return true;
}

Task<void> Pool::discard(std::shared_ptr<Live> live) {
  const auto self = shared_from_this();
  discarding_++;
  std::ignore = co_await live->bury();
  discarding_--;
  made_.notify();
}

void Pool::drop() {
  forgetTemplates();
  for (Kind& kind : kinds_) {
    for (auto& live : std::exchange(kind.ready, {}))
      async::spawn(executor_, discard(std::move(live)));
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

// Sandboxes unclaimed through the whole period are too many.
void Pool::endPeriod() {
  for (Kind& kind : kinds_) {
    kind.wanted -= std::min<uint32_t>(kind.wanted, static_cast<uint32_t>(kind.fewest));
    kind.failed = false;
    kind.used /= 2;
    while (kind.ready.size() > target(kind)) {
      async::spawn(executor_, discard(std::move(kind.ready.back())));
      kind.ready.pop_back();
    }
    if (std::exchange(kind.claims, 0) == 0 && kind.ready.empty()) kind.wanted = 0;
    kind.fewest = kind.ready.size();
  }
  kinds_.remove_if([this](const Kind& kind) { return target(kind) == 0 && kind.idle(); });
  zygotes_->dropIdle();
  in_period_ = false;
  if (!kinds_.empty() || !zygotes_->empty()) startPeriod();
}

Task<Result<std::shared_ptr<Live>>> Pool::make(model::Limits limits, Alike alike, How& how) {
  const auto zygote = how.zygote;
  const auto slot = host_->takeSlot();
  if (!slot) co_return fail(Code::kUnavailable, "provisioning: all sandboxes are in use");
  SandboxPlan plan = host_->planFor(limits, *slot, guest_.get());
  host_->addWalls(alike.walls, guest_.get(), plan.spec);
  plan.spec.nests = alike.nests;
  plan.spec.guest_link = alike.link;
  plan.spec.guest_begins = how.begins;
  if (zygote) plan.spec.ids = host_->idsInZygote(*slot);
  const auto maker = zygote ? zygote->spawner() : spawner_->root().spawner();
  const model::Limits roomy = toStartIn(limits);
  linux::CgroupLimits room = host_->planFor(roomy, *slot, guest_.get()).cgroup;
  if (how.begins == Beginning::kKept) room.memory_bytes += guest_->keepingBytes(plan.spec);
  auto group = groups_->take(room);
  if (!group) {
    host_->returnSlot(*slot);
    co_return std::unexpected(std::move(group).error().within("provisioning"));
  }
  Live::Parts parts{host_,
                    spawner_->root().spawner(),
                    maker,
                    *std::move(group),
                    *slot,
                    roomy,
                    guest_,
                    how.begins == Beginning::kResumes,
                    host_->config().runner_patience};
  const std::vector<int> groups = groupFds(parts.group.get(), zygote != nullptr, plan.spec);
  const auto live = std::make_shared<Live>(executor_, std::move(parts));
  auto started = co_await start(*live, plan.spec, alike.walls, groups, how);
  if (started) co_return live;
  how.by_chance = live->failedByChance();
  std::ignore = co_await live->bury();
  Error error = std::move(started).error().within("starting the sandbox");
  if (error.code == Code::kUnavailable) error.code = Code::kInternal;  // a slot was free
  co_return std::unexpected(std::move(error));
}

Task<Result<>> Pool::start(Live& live, const SandboxSpec& spec, const std::string& walls,
                           std::span<const int> groups, How& how) {
  const auto zygote = how.zygote;
  auto [ours, theirs] = CO_TRY(linux::socketPair(SOCK_STREAM));
  std::vector<int> fds = {theirs.get()};
  GuestFiles files = CO_TRY(guestFiles(guest_.get(), spec, walls, how.from.get(), how.image.get()));
  for (const Fd& file : files.theirs)
    fds.push_back(file.get());
  const Fd sealed = spec.walled ? CO_TRY(sealWalls(walls)) : Fd();
  if (sealed) fds.push_back(sealed.get());
  if (spec.on_disk) fds.push_back(CO_TRY(co_await live.takeDisk(spec)));
  if (spec.shares) fds.push_back(how.workspace.get());
  fds.insert(fds.end(), groups.begin(), groups.end());
  Fd pidfd = CO_TRY(zygote ? co_await zygote->spawn(host_->requestFor(spec, nullptr), fds)
                           : co_await spawn(spec, fds));
  live.adopt(std::move(pidfd), std::move(ours));
  theirs.reset();
  files.theirs.clear();
  how.workspace.reset();
  live.hear(std::move(files.complaints));
  how.orders = std::move(files.orders);
  if (how.image) CO_TRY(co_await live.channel().write(frameOf(wire::ToRunner::kGoOn, 0)));
  if (auto said = co_await (live.resumed() ? wake(live) : hello(live)); !said) {
    co_return fail(said.error().code, live.lost(said.error().message));
  }
  if (zygote) CO_TRY(co_await adopt(live));
  if (!walls.empty()) CO_TRY(co_await openPlaces(live, walls));
  co_return Result<>();
}

Task<Result<Fd>> Pool::spawn(const SandboxSpec& spec, std::span<const int> fds) {
  for (bool again = true;; again = false) {
    const auto queue = spawner_->get();
    auto pidfd = co_await queue->spawn(host_->requestFor(spec, guest_.get()), fds);
    if (pidfd || queue->spawner()->alive() || !again) co_return pidfd;
    // Another coroutine may already have noticed and replaced the spawner.
    if (queue->spawner() == spawner_->root().spawner()) {
      base::log(base::Level::kError, "spawner lost, starting another",
                {{"reason", pidfd.error().message}});
      CO_TRY(spawner_->root().renew());
    }
  }
}

}  // namespace cloister::runtime
