// SPDX-License-Identifier: Apache-2.0
#include "images/squash.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <tuple>
#include <vector>

#include "base/fd.h"
#include "images/child.h"
#include "images/confine.h"
#include "images/tree.h"
#include "linux/process.h"
#include "model/escalation.h"

namespace cloister::images {
namespace {

constexpr const char* kPrograms[] = {"/usr/bin/mksquashfs", "/usr/sbin/mksquashfs",
                                     "/usr/local/bin/mksquashfs"};
constexpr size_t kMaxShown = 400;
constexpr int kNotRun = 127;

const char* program() {
  for (const char* path : kPrograms) {
    if (::access(path, X_OK) == 0) return path;
  }
  return nullptr;
}

int execute(const std::string& work, int output) {
  const Fd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  if (!null || !linux::moveFd(null.get(), STDIN_FILENO) || !linux::moveFd(output, STDOUT_FILENO) ||
      !linux::moveFd(output, STDERR_FILENO) || ::chdir(work.c_str()) != 0) {
    return kNotRun;
  }
  std::string said;
  if (const auto confined = confineProgram(work); confined) {
    const Error error = linux::executeInPath(
        {program(), "root", "root.squashfs", "-noappend", "-all-root", "-no-xattrs", "-mkfs-time",
         "0", "-comp", "lz4", "-mem", "512M", "-no-progress", "-quiet"},
        {"PATH=/usr/bin:/bin", "LC_ALL=C.UTF-8"});
    said = error.message;
  } else {
    said = confined.error().message;
  }
  std::ignore = ::write(STDERR_FILENO, said.data(), said.size());
  return kNotRun;
}

}  // namespace

bool canSquash() {
  return program() != nullptr;
}

Result<> squash(const std::string& work, int cancel) {
  std::string said;
  const int status = TRY(runChild([&](int output) { return execute(work, output); }, cancel,
                                  [&](std::string_view text) { said += text; }));
  if (status == 0) return {};
  return fail(Code::kInternal, "mksquashfs: " + model::safeText(said, kMaxShown));
}

}  // namespace cloister::images
