// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/deps/layer_builder.h"

#include <algorithm>
#include <utility>

#include "base/json.h"
#include "model/image_name.h"
#include "model/shown_text.h"

namespace cloister::orchestrator {
namespace {

constexpr char kTier[] = "restricted";  // without a destination: the gateway alone
constexpr size_t kMostReport = size_t{64} << 20;
constexpr size_t kMostSaid = 600;
constexpr Millis kLook{1'000};  // between looks at a program whose log is silent
constexpr char kLayerDirectory[] = "layer";

// A tool that installs requirements into `layer/`, and the file with its list of the packages. The
// requirements are the script's arguments. The session's language tells policy which ecosystem the
// gateway may offer.
struct Installer {
  const char* language;
  const char* script;
  const char* report;
  Result<std::vector<model::LockedPackage>> (*lock)(std::string_view report);
};

// Compiled once here, since a layer is read-only; by hash, so that equal files give equal layers.
constexpr Installer kPip = {"python",
                            R"(set -eu
python3 -c 'import importlib.util, sys; sys.exit(not importlib.util.find_spec("pip"))' || {
  echo "ERROR: the image has no pip; have python3-pip installed" >&2; exit 3; }
mkdir -p layer/python
python3 -m pip install --quiet --no-input --disable-pip-version-check --no-cache-dir --no-compile \
  --only-binary :all: --target layer/python --report report.json -- "$@"
python3 -m compileall -q --invalidation-mode unchecked-hash layer/python >/dev/null || :
)",
                            "report.json", model::lockOfPip};

// The hidden lock has the packages that are there. package-lock.json also has optional ones that
// are for other machines.
constexpr Installer kNpm = {"node",
                            R"(set -eu
command -v npm >/dev/null || { echo "ERROR: the image has no npm; have npm installed" >&2; exit 3; }
mkdir -p layer
npm install --prefix layer --ignore-scripts --no-audit --no-fund --loglevel error \
  --cache /tmp/npm -- "$@" >/dev/null
if [ -f layer/node_modules/.package-lock.json ]
then mv layer/node_modules/.package-lock.json report.json
else echo '{"packages":{}}' >report.json; fi
rm -f layer/package.json layer/package-lock.json
)",
                            "report.json", model::lockOfNpm};

const Installer& installerOf(model::Ecosystem ecosystem) {
  return ecosystem == model::Ecosystem::kPypi ? kPip : kNpm;
}

// The service itself asks, for the tenant. Neither this tenant nor another reaches the installer: a
// layer may be shared.
model::Principal builderOf(const std::string& tenant) {
  return {.tenant = std::string(model::kInstallerTenant),
          .app = tenant,
          .agent = "",
          .user = "",
          .roles = {},
          .key_id = ""};
}

model::SessionRequest sessionFor(const model::LayerInputs& inputs, const BuildBounds& bounds) {
  model::SessionRequest request;
  model::RunRequest& settings = request.settings;
  settings.language = installerOf(inputs.ecosystem).language;
  settings.network.tier = kTier;
  settings.limits.wall = bounds.time;
  settings.limits.memory_bytes = bounds.memory_bytes;
  settings.limits.disk_bytes = bounds.disk_bytes;
  settings.metadata["builds"] = "dependency layer";
  if (const auto image = model::parseImageRef(inputs.image); image && !image->isHost()) {
    settings.image = image->name;
  }
  request.ttl = bounds.time + bounds.time / 2;
  request.idle_ttl = request.ttl;
  return request;
}

std::string lastOf(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r'))
    text.remove_suffix(1);
  return std::string(text.size() > kMostSaid ? text.substr(text.size() - kMostSaid) : text);
}

class Build {
 public:
  Build(Sessions& sessions, std::shared_ptr<Programs> programs, std::string tenant,
        model::LayerInputs inputs, BuildBounds bounds)
      : sessions_(sessions),
        programs_(std::move(programs)),
        by_(builderOf(tenant)),
        inputs_(std::move(inputs)),
        bounds_(bounds) {}

  Task<Result<model::DependencyLayer>> run() {
    auto made = co_await sessions_.create(by_, sessionFor(inputs_, bounds_), "");
    if (!made) co_return std::unexpected(std::move(made).error().within("installing deps"));
    session_ = made->id;
    if (made->status != model::SessionStatus::kRunning) {
      co_return fail(Code::kDenied,
                     "installing deps: the session that installs them has not begun");
    }
    auto layer = co_await install();
    std::ignore = co_await sessions_.end(by_, session_);
    co_return layer;
  }

