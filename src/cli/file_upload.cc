// SPDX-License-Identifier: Apache-2.0
#include "cli/file_upload.h"

#include <unistd.h>

#include <algorithm>
#include <string_view>
#include <thread>
#include <tuple>
#include <utility>

#include "base/id.h"
#include "cli/api.h"
#include "cli/render/outline.h"
#include "cli/render/terminal.h"

namespace cloister::cli {

FileUpload::FileUpload(net::BlockingClient& client, std::string target, Source source,
                       std::function<void(Millis)> pause)
    : client_(client),
      target_(std::move(target)),
      source_(std::move(source)),
      size_(source_.size.value_or(0)),
      pause_(std::move(pause)),
      name_(base::randomHex(16)) {
  if (!pause_) pause_ = [](Millis time) { std::this_thread::sleep_for(time); };
}

Result<json::object> FileUpload::run() {
  for (Millis pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
    auto sent = attempt();
    if (sent) return checked(*std::move(sent));
    if (!mayGoOn(sent.error())) return givenUp(std::move(sent).error());
    if (breaks_++ == kMostBreaks) {
      return std::unexpected(std::move(sent).error().within(
          "uploading, after it went on " + std::to_string(kMostBreaks) + " times"));
    }
    writeTo(STDERR_FILENO, "cloister: the upload broke off (" + printable(sent.error().message) +
                               "); going on in a moment\n");
    client_.close();
    pause_(pause);
  }
}

// Removes the abandoned upload: nobody else knows its name, and its bytes count for the tenant's
// quota.
std::unexpected<Error> FileUpload::givenUp(Error error) {
  const bool there = digested_ > 0 && error.code != Code::kUnavailable && !client_.interrupted();
  client_.close();
  if (there) std::ignore = call(client_, "DELETE", "/v1/uploads/" + name_);
  return std::unexpected(std::move(error));
}

Result<json::object> FileUpload::attempt() {
  if (breaks_ > 0) TRY(findPlace());
  at_ = offset_.value_or(0);
  if (::lseek(source_.file.get(), static_cast<off_t>(at_), SEEK_SET) < 0) {
    return failErrno("reading the file");
  }
  source_.size = size_ - at_;
  std::string target = target_ + "&upload=" + name_;
  if (offset_) target += "&offset=" + std::to_string(*offset_);
  return upload(client_, "POST", target, [this] { return next(); }, size_ - at_);
}

// Asks for the server's part of the file. A restarted server has no part.
Result<> FileUpload::findPlace() {
  offset_.reset();
  const auto state = call(client_, "GET", "/v1/uploads/" + name_);
  if (!state && state.error().code == Code::kNotFound) return {};
  if (!state) return std::unexpected(state.error());
  const int64_t size = integerOf(*state, "size");
  if (size < 0 || std::cmp_greater(size, digested_)) {
    return fail(Code::kInternal, "uploading: the server has more than it was sent");
  }
  offset_ = static_cast<uint64_t>(size);
  return {};
}

Result<std::string> FileUpload::next() {
  std::string piece = TRY(nextPiece(source_));
  at_ += piece.size();
  if (at_ > digested_) {
    const auto fresh = static_cast<size_t>(at_ - digested_);
    digest_.update(std::string_view(piece).substr(piece.size() - fresh));
    digested_ = at_;
  }
  return piece;
}

// True if the connection broke during the upload, or if the server has more of the file than
// reported.
bool FileUpload::mayGoOn(const Error& error) const {
  if (client_.interrupted()) return false;
  if (error.code == Code::kConflict) return breaks_ > 0;
  return error.code == Code::kUnavailable && digested_ > 0;
}

Result<json::object> FileUpload::checked(json::object artifact) {
  const std::string sha256 = textOf(artifact, "sha256");
  if (sha256 == digest_.hex()) return artifact;
  std::ignore =
      call(client_, "DELETE", "/v1/artifacts/" + net::percentEncode(textOf(artifact, "id")));
  return fail(Code::kInternal, "uploading: the server has other bytes than the file (SHA-256 " +
                                   printable(sha256) + "); it may have changed meanwhile");
}

}  // namespace cloister::cli
