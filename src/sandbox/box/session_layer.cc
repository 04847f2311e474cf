// SPDX-License-Identifier: Apache-2.0
#include "sandbox/box/session_layer.h"

#include <fcntl.h>

#include <utility>

#include "linux/paths.h"
#include "sandbox/box/node_exec.h"

namespace cloister::runtime {
namespace {

class MakeLayer final : public NodeExec {
 public:
  MakeLayer(std::shared_ptr<Live> live, std::shared_ptr<const LayerKeeper> layers, std::string name,
            std::string path, std::shared_ptr<void> place)
      : NodeExec(std::move(place)),
        live_(std::move(live)),
        layers_(std::move(layers)),
        name_(std::move(name)),
        path_(std::move(path)) {}

  Task<Result<model::Outcome>> run(ExecObserver& observer) override {
    const int64_t started_at = base::wallMicros();
    observer.onStarted();
    const Fd workspace = CO_TRY(co_await layers_->workspace(live_));
    // The workspace is hostile: no link in it is followed.
    const Fd place = linux::findInRoot(workspace.get(), path_, O_DIRECTORY, false);
    if (!place) co_return fail(Code::kNotFound, "making a layer: " + path_ + " is no directory");
    Fd directory(::openat(place.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!directory) co_return failErrno("making a layer: opening " + path_);
    auto made = co_await layers_->add(name_, std::move(directory));
    if (!made) co_return std::unexpected(std::move(made).error().within("making a layer"));
    if (cancelled()) co_return gone();
    co_await observer.onOutput(model::Stream::kStdout, base::toJson(*made));
    co_return succeeded(started_at);
  }

 private:
  std::shared_ptr<Live> live_;
  std::shared_ptr<const LayerKeeper> layers_;
  std::string name_;
  std::string path_;
};

}  // namespace

std::unique_ptr<Exec> makeLayer(std::shared_ptr<Live> live,
                                std::shared_ptr<const LayerKeeper> layers, std::string name,
                                std::string path, std::shared_ptr<void> place) {
  return std::make_unique<MakeLayer>(std::move(live), std::move(layers), std::move(name),
                                     std::move(path), std::move(place));
}

}  // namespace cloister::runtime