 private:
  Task<Result<model::DependencyLayer>> install() {
    const Installer& installer = installerOf(inputs_.ecosystem);
    CO_TRY(co_await runScript(installer.script));
    model::DependencyLayer layer{.key = model::layerKey(inputs_),
                                 .tenant = inputs_.tenant,
                                 .maker = {},  // LayerService knows
                                 .ecosystem = inputs_.ecosystem,
                                 .deps = inputs_.deps,
                                 .digest = {},
                                 .size_bytes = 0,
                                 .files = 0,
                                 .packages = {},
                                 .made_at = base::wallMicros(),
                                 .used_at = base::wallMicros()};
    const std::string report = CO_TRY(co_await readFile(installer.report));
    layer.packages = CO_TRY(installer.lock(report));
    CO_TRY(co_await keep(layer));
    co_return layer;
  }

  // The output of the installer, and the packages that the network refused, explain a failure.
  Task<Result<>> runScript(const char* script) {
    model::ExecRequest request;
    std::vector<std::string> argv = {"bash", "-c", script, "bash"};
    argv.insert(argv.end(), inputs_.deps.begin(), inputs_.deps.end());
    request.run.command = std::move(argv);
    request.run.network.tier = kTier;  // so it has the variables that name the gateway
    request.run.limits.wall = bounds_.time;
    request.run.limits.memory_bytes = bounds_.memory_bytes;
    request.run.limits.disk_bytes = bounds_.disk_bytes;
    request.run.artifacts = {};
    auto begun = co_await sessions_.exec(by_, session_, std::move(request), "");
    if (!begun) co_return std::unexpected(std::move(begun).error().within("installing deps"));
    const auto log = programs_->findLog(by_, begun->id);
    if (!log) co_return fail(Code::kInternal, "installing deps: the installer is gone");
    while (!model::isTerminal(log->latest().status) && !log->closed())
      co_await log->wait(log->version(), kLook);
    const model::Execution& ended = log->latest();
    if (ended.status == model::Status::kCompleted && ended.exit_code == 0) co_return Result<>{};
    std::string why = lastOf(log->kept(model::Stream::kStderr, 0));
    if (ended.error) why = ended.error->message + (why.empty() ? "" : "\n" + why);
    for (const model::DeniedDestination& each : ended.network.denied)
      why +=
          "\n" + each.host + ": " + each.reason + (each.rule.empty() ? "" : " (" + each.rule + ")");
    const bool refused = !ended.network.denied.empty();
    co_return fail(refused ? Code::kDenied : Code::kInvalid,
                   "deps: they cannot be installed: " + model::safeText(why, 2 * kMostSaid),
                   "deps");
  }

  Task<Result<std::string>> readFile(const char* path) {
    const auto call = CO_TRY(co_await sessions_.files(
        by_, session_, {{"read", path, "0", std::to_string(kMostReport)}, false, ""}));
    const auto entry = CO_TRY(co_await call->entry());
    if (entry.size > kMostReport) {
      co_return fail(Code::kTooLarge, "installing deps: the installer's report is too large");
    }
    co_return co_await wholeOf(*call);
  }

  static Task<Result<std::string>> wholeOf(FileCall& call) {
    std::string whole;
    for (;;) {
      const std::string some = CO_TRY(co_await call.read());
      if (some.empty()) break;
      whole += some;
      if (whole.size() > kMostReport) co_return fail(Code::kTooLarge, "installing deps: too much");
    }
    CO_TRY(co_await call.finish());
    co_return whole;
  }

  Task<Result<>> keep(model::DependencyLayer& layer) {
    const std::string name =
        std::string(model::layerPlaceOf(layer.ecosystem)) + "-" + layer.key.substr(0, 40);
    const auto call = CO_TRY(co_await sessions_.keepLayer(by_, session_, name, kLayerDirectory));
    const std::string said = CO_TRY(co_await wholeOf(*call));
    const auto value = base::parseJson(said);
    const auto* made = value ? value->if_object() : nullptr;
    if (made == nullptr) co_return fail(Code::kInternal, "keeping a layer: the node says nothing");
    base::ObjectReader reader(*made, "");
    layer.digest = CO_TRY(reader.text("digest")).value_or("");
    layer.size_bytes =
        static_cast<uint64_t>(CO_TRY(reader.integer("size_bytes", 0, INT64_MAX)).value_or(0));
    layer.files = static_cast<uint64_t>(CO_TRY(reader.integer("files", 0, INT64_MAX)).value_or(0));
    if (!model::isImageDigest(layer.digest)) {
      co_return fail(Code::kInternal, "keeping a layer: the node names no digest");
    }
    co_return Result<>{};
  }

  Sessions& sessions_;
  std::shared_ptr<Programs> programs_;
  model::Principal by_;
  model::LayerInputs inputs_;
  BuildBounds bounds_;
  std::string session_;
};

}  // namespace

Task<Result<model::DependencyLayer>> buildLayer(Sessions& sessions,
                                                std::shared_ptr<Programs> programs,
                                                std::string tenant, model::LayerInputs inputs,
                                                BuildBounds bounds) {
  Build build(sessions, std::move(programs), std::move(tenant), std::move(inputs), bounds);
  co_return co_await build.run();
}

}  // namespace cloister::orchestrator
