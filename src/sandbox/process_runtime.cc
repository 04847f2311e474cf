// SPDX-License-Identifier: Apache-2.0
#include "sandbox/process_runtime.h"

#include <algorithm>
#include <map>
#include <tuple>

#include <boost/asio/any_io_executor.hpp>

#include "async/spawn.h"
#include "base/crypto.h"
#include "base/log.h"
#include "model/image_name.h"
#include "model/prestart.h"
#include "sandbox/box/live.h"
#include "sandbox/box/process_session.h"
#include "sandbox/box/run.h"
#include "sandbox/door/doors.h"
#include "sandbox/host/cpu_shares.h"
#include "sandbox/host/host.h"
#include "sandbox/image/image_place.h"
#include "sandbox/image/image_watch.h"
#include "sandbox/pool/pool.h"
#include "sandbox/pool/template.h"
#include "wire/node.h"

namespace cloister::runtime {
namespace {

namespace asio = boost::asio;

constexpr std::string_view kNoNetwork = "none";  // of model::kNetworkTiers

class ProcessSandbox : public Sandbox {
 public:
  // `env`: its image's.
  ProcessSandbox(std::shared_ptr<Live> live, SandboxInfo info, std::shared_ptr<Pool> pool,
                 std::vector<std::string> env, std::string prestart, Pool::Alike alike)
      : live_(std::move(live)),
        info_(std::move(info)),
        pool_(std::move(pool)),
        env_(std::move(env)),
        prestart_(std::move(prestart)),
        alike_(std::move(alike)) {}
  ProcessSandbox(const ProcessSandbox&) = delete;
  ProcessSandbox& operator=(const ProcessSandbox&) = delete;
  ~ProcessSandbox() override {
    live_->kill();
    async::spawn(live_->executor(), bury(live_));
  }

  [[nodiscard]] const SandboxInfo& info() const override { return info_; }

  Task<Result<model::Outcome>> exec(const model::ExecSpec& spec, ExecObserver& observer) override {
    if (env_.empty()) co_return co_await execIn(spec, observer);
    model::ExecSpec with_env = spec;
    model::addImageEnv(env_, with_env.env);
    co_return co_await execIn(with_env, observer);
  }

  void cancel() override {
    cancelled_ = true;
    if (run_) run_->stop(model::End::kCancelled);
  }

  Task<Result<>> teardown() override { co_return co_await live_->bury(); }

 private:
  Task<Result<model::Outcome>> execIn(const model::ExecSpec& spec, ExecObserver& observer) {
    if (run_) co_return fail(Code::kConflict, "running: the sandbox is running already");
    if (!prestart_.empty() && model::prestartKey(spec) != prestart_) {
      co_return fail(Code::kDenied, "running: the program is not what its permit starts ahead");
    }
    run_ = std::make_shared<Run>(live_, spec, observer, [pool = pool_] { pool->refill(); });
    if (!prestart_.empty()) pool_->learn(live_->limits(), alike_, prestartOf(spec));
    if (cancelled_) run_->stop(model::End::kCancelled);
    auto outcome = co_await run_->go();
    run_.reset();
    co_return outcome;
  }

  static Task<void> bury(std::shared_ptr<Live> live) { std::ignore = co_await live->bury(); }

  std::shared_ptr<Live> live_;
  SandboxInfo info_;
  std::shared_ptr<Pool> pool_;
  std::vector<std::string> env_;
  std::string prestart_;  // of the permit
  Pool::Alike alike_;
  std::shared_ptr<Run> run_;
  bool cancelled_ = false;
};

class ProcessRuntime : public Runtime {
 public:
  ProcessRuntime(const asio::any_io_executor& executor, std::shared_ptr<ProcessHost> host,
                 std::shared_ptr<ImageSource> images, NetworkParts network)
      : host_(std::move(host)),
        network_(std::move(network)),
        own_(hostPlace(executor, host_)),
        places_(std::make_shared<ImagePlaces>(executor, host_, own_, std::move(images))),
        cpu_shares_(std::make_shared<CpuShares>(executor)) {
    const auto changed = [own = own_] { renew(*own); };
    const ProcessConfig& config = host_->config();
    watch_ = std::make_shared<ImageWatch>(executor,
                                          ImageWatchConfig{.image_root = config.image_root,
                                                           .waited = config.require_verified,
                                                           .quiet = config.read_after,
                                                           .verify_every = config.verify_every},
                                          changed);
    watch_->start();
  }

