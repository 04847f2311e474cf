// SPDX-License-Identifier: Apache-2.0
#include "cli/tar.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "cli/render/terminal.h"
#include "supervisor/process.h"

namespace cloister::cli {
namespace {

namespace fs = std::filesystem;

Result<std::string> findTar() {
  const char* set = ::getenv("PATH");
  std::string_view path = set != nullptr ? set : "/usr/bin:/bin";
  while (!path.empty()) {
    const std::string_view dir = path.substr(0, path.find(':'));
    std::string program = std::string(dir) + "/tar";
    if (dir.starts_with('/') && ::access(program.c_str(), X_OK) == 0) return program;
    path.remove_prefix(std::min(path.size(), dir.size() + 1));
  }
  return fail(Code::kUnsupported,
              "copying a directory: there is no tar here; install the package tar");
}

// TAR_OPTIONS could disable the protection against hostile names.
Result<supervisor::Program> programFor(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), TRY(findTar()));
  return supervisor::Program{.argv = std::move(arguments),
                             .env = supervisor::environmentWithout({"TAR_OPTIONS"})};
}

}  // namespace

Result<Tar> Tar::packing(const std::string& dir) {
  supervisor::Program program = TRY(programFor({"-C", dir, "-cf", "-", "."}));
  supervisor::Pipe pipe = TRY(supervisor::makePipe());
  program.stdout_fd = pipe.write.get();
  const pid_t pid = TRY(supervisor::start(program));
  return Tar("packing " + dir, pid, std::move(pipe.read));
}

Result<Tar> Tar::unpacking(const std::string& dir) {
  supervisor::Program program =
      TRY(programFor({"-C", dir, "-xf", "-", "--no-same-owner", "--no-same-permissions"}));
  supervisor::Pipe pipe = TRY(supervisor::makePipe());
  program.stdin_fd = pipe.read.get();
  ::signal(SIGPIPE, SIG_IGN);
  const pid_t pid = TRY(supervisor::start(program));
  return Tar("unpacking the archive", pid, std::move(pipe.write));
}

Tar::~Tar() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

Result<std::string> Tar::read() {
  constexpr size_t kPiece = 65'536;
  std::string piece(kPiece, '\0');
  ssize_t n = -1;
  do {
    n = ::read(pipe_.get(), piece.data(), piece.size());
  } while (n < 0 && errno == EINTR);
  if (n < 0) return failErrno(doing_);
  piece.resize(static_cast<size_t>(n));
  if (n == 0) TRY(finish());
  return piece;
}

Result<> Tar::write(std::string_view bytes) {
  if (writeTo(pipe_.get(), bytes)) return {};
  if (errno != EPIPE) return failErrno(doing_);
  TRY(finish());
  return fail(Code::kInvalid, doing_ + ": tar did not take all of it");
}

Result<> Tar::finish() {
  pipe_.reset();
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0) {
    if (errno != EINTR) return failErrno(doing_);
  }
  pid_ = 0;
  if (status == 0) return {};
  return fail(Code::kInvalid, doing_ + ": tar " + supervisor::describeExit(status));
}

Result<> checkUnpacked(const std::string& dir) {
  constexpr fs::perms kSpecial = fs::perms::set_uid | fs::perms::set_gid | fs::perms::sticky_bit;
  std::error_code error;
  fs::recursive_directory_iterator at(dir, error);
  for (; !error && at != fs::end(at); at.increment(error)) {
    const fs::file_status status = at->symlink_status(error);
    if (error) break;
    if (fs::is_symlink(status)) continue;
    if (!fs::is_regular_file(status) && !fs::is_directory(status)) {
      return fail(Code::kInvalid, "unpacking the archive: " + printable(at->path().string()) +
                                      " is no file, directory or link");
    }
    if ((status.permissions() & kSpecial) != fs::perms::none) {
      fs::permissions(at->path(), kSpecial, fs::perm_options::remove, error);
    }
  }
  if (error) return failErrno("looking through " + dir, error.value());
  return {};
}

}  // namespace cloister::cli
