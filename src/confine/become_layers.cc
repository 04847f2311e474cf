// SPDX-License-Identifier: Apache-2.0
#include "confine/become_layers.h"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "confine/mount_plan.h"
#include "linux/message.h"
#include "linux/mounts.h"
#include "linux/paths.h"
#include "linux/process.h"

namespace cloister::runtime {
namespace {

// Indices of the birth's descriptors.
constexpr size_t kLayersAnswer = 0;
constexpr size_t kLayersSandbox = 1;

const LayerPlaceNames& namesOf(const LayerOrder::Layer& layer) {
  return kLayerPlaceNames[static_cast<size_t>(layer.place)];
}

// Whether the link at the sandbox's root leads into the layer.
bool isLinked(const LayerPlaceNames& names) {
  if (names.link.empty()) return true;
  const std::string link = "/" + std::string(names.link);
  char found[64];
  const ssize_t length = ::readlink(link.c_str(), found, sizeof found);
  return length > 0 &&
         std::string_view(found, static_cast<size_t>(length)) == std::string(names.target) + link;
}

// Through overlayfs, so that mountinfo names no place of the host, and watches and locks reveal no
// other sandbox. Without overlayfs a plain read-only mount. A layer's content is hostile: no link
// in it is followed.
Result<Fd> mountOf(const LayerOrder::Layer& layer) {
  const std::string tree =
      "sha256-" + std::string(layer.digest.data(), layer.digest.size()) + "/root";
  const Fd store(::open((std::string("/") + kLayersMount).c_str(),
                        O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!store) return failErrno("opening the store of layers");
  const std::string within = tree + "/" + std::string(namesOf(layer).within);
  const Fd directory = linux::findInRoot(store.get(), within, O_DIRECTORY, false);
  if (!directory) return failErrno("opening the layer " + tree);
  constexpr uint64_t kAttributes = linux::kReadOnly | linux::kNoSuid | linux::kNoDev;
  const std::string lower = "/proc/self/fd/" + std::to_string(directory.get());
  auto overlay = linux::newFilesystem("overlay", "overlay",
                                      {{"lowerdir", lower + ":/" + kEmptyLayer}}, kAttributes);
  if (overlay) return overlay;
  Fd plain = TRY(linux::cloneMountAt(directory.get()));
  TRY(linux::addAttributes(plain.get(), kAttributes));
  return plain;
}

// No program has started in the sandbox, so its names are those of the image and of the skeleton.
// The kernel lets a process join only a pid namespace below its own.
Result<> attach(const Birth& birth) {
  TRY(linux::hideMemory());
  const LayerOrder& order = birth.request.layers;
  std::vector<Fd> mounts;
  for (uint32_t i = 0; i < order.count; ++i)
    mounts.push_back(TRY(mountOf(order.layers[i])));
  TRY(linux::joinNamespaces(birth.fds[kLayersSandbox].get(),
                            CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID));
  TRY(linux::hideMemory());
  const Fd root(::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!root) return failErrno("opening the sandbox's root");
  for (uint32_t i = 0; i < order.count; ++i) {
    const LayerPlaceNames& names = namesOf(order.layers[i]);
    const std::string target(names.target);
    if (!isLinked(names)) {
      return fail(Code::kUnsupported,
                  "the image has something else at /" + std::string(names.link));
    }
    const Fd place = linux::findInRoot(root.get(), target, O_DIRECTORY, false);
    if (!place) {
      return fail(Code::kUnsupported, "the image has something else at /" + target);
    }
    TRY(linux::attachMountAt(mounts[i].get(), place.get()));
  }
  return {};
}

}  // namespace

void becomeLayers(Birth& birth) {
  const auto attached = attach(birth);
  const std::string text =
      attached ? std::string(kDone) : attached.error().message.substr(0, kMaxAnswer);
  std::ignore = linux::sendMessage(birth.fds[kLayersAnswer].get(), text);
  ::_exit(0);
}

}  // namespace cloister::runtime