  Task<Result<std::unique_ptr<Sandbox>>> provision(const model::SignedPermit& permit) override;
  Task<Result<base::json::object>> plan(const model::SignedPermit& permit) override;
  std::shared_ptr<const std::vector<model::OfferedImage>> images() override {
    return places_->offered();
  }
  [[nodiscard]] std::optional<model::ImageState> image() const override { return watch_->state(); }
  // Statistics for sandboxes of the node's own image without a guest; all others are few.
  [[nodiscard]] std::optional<model::PoolStats> pool() const override {
    return own_->kinds.at("process").pool->stats();
  }

 private:
  using Kind = ImagePlace::Kind;

  // A permit's image, place and kind on this node.
  struct Target {
    model::ImageRef image;
    std::shared_ptr<ImagePlace> place;
    const Kind* kind = nullptr;  // in the place
  };
  Result<Target> targetOf(const model::PermitFields& permit);
  Task<Result<ImageWatch::Now>> imageOf(const Target& target);
  static void renew(const ImagePlace& own);
  [[nodiscard]] Result<> checkNetwork(const model::PermitFields& permit, const Kind& kind) const;
  [[nodiscard]] std::string keepsNoMemory(const Kind& kind, const SandboxSpec& spec) const;
  void addMemory(const Kind& kind, const model::PermitFields& permit, const Pool::Alike& alike,
                 const ImageWatch::Now& image, SessionTraits& traits) const;

