// SPDX-License-Identifier: Apache-2.0
#include "bin/image_pull.h"

#include <unistd.h>

#include <cerrno>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "base/json.h"
#include "images/child.h"
#include "linux/process.h"
#include "model/escalation.h"

namespace cloister {
namespace {

namespace json = base::json;

constexpr base::JsonLimits kLimits{
    .max_bytes = images::kMaxSaid, .max_depth = 4, .max_values = 10'000};
constexpr size_t kMostNotes = 100;
constexpr size_t kMostText = 2000;
constexpr Millis kBetween{500};         // messages of progress
constexpr size_t kMostProgress = 4000;  // messages: together within images::kMaxSaid
constexpr size_t kMostShown = 150;

// --- the child's output: a JSON object a line

void say(int output, const json::object& object) {
  const std::string line = base::toJson(object) + "\n";
  for (size_t done = 0; done < line.size();) {
    const ssize_t n = ::write(output, line.data() + done, line.size() - done);
    if (n < 0 && errno != EINTR) return;
    if (n > 0) done += static_cast<size_t>(n);
  }
}

class Reporter {
 public:
  explicit Reporter(int output) : output_(output) {}
  void operator()(const std::string& what) {
    const auto now = base::monotonicNow();
    if (said_ == kMostProgress || (said_ > 0 && now - last_ < kBetween)) return;
    ++said_;
    last_ = now;
    say(output_, {{"progress", model::safeText(what, kMostShown)}});
  }

 private:
  int output_;
  size_t said_ = 0;
  base::Monotonic last_;
};

int pullAndSay(registry::PullOptions options, int output) {
  Reporter reporter(output);
  options.progress = std::ref(reporter);
  const auto pulled = [&]() -> Result<registry::Pulled> {
    TRY(linux::hideMemory());  // no core file with credentials
    TRY(linux::setNoNewPrivs());
    return registry::pull(options);
  }();
  if (!pulled) {
    say(output, {{"code", static_cast<int>(pulled.error().code)},
                 {"error", model::safeText(pulled.error().message, kMostText)}});
    return 1;
  }
  json::array notes;
  for (const std::string& note : pulled->notes) {
    if (notes.size() < kMostNotes) notes.emplace_back(model::safeText(note, kMostText));
  }
  say(output,
      {{"done",
        {{"verified", model::toJsonValue(pulled->verified)}, {"notes", std::move(notes)}}}});
  return 0;
}

// --- the parent's reading

class Listener {
 public:
  explicit Listener(const registry::PullOptions& options) : options_(options) {}

  void operator()(std::string_view bytes) {
    text_ += bytes;
    for (size_t end = text_.find('\n'); end != std::string::npos; end = text_.find('\n')) {
      auto read = line(std::string_view(text_).substr(0, end));
      if (!read) error_ = std::move(read).error().within("the fetching process");
      text_.erase(0, end + 1);
    }
    options_.progress(progress_);
  }

  Result<registry::Pulled> result() {
    if (error_) return std::unexpected(*std::move(error_));
    if (done_) return *std::move(done_);
    return fail(Code::kInternal, "the fetching process ended without a result");
  }

 private:
  Result<> line(std::string_view text) {
    const json::value value = TRY(base::parseJson(text, kLimits));
    if (!value.is_object()) return fail(Code::kInternal, "not an object");
    base::ObjectReader reader(value.get_object(), "");
    if (auto said = TRY(reader.text("progress"))) progress_ = model::safeText(*said, kMostShown);
    if (const json::object* done = TRY(reader.object("done"))) TRY(finished(*done));
    if (auto said = TRY(reader.text("error"))) {
      const auto code = TRY(reader.integer("code", 0, static_cast<int>(Code::kInternal)));
      error_ = Error{static_cast<Code>(code.value_or(static_cast<int>(Code::kInternal))),
                     *std::move(said),
                     {},
                     0};
    }
    return reader.finish();
  }

  Result<> finished(const json::object& object) {
    base::ObjectReader reader(object, "");
    registry::Pulled pulled;
    const json::object* verified = TRY(reader.object("verified"));
    if (verified == nullptr) return fail(Code::kInternal, "nothing is verified");
    pulled.verified = TRY(model::parseVerifiedImage(*verified));
    const json::array* notes = TRY(reader.array("notes"));
    for (const json::value& note : notes == nullptr ? json::array() : *notes) {
      if (!note.is_string() || pulled.notes.size() == kMostNotes) break;
      pulled.notes.push_back(model::safeText(std::string_view(note.get_string()), 2 * kMostText));
    }
    TRY(reader.finish());
    done_ = std::move(pulled);
    return {};
  }

  const registry::PullOptions& options_;
  std::string text_;
  std::string progress_ = "asking the registry";
  std::optional<Error> error_;
  std::optional<registry::Pulled> done_;
};

}  // namespace

Result<registry::Pulled> pullInChild(const registry::PullOptions& options, int cancel) {
  Listener listener(options);
  TRY(images::runChild([&](int output) { return pullAndSay(options, output); }, cancel,
                       std::ref(listener)));
  return listener.result();
}

std::string nameOfPulled(const registry::Reference& reference) {
  return reference.repository.substr(reference.repository.rfind('/') + 1);
}

}  // namespace cloister
