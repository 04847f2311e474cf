// SPDX-License-Identifier: Apache-2.0
#include "sandbox/image/image_read_job.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <thread>
#include <tuple>
#include <utility>

#include "base/json.h"
#include "linux/process.h"
#include "model/escalation.h"

namespace cloister::runtime {
namespace {

namespace json = base::json;

constexpr size_t kMostText = size_t{64} << 10;  // of a result
constexpr size_t kMostError = 1024;             // may include a path of the image

json::object toJson(const ImageContent& content) {
  return {{"digest", content.digest},
          {"key", content.key},
          {"changed_at", content.changed_at},
          {"files", content.files},
          {"files_read", content.files_read},
          {"bytes_read", content.bytes_read},
          {"newest", content.newest},
          {"changed", json::array(content.changed.begin(), content.changed.end())}};
}

Result<ImageContent> fromJson(const json::object& object) {
  base::ObjectReader reader(object, "");
  ImageContent content;
  content.digest = TRY(reader.text("digest")).value_or("");
  content.key = TRY(reader.text("key")).value_or("");
  content.newest = TRY(reader.text("newest")).value_or("");
  content.changed_at = TRY(reader.integer("changed_at", 0, INT64_MAX)).value_or(0);
  const auto count = [&](std::string_view name) -> Result<uint64_t> {
    return static_cast<uint64_t>(TRY(reader.integer(name, 0, INT64_MAX)).value_or(0));
  };
  content.files = TRY(count("files"));
  content.files_read = TRY(count("files_read"));
  content.bytes_read = TRY(count("bytes_read"));
  if (const json::array* changed = TRY(reader.array("changed"))) {
    for (const json::value& path : *changed) {
      if (path.is_string()) content.changed.emplace_back(path.get_string());
    }
  }
  return content;
}

void setPriority(ImageReadJob::Priority priority) {
  const sched_param none{};
  if (priority == ImageReadJob::Priority::kIdle) ::sched_setscheduler(0, SCHED_IDLE, &none);
  if (priority == ImageReadJob::Priority::kBackground) {
    constexpr int kNice = 15;
    ::sched_setscheduler(0, SCHED_BATCH, &none);
    std::ignore = ::setpriority(PRIO_PROCESS, 0, kNice);
  }
}

[[noreturn]] void runJob(const std::string& image_root, ImageReadJob::Priority priority,
                         int64_t since, const Fd& output) {
  constexpr int kOutput = 3;
  if (!linux::dieWithParent() || !linux::moveFd(output.get(), kOutput) ||
      !linux::closeFrom(kOutput + 1)) {
    ::_exit(1);
  }
  setPriority(priority);
  const unsigned cores = std::max(1U, std::thread::hardware_concurrency());
  const auto content = readImage(image_root, imageCachePath(image_root),
                                 {.threads = std::min(cores, 8U) - 1, .since = since});
  const std::string text = content ? base::toJson(toJson(*content))
                                   : model::safeText(content.error().message, kMostError);
  std::ignore = ::write(kOutput, text.data(), std::min(text.size(), kMostText));
  ::_exit(0);
}

}  // namespace

Result<ImageReadJob> ImageReadJob::start(const std::string& image_root, Priority priority,
                                         int64_t since) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return failErrno("pipe2");
  Fd ours(ends[0]);
  const Fd theirs(ends[1]);
  linux::Cloned child = TRY(linux::cloneProcess(0));
  if (child.pid == 0) runJob(image_root, priority, since, theirs);
  return ImageReadJob(priority, std::move(ours), std::move(child.pidfd));
}

ImageReadJob::~ImageReadJob() {
  if (!pidfd_) return;
  std::ignore = linux::signalPidfd(pidfd_.get(), SIGKILL);
  std::ignore = linux::reapPidfd(pidfd_.get());
}

Result<ImageContent> ImageReadJob::parse(const std::string& text) {
  const auto wrong = [&] {
    return fail(Code::kInternal, text.empty() ? "image digest: the process died" : text);
  };
  if (!text.starts_with("{")) return wrong();
  const auto value = base::parseJson(text, {.max_bytes = kMostText});
  if (!value || !value->is_object()) return wrong();
  return fromJson(value->get_object());
}

}  // namespace cloister::runtime
