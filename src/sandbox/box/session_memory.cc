// SPDX-License-Identifier: Apache-2.0
#include "sandbox/box/session_memory.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include "async/signal.h"
#include "base/clock.h"
#include "linux/message.h"
#include "sandbox/box/node_exec.h"
#include "wire/files_codec.h"
#include "wire/tar.h"

namespace cloister::runtime {
namespace {

namespace json = base::json;

constexpr size_t kPiece = size_t{64} << 10;
constexpr size_t kMostAbout = size_t{64} << 10;  // bytes
constexpr size_t kMostLines = 64;

constexpr std::array<const char*, 5> kUses = {"program", "terminal", "kernel", "cell", "files"};

json::object toJson(const LineState& line) {
  return {{"number", line.number},
          {"use", kUses[static_cast<size_t>(line.use)]},
          {"kernel", line.kernel},
          {"units", line.units},
          {"stdin_closed", line.stdin_closed}};
}

std::unexpected<Error> notOurs(std::string_view what) {
  return fail(Code::kInvalid, "reading a memory image: " + std::string(what));
}

Result<LineState> lineOf(const json::value& value) {
  if (!value.is_object()) return notOurs("a program is not told of");
  base::ObjectReader reader(value.get_object(), "");
  LineState line;
  line.number = static_cast<uint32_t>(TRY(reader.integer("number", 1, UINT32_MAX - 1)).value_or(0));
  const std::string use = TRY(reader.text("use")).value_or("");
  const auto known = std::ranges::find(kUses, use);
  if (known == kUses.end() || line.number == 0) return notOurs("a program of no known kind");
  line.use = static_cast<LineUse>(known - kUses.begin());
  line.kernel = TRY(reader.text("kernel")).value_or("");
  line.units =
      static_cast<uint32_t>(TRY(reader.integer("units", 0, wire::kOutputUnits)).value_or(0));
  line.stdin_closed = TRY(reader.boolean("stdin_closed")).value_or(false);
  TRY(reader.finish());
  return line;
}

// The lines, if `text` describes an image made of `made_of`.
Result<std::vector<LineState>> readAbout(std::string_view text, const json::object& made_of) {
  const json::value value = TRY(base::parseJson(text, {.max_bytes = kMostAbout}));
  const json::object* about = value.if_object();
  if (about == nullptr) return notOurs("it says nothing of itself");
  for (const auto& [name, wanted] : made_of) {
    const json::value* has = about->if_contains(name);
    if (has != nullptr && *has == wanted) continue;
    return fail(Code::kConflict, "its " + std::string(name) + " is another: it was taken with " +
                                     (has != nullptr ? base::toJson(*has) : "none") +
                                     ", and here is " + base::toJson(wanted));
  }
  const json::value* lines = about->if_contains("lines");
  if (lines == nullptr || !lines->is_array() || lines->get_array().size() > kMostLines) {
    return notOurs("it does not say what ran");
  }
  std::vector<LineState> states;
  for (const json::value& line : lines->get_array())
    states.push_back(TRY(lineOf(line)));
  return states;
}

class Checkpoint final : public NodeExec {
 public:
  Checkpoint(std::shared_ptr<Live> live, std::shared_ptr<Switchboard> board,
             std::shared_ptr<const MemoryKeeper> memory, std::shared_ptr<void> place)
      : NodeExec(std::move(place)),
        live_(std::move(live)),
        board_(std::move(board)),
        memory_(std::move(memory)) {}

  Task<Result<model::Outcome>> run(ExecObserver& observer) override {
    const int64_t started_at = base::wallMicros();
    observer.onStarted();
    const std::string image = CO_TRY(co_await memory_->image());
    const auto lines = CO_TRY(co_await board_->rest());
    auto kept = co_await memory_->keep(live_);
    auto went = co_await board_->goOn();
    if (!kept) co_return std::unexpected(std::move(kept).error().within("keeping the memory"));
    if (!went) co_return std::unexpected(std::move(went).error().within("keeping the memory"));
    json::object about = memory_->made_of;
    about["image"] = image;
    json::array& programs = about["lines"].emplace_array();
    for (const LineState& line : lines)
      programs.push_back(toJson(line));
    const std::string text = base::toJson(about);
    CO_TRY(co_await send(observer,
                         headOf(kAboutFile, text.size()) + text + wire::tar::padding(text.size())));
    for (size_t i = 0; i < memory_->files.size(); ++i)
      CO_TRY(co_await sendFile(observer, memory_->files[i], std::exchange(kept->files[i], Fd())));
    CO_TRY(co_await send(observer, wire::tar::end()));
    co_return succeeded(started_at);
  }

 private:
  static std::string headOf(std::string name, uint64_t size) {
    return wire::tar::header({.mode = 0600, .size = size, .path = std::move(name)});
  }

  Task<Result<>> send(ExecObserver& observer, std::string bytes) {
    if (cancelled()) co_return gone();
    for (std::string_view rest = bytes; !rest.empty();) {
      const std::string_view piece = rest.substr(0, kPiece);
      rest.remove_prefix(piece.size());
      co_await observer.onOutput(model::Stream::kStdout, piece);
    }
    co_return Result<>();
  }

