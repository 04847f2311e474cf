// SPDX-License-Identifier: Apache-2.0
#include "runner/kernel_output.h"

#include <sys/stat.h>
#include <unistd.h>

#include <climits>
#include <cstring>
#include <utility>

#include "runner/kernel.h"

namespace cloister::runner {
namespace {

constexpr const char* kNames[] = {"out", "err"};
constexpr const char* kStreams[] = {"stdout", "stderr"};
// A process that writes without end must not keep the runner from other work.
constexpr int kReadsOfOne = 4;

char buffer[65'536];

// Zero at first, which costs no memory until use.
char dirs[KernelOutputs::kMost][PATH_MAX];
constinit Tail tails[KernelOutputs::kMost][2];

bool isSame(const Fd& one, const Fd& other) {
  struct stat a{};
  struct stat b{};
  return fstat(one.get(), &a) == 0 && fstat(other.get(), &b) == 0 && a.st_ino == b.st_ino &&
         a.st_dev == b.st_dev;
}

}  // namespace

KernelOutputs the_kernel_outputs;

KernelOutputs::Kernel* KernelOutputs::find(const char* dir) {
  for (Kernel& kernel : kernels_) {
    if (kernel.dir != nullptr && std::strcmp(kernel.dir, dir) == 0) return &kernel;
  }
  return nullptr;
}

KernelOutputs::Kernel* KernelOutputs::make(const char* dir) {
  if (std::strlen(dir) >= PATH_MAX) return nullptr;
  for (size_t i = 0; i < kMost; ++i) {
    Kernel& kernel = kernels_[i];
    if (kernel.dir != nullptr) continue;
    kernel.dir = std::strcpy(dirs[i], dir);
    for (size_t stream = 0; stream < 2; ++stream)
      kernel.streams[stream].tail = &tails[i][stream];
    return &kernel;
  }
  return nullptr;
}

const KernelOutputs::Stream* KernelOutputs::before(const char* dir) {
  const Kernel* kernel = find(dir);
  return kernel != nullptr ? kernel->streams : nullptr;
}

void KernelOutputs::renew(const char* dir, LeftOver& left_over) {
  Kernel* kernel = find(dir);
  for (size_t i = 0; kernel != nullptr && i < 2; ++i) {
    left_over.take(kernel->streams[i].fd, 0, kStreams[i]);
    kernel->streams[i].fd.reset();
    kernel->streams[i].tail->clear();
  }
}

int KernelOutputs::begin(const char* dir) {
  Kernel* kernel = find(dir);
  if (kernel == nullptr) kernel = make(dir);
  if (kernel == nullptr) return kNone;
  for (const Stream& stream : kernel->streams) {
    if (kernel->cells == 0) stream.tail->clear();
  }
  ++kernel->cells;
  return static_cast<int>(kernel - kernels_);
}

void KernelOutputs::end(int number, LeftOver& left_over) {
  Kernel& kernel = kernels_[number];
  if (--kernel.cells > 0) return;
  for (size_t i = 0; i < 2; ++i) {
    Stream& stream = kernel.streams[i];
    Fd now = openKernelFifo(kernel.dir, kNames[i]);
    if (stream.fd && now && isSame(stream.fd, now)) continue;
    if (stream.fd && now) left_over.take(stream.fd, 0, kStreams[i]);
    if (now) stream.fd = std::move(now);
  }
}

void KernelOutputs::serve() {
  for (Kernel& kernel : kernels_) {
    for (Stream& stream : kernel.streams) {
      if (!stream.fd || kernel.cells > 0 || !std::exchange(stream.ready, false)) continue;
      for (int i = 0; i < kReadsOfOne; ++i) {
        const ssize_t n = read(stream.fd.get(), buffer, sizeof buffer);
        if (n == 0) stream.fd.reset();
        if (n <= 0) break;
        stream.tail->add({buffer, static_cast<size_t>(n)});
      }
    }
  }
}

}  // namespace cloister::runner
