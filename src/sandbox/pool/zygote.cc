// SPDX-License-Identifier: Apache-2.0
#include "sandbox/pool/zygote.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <utility>

#include "async/spawn.h"
#include "base/log.h"
#include "linux/message.h"
#include "sandbox/host/zygote_files.h"

namespace cloister::runtime {
namespace {

namespace asio = boost::asio;

// The longest pause before another zygote is tried, after several failed to start or were lost.
constexpr base::Millis kLongestPause{60'000};
constexpr uint32_t kMostFailed = 64;

// Variables by which the interpreter finds the files in its /workspace.
Result<ZygotePlan> planOf(const ZygoteConfig& config, const Prestart& prestart) {
  ZygotePlan plan;
  plan.argv = prestart.argv;
  plan.env = prestart.env;
  plan.env.emplace_back("PYTHONPATH=/workspace");
  plan.files = TRY(zygoteFiles(config));
  return plan;
}

}  // namespace

Zygotes::Zygotes(asio::any_io_executor executor, std::shared_ptr<ProcessHost> host)
    : executor_(std::move(executor)), host_(std::move(host)) {}

Zygotes::Zygote* Zygotes::known(const std::string& key) {
  const auto found = std::ranges::find(zygotes_, key, &Zygote::key);
  return found == zygotes_.end() ? nullptr : &*found;
}

// Whether the zygote lives and has the current root.
bool Zygotes::serves(const Zygote& zygote) const {
  return zygote.queue && zygote.queue->spawner()->alive() && zygote.spawner == host_->spawner();
}

bool Zygotes::has(const std::string& key) {
  const Zygote* zygote = known(key);
  return zygote != nullptr && serves(*zygote);
}

uint32_t Zygotes::standing() const {
  return static_cast<uint32_t>(
      std::ranges::count_if(zygotes_, [this](const Zygote& zygote) { return serves(zygote); }));
}

std::shared_ptr<SpawnQueue> Zygotes::take(const std::string& key, const Prestart& prestart,
                                          const std::shared_ptr<SpawnQueue>& spawner) {
  const ProcessConfig& config = host_->config();
  if (known(key) == nullptr) {
    const bool possible = std::ranges::find(config.interpreters, prestart.argv,
                                            &ZygoteConfig::argv) != config.interpreters.end();
    if (!possible || zygotes_.size() >= config.zygotes) return nullptr;
    zygotes_.emplace_back().key = key;
  }
  Zygote& zygote = *known(key);
  zygote.asked = true;
  if (zygote.queue && !zygote.queue->spawner()->alive()) giveUp(zygote);
  if (!serves(zygote)) zygote.queue = nullptr;
  const bool wanted = !zygote.queue || zygote.copies >= config.zygote_copies;
  if (wanted && !zygote.starting && base::monotonicNow() >= zygote.not_before) {
    zygote.starting = true;
    async::spawn(executor_, start(key, prestart, spawner));
  }
  if (zygote.queue) zygote.copies++;
  return zygote.queue;
}

void Zygotes::told(const std::string& key, const SpawnQueue& queue, bool copied) {
  Zygote* zygote = known(key);
  if (zygote == nullptr || zygote->queue.get() != &queue) return;  // another has its place by now
  if (copied) {
    zygote->failed = 0;
    zygote->pause = kFirstPause;
  } else if (!queue.spawner()->alive() || ++zygote->failed >= kMostFailed) {
    giveUp(*zygote);
  }
}

void Zygotes::giveUp(Zygote& zygote) {
  zygote.queue = nullptr;
  zygote.failed = 0;
  postpone(zygote);
}

void Zygotes::postpone(Zygote& zygote) {
  zygote.not_before = base::monotonicNow() + zygote.pause;
  zygote.pause = std::min(zygote.pause * 2, kLongestPause);
}

void Zygotes::dropIdle() {
  zygotes_.remove_if(
      [](Zygote& zygote) { return !std::exchange(zygote.asked, false) && !zygote.starting; });
}

Task<void> Zygotes::start(std::string key, Prestart prestart, std::shared_ptr<SpawnQueue> spawner) {
  const auto self = shared_from_this();
  const auto config =
      std::ranges::find(host_->config().interpreters, prestart.argv, &ZygoteConfig::argv);
  const std::shared_ptr<Spawner> maker = spawner->spawner();
  auto made = co_await make(*config, prestart, *spawner);
  Zygote& zygote = *known(key);  // stays in the list while starting
  zygote.starting = false;
  if (made) {
    zygote.queue = *std::move(made);
    zygote.spawner = maker;
    zygote.copies = 0;
    co_return;
  }
  postpone(zygote);
  base::log(base::Level::kWarn, "no zygote",
            {{"program", prestart.argv.front()}, {"reason", made.error().message}});
}

Task<Result<std::shared_ptr<SpawnQueue>>> Zygotes::make(const ZygoteConfig& config,
                                                        const Prestart& prestart,
                                                        SpawnQueue& spawner) {
  const ZygotePlan files = CO_TRY(planOf(config, prestart));
  const Fd plan = CO_TRY(host_->zygotePlan(files, *spawner.spawner()));
  auto [ours, theirs] = CO_TRY(linux::socketPair(SOCK_SEQPACKET));
  if (::fcntl(ours.get(), F_SETFL, O_NONBLOCK) != 0) {
    co_return std::unexpected(base::errnoError("fcntl O_NONBLOCK", errno));
  }
  const int fds[] = {theirs.get(), plan.get()};
  Fd pidfd = CO_TRY(co_await spawner.spawn(host_->zygoteRequest(), fds));
  theirs.reset();
  const auto zygote = std::make_shared<Spawner>(std::move(ours), std::move(pidfd));
  const auto queue =
      std::make_shared<SpawnQueue>(executor_, zygote, host_->config().spawn_patience);
  CO_TRY(co_await queue->ready());
  co_return queue;
}

}  // namespace cloister::runtime