  Task<Result<>> sendFile(ExecObserver& observer, const std::string& name, Fd file) {
    struct stat status{};
    if (::fstat(file.get(), &status) != 0) co_return failErrno("looking at " + name);
    const auto size = static_cast<uint64_t>(status.st_size);
    if (size > memory_->most_bytes) {
      co_return fail(Code::kTooLarge, "keeping the memory: " + name + " is longer than its memory");
    }
    CO_TRY(co_await send(observer, headOf(name, size)));
    std::string piece;
    for (uint64_t left = size; left > 0; left -= piece.size()) {
      piece.resize(std::min<uint64_t>(left, kPiece));
      const ssize_t n = ::read(file.get(), piece.data(), piece.size());
      if (n <= 0) co_return failErrno("reading " + name);
      piece.resize(static_cast<size_t>(n));
      CO_TRY(co_await send(observer, piece));
    }
    co_return co_await send(observer, wire::tar::padding(size));
  }

  std::shared_ptr<Live> live_;
  std::shared_ptr<Switchboard> board_;
  std::shared_ptr<const MemoryKeeper> memory_;
};

class Resume final : public NodeExec {
 public:
  Resume(const boost::asio::any_io_executor& executor, std::shared_ptr<const MemoryKeeper> memory,
         Become become, std::shared_ptr<void> place)
      : NodeExec(std::move(place)),
        memory_(std::move(memory)),
        become_(std::move(become)),
        changed_(executor) {}

  Task<Result<model::Outcome>> run(ExecObserver& observer) override {
    const int64_t started_at = base::wallMicros();
    observer.onStarted();
    started_ = true;
    changed_.notify();
    while (!whole_ && so_far_ && !cancelled())
      co_await changed_.wait();
    if (cancelled()) co_return gone();
    CO_TRY(std::move(so_far_));
    json::object made_of = memory_->made_of;
    made_of["image"] = CO_TRY(co_await memory_->image());
    auto lines = CO_TRY(readAbout(about_, made_of));
    auto live = CO_TRY(co_await memory_->goOn(std::exchange(image_, nullptr)));
    CO_TRY(co_await become_({std::move(live), std::move(lines)}));
    co_await observer.onOutput(model::Stream::kStdout,
                               wire::files::encode(wire::files::EndOfEntries{}));
    co_return succeeded(started_at);
  }

  void cancel() override {
    NodeExec::cancel();
    changed_.notify();
  }

  Task<Result<>> input(std::string bytes) override {
    while (!started_ && !cancelled())
      co_await changed_.wait();
    if (whole_ || !so_far_) co_return fail(Code::kConflict, "sending input: it has ended");
    so_far_ = bytes.empty() ? finish() : take(bytes);
    changed_.notify();
    co_return so_far_;
  }

 private:
  Result<> finish() {
    if (!archive_.ended() || image_->files.size() != memory_->files.size()) {
      return notOurs("it is cut short");
    }
    whole_ = true;
    return {};
  }

  Result<> take(std::string_view bytes) {
    archive_.feed(bytes);
    while (auto part = TRY(archive_.next())) {
      if (const auto* entry = std::get_if<wire::tar::Entry>(&*part)) TRY(begin(*entry));
      if (const auto* content = std::get_if<wire::tar::Content>(&*part)) TRY(write(content->bytes));
    }
    return {};
  }

  Result<> begin(const wire::tar::Entry& entry) {
    if (entry.kind != wire::files::Kind::kFile) return notOurs("a part that is no file");
    in_about_ = std::exchange(first_, false);
    if (in_about_) {
      const bool fits = entry.path == kAboutFile && entry.size <= kMostAbout;
      return fits ? Result<>() : notOurs("it says nothing of itself");
    }
    std::vector<Fd>& files = image_->files;
    if (files.size() >= memory_->files.size() || entry.path != memory_->files[files.size()]) {
      return notOurs("a file of another name");
    }
    if (entry.size > memory_->most_bytes) return notOurs("it is longer than the memory");
    files.push_back(TRY(linux::memoryFile(0)));
    return {};
  }

  Result<> write(std::string_view bytes) {
    if (in_about_) {
      about_ += bytes;
      return {};
    }
    while (!bytes.empty()) {
      const ssize_t n = ::write(image_->files.back().get(), bytes.data(), bytes.size());
      if (n <= 0) return failErrno("keeping a memory image");
      bytes.remove_prefix(static_cast<size_t>(n));
    }
    return {};
  }

  std::shared_ptr<const MemoryKeeper> memory_;
  Become become_;
  async::Signal changed_;
  wire::tar::Reader archive_;
  std::shared_ptr<MemoryImage> image_ = std::make_shared<MemoryImage>();
  std::string about_;
  bool started_ = false;
  bool first_ = true;
  bool in_about_ = false;
  bool whole_ = false;
  Result<> so_far_;
};

}  // namespace

std::unique_ptr<Exec> makeCheckpoint(std::shared_ptr<Live> live, std::shared_ptr<Switchboard> board,
                                     std::shared_ptr<const MemoryKeeper> memory,
                                     std::shared_ptr<void> place) {
  return std::make_unique<Checkpoint>(std::move(live), std::move(board), std::move(memory),
                                      std::move(place));
}

std::unique_ptr<Exec> makeResume(const boost::asio::any_io_executor& executor,
                                 std::shared_ptr<const MemoryKeeper> memory, Become become,
                                 std::shared_ptr<void> place) {
  return std::make_unique<Resume>(executor, std::move(memory), std::move(become), std::move(place));
}

}  // namespace cloister::runtime