  std::shared_ptr<ProcessHost> host_;
  NetworkParts network_;
  std::shared_ptr<ImagePlace> own_;
  std::shared_ptr<ImagePlaces> places_;
  std::shared_ptr<ImageWatch> watch_;
  std::shared_ptr<CpuShares> cpu_shares_;
};

// Only a guest with its own kernel lets a session's programs have separate inner sandboxes.
Result<> checkNesting(const model::PermitFields& permit, const Guest* guest) {
  if (!permit.nested) return {};
  if (guest != nullptr && guest->nesting() != Guest::Nesting::kNone) return {};
  return fail(Code::kUnsupported, "provisioning: the runtime " + permit.runtime +
                                      " makes no sandboxes within its own; use gvisor or microvm");
}

Result<> ProcessRuntime::checkNetwork(const model::PermitFields& permit, const Kind& kind) const {
  if (permit.network_tier == kNoNetwork) return {};
  if (const std::string lack = kind.guest ? kind.guest->noNetwork() : ""; !lack.empty()) {
    return fail(Code::kUnsupported, "provisioning: the runtime " + permit.runtime +
                                        " has no network here: " + lack +
                                        "; use process, or the tier none");
  }
  if (network_.doors) return {};
  return fail(Code::kUnsupported,
              "provisioning: this node has no cloister-egress for the tier " + permit.network_tier);
}

// The network link that a sandbox with the permit is made with; 0: none.
Result<uint32_t> linkOf(const model::PermitFields& permit, const Guest* guest,
                        const std::string& pool) {
  if (guest == nullptr || permit.network_tier == kNoNetwork || !guest->linked()) return 0;
  return linkAddress(TRY(doorOrder(pool, {})));
}

// Gives a sandbox, in which no program has started, its network. Returns what is weaker about it.
Task<Result<std::vector<std::string>>> openNetwork(std::shared_ptr<Pool> pool,
                                                   std::shared_ptr<Live> live, NetworkParts network,
                                                   std::string permit, std::string plan_sha256) {
  // Every port of the synthetic network reaches cloister-egress: later plans may have other ports.
  const DoorOrder order = CO_TRY(doorOrder(network.pool, {}));
  DoorSockets sockets = CO_TRY(co_await pool->openDoor(live, order));
  std::vector<std::string> weakened = sockets.weakened;
  live->holdDoor(CO_TRY(co_await network.doors->attach(std::move(permit), std::move(plan_sha256),
                                                       std::move(sockets))));
  co_return weakened;
}

// The same for a permit with a network; the sandbox is removed after a failure.
Task<Result<std::vector<std::string>>> connectSandbox(std::shared_ptr<Pool> pool,
                                                      std::shared_ptr<Live> live,
                                                      NetworkParts network,
                                                      model::PermitFields permit) {
  if (permit.network_tier == kNoNetwork) co_return std::vector<std::string>();
  auto weakened = co_await openNetwork(std::move(pool), live, std::move(network), permit.id,
                                       permit.network_plan_sha256);
  if (weakened) co_return weakened;
  std::ignore = co_await live->bury();
  Error error = std::move(weakened).error().within("provisioning");
  if (error.code == Code::kUnavailable) error.code = Code::kInternal;  // the node is not lost
  co_return std::unexpected(std::move(error));
}

Result<ProcessRuntime::Target> ProcessRuntime::targetOf(const model::PermitFields& permit) {
  Target target{.image = TRY(model::parseImageRef(permit.image)), .place = own_};
  if (!target.image.isHost()) {
    auto place = places_->get(target.image.digest);
    if (!place) return std::unexpected(std::move(place).error().within("provisioning"));
    target.place = *std::move(place);
  }
  const auto kind = target.place->kinds.find(permit.runtime);
  if (kind == target.place->kinds.end()) {
    return fail(Code::kUnsupported, "provisioning: there is no runtime " + permit.runtime +
                                        (target.image.isHost() ? "" : " for such an image"));
  }
  target.kind = &kind->second;
  TRY(host_->checkDisk(permit.limits, target.kind->guest.get()));
  TRY(checkNesting(permit, target.kind->guest.get()));
  TRY(checkNetwork(permit, *target.kind));
  return target;
}

// The digest of the sandbox's root, which a guest may bring itself. The host's image has no digest
// until verified; waits for the digest if the operator requires one.
Task<Result<ImageWatch::Now>> ProcessRuntime::imageOf(const Target& target) {
  using Now = ImageWatch::Now;
  if (!target.image.isHost()) co_return Now{.digest = target.image.digest};
  const auto& guest = target.kind->guest;
  std::string own = guest ? guest->imageDigest() : std::string();
  if (!own.empty()) co_return Now{.digest = std::move(own)};
  Now now = watch_->now();
  if (now.digest.empty() && host_->config().require_verified) {
    now.digest = CO_TRY(co_await watch_->digest());
  }
  co_return now;
}

// Why the memory of such a session cannot be kept; "" if possible.
std::string ProcessRuntime::keepsNoMemory(const Kind& kind, const SandboxSpec& spec) const {
  if (!kind.guest) return "the runtime process keeps none; use gvisor";
  if (spec.nests) return "there are sandboxes within it";
  if (spec.on_disk) return "its workspace is on disk";
  if (spec.guest_link != 0) return "it has a network";
  return kind.guest->keepsNoMemory(host_->requestFor(spec, kind.guest.get()).rest.count == 0);
}

// An agent's share of processors covers all its sandboxes.
void addShare(CpuShares& shares, const model::PermitFields& permit,
              const std::shared_ptr<Live>& live) {
  if (permit.agent_cpu_millis == 0) return;
  live->shareCpu(shares, permit.tenant + '\0' + permit.agent, permit.agent_cpu_millis);
}

Task<Result<std::shared_ptr<Live>>> goOnSharing(std::shared_ptr<Pool> pool,
                                                model::PermitFields permit, Pool::Alike alike,
                                                std::shared_ptr<CpuShares> shares,
                                                std::shared_ptr<const MemoryImage> from) {
  auto live = CO_TRY(co_await pool->goOn(permit.limits, std::move(alike), std::move(from)));
  addShare(*shares, permit, live);
  co_return live;
}

// How the memory of a session is kept.
void ProcessRuntime::addMemory(const Kind& kind, const model::PermitFields& permit,
                               const Pool::Alike& alike, const ImageWatch::Now& image,
                               SessionTraits& traits) const {
  const auto& guest = kind.guest;
  SandboxPlan plan = host_->planFor(permit.limits, 0, guest.get());
  host_->addWalls(alike.walls, guest.get(), plan.spec);
  plan.spec.nests = alike.nests;
  plan.spec.guest_link = alike.link;
  traits.no_memory = keepsNoMemory(kind, plan.spec);
  if (!traits.no_memory.empty()) return;
  plan.spec.ids = {};
  const std::string built_in = base::sha256Hex(guest->shapeOf(plan.spec) + alike.walls);
  const auto pool = kind.pool;
  traits.memory = std::make_shared<MemoryKeeper>(MemoryKeeper{
      .keep = [pool](std::shared_ptr<Live> live) { return pool->keepMemory(std::move(live)); },
      .goOn =
          [pool, permit, alike, shares = cpu_shares_](std::shared_ptr<const MemoryImage> from) {
            return goOnSharing(pool, permit, alike, shares, std::move(from));
          },
      .made_of = {{"runtime", permit.runtime},
                  {"kernel", guest->kernelVersion()},
                  {"limits and walls", built_in}},
      .image = [watch = watch_, image] { return watch->verified(image); },
      .files = guest->imageFiles(),
      .most_bytes = plan.cgroup.memory_bytes});
}

Task<Result<std::unique_ptr<Sandbox>>> ProcessRuntime::provision(
    const model::SignedPermit& permit) {
  const model::PermitFields fields = CO_TRY(wire::decodePermit(permit.encoded));
  const Target target = CO_TRY(targetOf(fields));
  const Kind& of = *target.kind;
  const ImageWatch::Now image = CO_TRY(co_await imageOf(target));
  const std::vector<std::string> env = CO_TRY(places_->env(target.image));
  const bool nests = fields.nested && of.guest != nullptr;
  Pool::Alike alike{.key = fields.prestart,
                    .walls = fields.walls.none() ? "" : wire::encodeWalls(fields.walls),
                    .nests = nests && of.guest->nesting() == Guest::Nesting::kPrepared,
                    .link = CO_TRY(linkOf(fields, of.guest.get(), network_.pool))};
  if (!alike.key.empty() && host_->config().zygote_per_tenant) alike.key += "@" + fields.tenant;
  auto live = CO_TRY(co_await of.pool->claim(fields.limits, alike));
  auto weaker = CO_TRY(co_await connectSandbox(of.pool, live, network_, fields));
  live->watchLocks();
  addShare(*cpu_shares_, fields, live);
  SandboxInfo info{fields.runtime, host_->config().node, target.image.name, image.digest,
                   of.weakened};
  std::ranges::move(weaker, std::back_inserter(info.weakened));
  if (image.digest.empty()) info.weakened.emplace_back(model::kWeakerUnverified);
  if (live->resumed()) info.weakened.emplace_back(kWeakerFromTemplate);
  std::ranges::move(host_->weakenedWalls(fields.walls, of.guest.get()),
                    std::back_inserter(info.weakened));
  if (nests) std::ranges::copy(of.guest->weakenedWithin(), std::back_inserter(info.weakened));
  if (host_->onDisk(fields.limits)) info.weakened.emplace_back(kWeakerOnDisk);
  if (!fields.session_id.empty()) {
    of.pool->refill();  // no program may start there for long
    SessionTraits traits{env, nests, fields.walls.runs_own, fields.walls.writes,
                         fields.walls.writable.empty() ? "" : writablePayload(fields.walls)};
    // Without a door: the permit of a program in a sandbox of its own has the tier none.
    if (!of.guest) {
      traits.beside = [pool = of.pool, walls = alike.walls](std::shared_ptr<Live> session,
                                                            model::Limits limits) {
        return pool->makeBeside(std::move(session), limits, walls);
      };
    }
    addMemory(of, fields, alike, image, traits);
    co_return makeProcessSession(std::move(live), std::move(info), std::move(traits));
  }
  co_return std::make_unique<ProcessSandbox>(std::move(live), std::move(info), of.pool, env,
                                             fields.prestart, std::move(alike));
}

// After a change of the image: new sandboxes get a root made of the new files.
void ProcessRuntime::renew(const ImagePlace& own) {
  base::log(base::Level::kInfo, "image changed, making a new root");
  own.drop();
  if (auto renewed = own.spawner->root().renew(); !renewed) {
    base::log(base::Level::kError, "no new root", {{"error", renewed.error().message}});
  }
}

Task<Result<base::json::object>> ProcessRuntime::plan(const model::SignedPermit& permit) {
  const model::PermitFields fields = CO_TRY(wire::decodePermit(permit.encoded));
  const Target target = CO_TRY(targetOf(fields));
  base::json::object plan = host_->describePlan(fields.limits, fields.walls,
                                                target.kind->guest.get(), target.place->files.root);
  plan["image"] = target.image.name;
  const ImageWatch::Now image = CO_TRY(co_await imageOf(target));
  plan["image_digest"] = nullptr;
  if (!image.digest.empty()) plan["image_digest"] = image.digest;
  if (image.digest.empty()) plan["weakened"].as_array().emplace_back(model::kWeakerUnverified);
  co_return plan;
}

}  // namespace

std::unique_ptr<Runtime> makeProcessRuntime(asio::any_io_executor executor,
                                            std::shared_ptr<ProcessHost> host,
                                            std::shared_ptr<ImageSource> images,
                                            NetworkParts network) {
  return std::make_unique<ProcessRuntime>(std::move(executor), std::move(host), std::move(images),
                                          std::move(network));
}

}  // namespace cloister::runtime
