// SPDX-License-Identifier: Apache-2.0
#include "images/import.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <clocale>
#include <tuple>

#include "base/clock.h"
#include "base/crypto.h"
#include "base/file.h"
#include "base/json.h"
#include "images/child.h"
#include "images/confine.h"
#include "images/finish_tree.h"
#include "images/remove_tree.h"
#include "images/squash.h"
#include "images/unpack.h"
#include "linux/tree_digest.h"
#include "model/escalation.h"

namespace cloister::images {
namespace {

namespace json = base::json;

constexpr base::JsonLimits kLimits{.max_bytes = kMaxSaid, .max_depth = 4, .max_values = 10'000};
constexpr size_t kMaxNotes = 100;
constexpr size_t kMaxNote = 500;
constexpr size_t kMaxProgress = 100;

// --- the child's output: a JSON object a line

void say(int output, const json::object& object) {
  const std::string line = base::toJson(object) + "\n";
  for (size_t done = 0; done < line.size();) {
    const ssize_t n = ::write(output, line.data() + done, line.size() - done);
    if (n < 0 && errno != EINTR) return;
    if (n > 0) done += static_cast<size_t>(n);
  }
}

json::object toObject(const Unpacked& unpacked) {
  json::object env;
  for (const auto& [name, value] : unpacked.env)
    env[name] = value;
  json::array notes;
  for (const std::string& note : unpacked.notes) {
    if (notes.size() < kMaxNotes) notes.emplace_back(model::safeText(note, kMaxNote));
  }
  return {{"source", unpacked.source},
          {"reference", unpacked.reference},
          {"env", std::move(env)},
          {"notes", std::move(notes)}};
}

struct Work {
  Fd input;
  std::string path;  // path of an input directory; else ""
};

int unpackConfined(Work input, const Unfinished& work, const Bounds& bounds,
                   const std::vector<sock_filter>& filter, int output) {
  const auto done = [&]() -> Result<Unpacked> {
    TRY(confineUnpacking(work.path(), work.directory(), input.path, filter));
    return unpack(std::move(input.input), work.directory(), bounds,
                  [&](const std::string& text) { say(output, {{"progress", text}}); });
  }();
  if (done) {
    say(output, {{"done", toObject(*done)}});
    return 0;
  }
  say(output, {{"code", static_cast<int>(done.error().code)}, {"error", done.error().message}});
  return 1;
}

// --- the parent's handling of the output

class Ear {
 public:
  explicit Ear(const ImportOptions& options) : options_(options) {}

  void operator()(std::string_view bytes) {
    text_ += bytes;
    for (size_t end = text_.find('\n'); end != std::string::npos; end = text_.find('\n')) {
      line(std::string_view(text_).substr(0, end));
      text_.erase(0, end + 1);
    }
    options_.progress(progress_);
  }

  Result<Unpacked> result() {
    if (error_) return std::unexpected(*error_);
    if (done_) return *std::move(done_);
    return fail(Code::kInternal, "the confined process ended without a result");
  }

 private:
  void line(std::string_view text) {
    auto read = parse(text);
    if (!read) error_ = std::move(read).error().within("the confined process");
  }

  Result<> parse(std::string_view text) {
    const json::value value = TRY(base::parseJson(text, kLimits));
    if (!value.is_object()) return fail(Code::kInternal, "not an object");
    base::ObjectReader reader(value.get_object(), "");
    if (auto said = TRY(reader.text("progress"))) progress_ = model::safeText(*said, kMaxProgress);
    if (const json::object* done = TRY(reader.object("done"))) done_ = TRY(unpackedOf(*done));
    if (auto said = TRY(reader.text("error"))) {
      const auto code = TRY(reader.integer("code", 0, static_cast<int>(Code::kInternal)));
      error_ = Error{static_cast<Code>(code.value_or(static_cast<int>(Code::kInternal))),
                     *std::move(said),
                     {},
                     0};
    }
    return reader.finish();
  }

  static Result<Unpacked> unpackedOf(const json::object& object) {
    base::ObjectReader reader(object, "");
    Unpacked out;
    out.source = TRY(reader.text("source")).value_or("");
    out.reference = TRY(reader.text("reference")).value_or("");
    if (const json::object* env = TRY(reader.object("env"))) {
      out.env = TRY(model::parseImageEnv(*env));
    }
    const json::array* notes = TRY(reader.array("notes"));
    for (const json::value& note : notes == nullptr ? json::array() : *notes) {
      if (!note.is_string() || out.notes.size() == kMaxNotes) break;
      out.notes.push_back(model::safeText(std::string_view(note.get_string()), 2 * kMaxNote));
    }
    TRY(reader.finish());
    return out;
  }

  const ImportOptions& options_;
  std::string text_;
  std::string progress_ = "unpacking";
  std::optional<Error> error_;
  std::optional<Unpacked> done_;
};

// --- the import
// -----------------------------------------------------------------------------------

class Import {
 public:
  Import(Store& store, const ImportOptions& options) : store_(store), options_(options) {}

  Result<Imported> run() {
    TRY(checkNewName(store_, options_.name, options_.replace));
    Work input = TRY(open());
    Unfinished work = TRY(store_.begin());
    Unpacked unpacked = TRY(unpackIn(std::move(input), work));
    model::Image image{.name = options_.name,
                       .digest = {},
                       .source = std::move(unpacked.source),
                       .reference = std::move(unpacked.reference),
                       .env = std::move(unpacked.env),
                       .size_bytes = 0,
                       .files = 0,
                       .created = base::formatTime(base::wallMicros()),
                       .squashfs = false,
                       .verified = options_.verified};
    TRY(finish(work, image));
    TRY(makeSquashfs(work, image, unpacked.notes));
    TRY(keepOnlyTree(work));
    Found found = TRY(store_.place(std::move(work), image, options_.replace));
    return Imported{std::move(found), std::move(unpacked.notes)};
  }

 private:
  [[nodiscard]] Result<Work> open() const {
    Work work{Fd(::open(options_.path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)), {}};
    struct stat status{};
    if (!work.input || ::fstat(work.input.get(), &status) != 0) {
      return failErrno("opening " + options_.path);
    }
    if (S_ISDIR(status.st_mode)) work.path = options_.path;
    return work;
  }

  [[nodiscard]] Result<Unpacked> unpackIn(Work input, const Unfinished& work) const {
    const std::vector<sock_filter> filter = TRY(unpackingFilter());
    // Names are UTF-8 to libarchive, whatever the terminal's are, and OpenSSL reads its
    // configuration now: the child opens no file of the system any more.
    std::setlocale(LC_CTYPE, "C.UTF-8");
    std::ignore = base::sha256Hex("");
    Ear ear(options_);
    TRY(runChild(
        [&](int output) {
          return unpackConfined(std::move(input), work, options_.bounds, filter, output);
        },
        options_.cancel, std::ref(ear)));
    auto result = ear.result();
    if (result) return result;
    return std::unexpected(std::move(result).error().within(title()));
  }

  [[nodiscard]] const std::string& title() const {
    return options_.title.empty() ? options_.path : options_.title;
  }

  [[nodiscard]] Result<> interrupted() const {
    pollfd poll{options_.cancel, POLLIN, 0};
    if (::poll(&poll, 1, 0) <= 0) return {};
    return fail(Code::kUnavailable, "interrupted");
  }

  Result<> finish(const Unfinished& work, model::Image& image) {
    TRY(interrupted());
    options_.progress("computing the digest");
    const Fd root(
        ::openat(work.directory(), "root", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!root) return failErrno("opening the tree");
    const auto size = finishTree(root.get(), options_.bounds);
    if (!size) return std::unexpected(Error(size.error()).within(title()));
    image.size_bytes = size->bytes;
    image.files = size->files;
    linux::TreeDigest digest(linux::TreeDigest::Of::kEverything);
    TRY(digest.addAll(root.get()));
    image.digest = digest.digest();
    return {};
  }

  Result<> makeSquashfs(const Unfinished& work, model::Image& image,
                        std::vector<std::string>& notes) {
    TRY(interrupted());
    if (store_.has(image.digest, image.squashfs) && image.squashfs) return {};
    if (!options_.squashfs) return {};
    if (!canSquash()) {
      notes.emplace_back(
          "no squashfs for virtual machines: mksquashfs is not installed (package squashfs-tools)");
      return {};
    }
    options_.progress("making the squashfs");
    TRY(squash(work.path(), options_.cancel));
    image.squashfs = true;
    return {};
  }

  // The child may have left more than was asked for.
  static Result<> keepOnlyTree(const Unfinished& work) {
    for (const std::string& name : TRY(base::listDir(work.path()))) {
      if (name != "root" && name != "root.squashfs") TRY(removeTree(work.directory(), name));
    }
    return {};
  }

  Store& store_;
  const ImportOptions& options_;
};

}  // namespace

Result<> checkNewName(const Store& store, const std::string& name, bool replace) {
  const auto found = store.find(name);
  if (!found && found.error().code == Code::kInvalid) return std::unexpected(found.error());
  if (replace || (!found && found.error().code == Code::kNotFound)) return {};
  return fail(Code::kConflict,
              "there is an image \"" + name + "\" already; --replace puts this one in its place");
}

Result<Imported> importImage(Store& store, const ImportOptions& options) {
  return Import(store, options).run();
}

Result<std::string> computeDigest(const Found& found) {
  const Fd root(::open(found.root.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!root) return failErrno("opening " + found.root);
  linux::TreeDigest digest(linux::TreeDigest::Of::kEverything);
  TRY(digest.addAll(root.get()));
  return digest.digest();
}

}  // namespace cloister::images
