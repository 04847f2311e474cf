// SPDX-License-Identifier: Apache-2.0
#include "registry/client.h"

#include <algorithm>
#include <charconv>
#include <thread>
#include <utility>

#include "model/shown_text.h"
#include "registry/challenge.h"
#include "registry/reference.h"

namespace cloister::registry {
namespace {

using base::monotonicNow;
using net::BlockingClient;

constexpr int kMostRedirects = 3;
constexpr size_t kMostTokenAnswer = size_t{256} << 10;
constexpr Millis kFirstPause{200};
constexpr Millis kLongestPause{10'000};

bool isRedirect(int status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

bool isTransient(int status) {
  return status == 408 || status == 429 || status >= 500;
}

// The whole URL that a redirect leads to.
Result<net::Url> locationOf(const net::Url& from, const std::string& location) {
  if (location.starts_with("//")) return net::parseUrl((from.tls ? "https:" : "http:") + location);
  if (!location.starts_with('/')) return net::parseUrl(location);
  net::Url base = from;
  base.target.clear();
  return net::parseUrl(base.origin() + location);
}

// A registry elsewhere may not lead to services of this machine, nor to plain HTTP.
Result<> mayFollow(const net::Url& from, const net::Url& to) {
  if (from.tls && !to.tls) return fail(Code::kDenied, "redirects from https to http");
  if (isLoopback(to.host) && !isLoopback(from.host)) {
    return fail(Code::kDenied, "redirects to this machine's loopback");
  }
  return {};
}

// The first byte of a partial answer ("bytes 100-199/200"); nullopt: unreadable.
std::optional<uint64_t> firstByte(std::string_view range) {
  constexpr std::string_view kUnit = "bytes ";
  if (!range.starts_with(kUnit)) return std::nullopt;
  range.remove_prefix(kUnit.size());
  uint64_t first = 0;
  const auto [end, error] = std::from_chars(range.data(), range.data() + range.size(), first);
  if (error != std::errc() || end == range.data() + range.size() || *end != '-')
    return std::nullopt;
  return first;
}

}  // namespace

Client::Client(ClientOptions options)
    : options_(std::move(options)), registry_(connectionTo(options_.base)) {}

BlockingClient Client::connectionTo(net::Url url) const {
  url.target.clear();
  net::Trust trust;
  trust.ca_file = options_.ca_file;
  trust.ca_name = "images.ca_file";
  return BlockingClient({.url = std::move(url), .trust = std::move(trust), .key = {}});
}

std::unexpected<Error> Client::error(Code code, const std::string& what) const {
  return fail(code, "registry " + options_.name + ": " + what);
}

Result<Millis> Client::patience() const {
  const auto left = std::chrono::duration_cast<Millis>(options_.deadline - monotonicNow());
  if (left > Millis(0)) return std::min(left, options_.stall);
  return fail(Code::kUnavailable, "the pull takes longer than images.pull_seconds allows");
}

std::string Client::target(const std::string& repository, const std::string& rest) const {
  return "/v2" + options_.base.target + "/" + repository + rest;
}

// Repeats what fails by kUnavailable, with growing pauses.
template <class T>
Result<T> Client::retried(const auto& attempt) {
  Millis pause = kFirstPause;
  for (uint32_t i = 1;; ++i) {
    Result<T> result = attempt();
    if (result || result.error().code != Code::kUnavailable) return result;
    registry_.close();
    storage_.reset();
    if (i >= options_.attempts) {
      return std::unexpected(std::move(result).error().within(
          std::to_string(i) + (i == 1 ? " attempt" : " attempts") + " (images.pull_attempts)"));
    }
    const Millis asked(int64_t{1000} * result.error().retry_after_seconds);
    const Millis left = TRY(patience());
    std::this_thread::sleep_for(std::min({std::max(pause, asked), kLongestPause, left}));
    pause *= 2;
  }
}

Result<> Client::checkStatus(const net::HttpHead& head) const {
  const std::string status = std::to_string(head.status);
  if (head.status == 404) return error(Code::kNotFound, "has it not (404)");
  if (head.status == 401 || head.status == 403) {
    return error(Code::kDenied,
                 "refuses access (" + status + "); " +
                     (options_.login ? "check its login in images.credentials_file"
                                     : "images.credentials_file has no login for it"));
  }
  if (isTransient(head.status)) {
    auto failed = error(Code::kUnavailable, "answers " + status);
    const std::string after = head.header("retry-after");
    int seconds = 0;
    std::from_chars(after.data(), after.data() + after.size(), seconds);
    failed.error().retry_after_seconds = std::clamp(seconds, 0, 3600);
    return failed;
  }
  if (head.status != 200 && head.status != 206) return error(Code::kInternal, "answers " + status);
  return {};
}

Result<std::string> Client::fetchToken(const std::string& realm, const std::string& service,
                                       const std::string& scope) {
  auto url = net::parseUrl(realm);
  if (!url) return error(Code::kDenied, "its token service (realm) " + url.error().message);
  const auto may = mayFollow(options_.base, *url);
  if (!may) return error(Code::kDenied, "its token service: " + may.error().message);
  net::HttpRequest request{.method = "GET", .target = url->target};
  const auto add = [&](std::string_view name, const std::string& value) {
    if (value.empty()) return;
    request.target += request.target.contains('?') ? '&' : '?';
    request.target += std::string(name) + "=" + net::percentEncode(value);
  };
  add("service", service);
  add("scope", scope);
  request.headers = {{"User-Agent", "cloister"}};
  if (options_.login) request.headers["Authorization"] = options_.login->basic();
  BlockingClient client = connectionTo(*url);
  const Millis patient = TRY(patience());
  Answer answer{&client, TRY(client.open(request, patient))};
  if (answer.head.status == 401 || answer.head.status == 403) {
    return error(Code::kDenied, "its token service at " + url->authority() +
                                    " refuses the login (" + std::to_string(answer.head.status) +
                                    "); check images.credentials_file");
  }
  TRY(checkStatus(answer.head));
  std::string body;
  while (TRY(read(answer, body)) != BlockingClient::Piece::kEnd) {
    if (body.size() > kMostTokenAnswer) return error(Code::kTooLarge, "its token is too large");
  }
  return tokenIn(body);
}

// Bearer is preferred, as the specification of tokens demands.
Result<> Client::authenticate(const std::string& header) {
  const auto challenges = TRY(parseChallenges(header));
  const auto bearer = std::ranges::find(challenges, "bearer", &Challenge::scheme);
  if (bearer != challenges.end()) {
    authorization_ = "Bearer " + TRY(fetchToken(bearer->realm, bearer->service, bearer->scope));
    return {};
  }
  const bool basic = std::ranges::find(challenges, "basic", &Challenge::scheme) != challenges.end();
  if (basic && options_.login) {
    authorization_ = options_.login->basic();
    return {};
  }
  if (basic)
    return error(Code::kDenied, "wants a login, and images.credentials_file has none for it");
  return error(Code::kDenied, "wants a kind of login that is not supported");
}

Result<Client::Answer> Client::follow(const std::string& target, net::HttpHead head,
                                      net::HttpRequest request) {
  request.headers.erase("Authorization");
  net::Url from = options_.base;
  from.target = target;
  for (int i = 0; i < kMostRedirects; ++i) {
    const std::string location = head.header("location");
    const auto to = locationOf(from, location);
    if (!to) {
      return error(Code::kDenied, "redirects to " + model::safeText(location, 200) + ", which " +
                                      to.error().message);
    }
    const auto may = mayFollow(from, *to);
    if (!may) return error(Code::kDenied, may.error().message);
    storage_.emplace(connectionTo(*to));
    request.target = to->target;
    const Millis patient = TRY(patience());
    head = TRY(storage_->open(request, patient));
    if (!isRedirect(head.status)) return Answer{&*storage_, std::move(head)};
    from = *to;
  }
  return error(Code::kDenied, "redirects more than " + std::to_string(kMostRedirects) + " times");
}

// `from`: the first wanted byte.
Result<Client::Answer> Client::get(const std::string& target, std::string_view accept,
                                   uint64_t from) {
  net::HttpRequest request{.method = "GET", .target = target, .accept = accept};
  request.headers = {{"User-Agent", "cloister"}};
  if (from > 0) request.headers["Range"] = "bytes=" + std::to_string(from) + "-";
  for (bool asked = false;; asked = true) {
    if (!authorization_.empty()) request.headers["Authorization"] = authorization_;
    const Millis patient = TRY(patience());
    net::HttpHead head = TRY(registry_.open(request, patient));
    if (head.status == 401 && !asked) {  // no credential yet, or a token that has expired
      registry_.close();
      TRY(authenticate(head.header("www-authenticate")));
      continue;
    }
    if (isRedirect(head.status)) {
      registry_.close();
      return follow(target, std::move(head), std::move(request));
    }
    return Answer{&registry_, std::move(head)};
  }
}

Result<BlockingClient::Piece> Client::read(Answer& answer, std::string& piece) {
  const Millis patient = TRY(patience());
  const auto got = TRY(answer.at->read(piece, patient));
  if (got != BlockingClient::Piece::kTimeout) return got;
  TRY(patience());  // the deadline is the better reason
  return error(Code::kUnavailable, "sends nothing for images.pull_stall_seconds");
}

Result<Document> Client::documentOnce(const std::string& target, std::string_view accept,
                                      size_t most) {
  Answer answer = TRY(get(target, accept, 0));
  const auto good = checkStatus(answer.head);
  if (!good) {
    registry_.close();  // the rest of the answer is not read
    return std::unexpected(good.error());
  }
  const std::string type = answer.head.header("content-type");
  Document out{.bytes = {}, .type = type.substr(0, type.find_first_of("; "))};
  while (TRY(read(answer, out.bytes)) != BlockingClient::Piece::kEnd) {
    if (out.bytes.size() <= most) continue;
    registry_.close();
    return error(Code::kTooLarge, "sends more than " + std::to_string(most) + " bytes");
  }
  return out;
}

Result<Document> Client::document(const std::string& repository, const std::string& rest,
                                  std::string_view accept, size_t most) {
  return retried<Document>([&] { return documentOnce(target(repository, rest), accept, most); });
}

Result<> Client::blobOnce(const std::string& target, uint64_t size, Progress& progress,
                          Sink& sink) {
  Answer answer = TRY(get(target, "*/*", progress.got));
  const bool resumed =
      answer.head.status == 206 && firstByte(answer.head.header("content-range")) == progress.got;
  if (progress.got > 0 && !resumed) {
    progress = Progress();
    TRY(sink.restart());
    // Not the wanted part: another request for all of it.
    if (answer.head.status == 206 || answer.head.status == 416) {
      answer = TRY(get(target, "*/*", 0));
    }
  }
  TRY(checkStatus(answer.head));
  while (true) {
    std::string piece;
    const auto got = TRY(read(answer, piece));
    if (got == BlockingClient::Piece::kEnd) break;
    progress.got += piece.size();
    if (progress.got > size) {
      return error(Code::kInvalid, "sends more than the " + std::to_string(size) +
                                       " bytes that the manifest announces");
    }
    progress.hash.update(piece);
    TRY(sink.write(piece));
  }
  if (progress.got == size) return {};
  return error(Code::kUnavailable, "ends after " + std::to_string(progress.got) + " of " +
                                       std::to_string(size) + " bytes");
}

Result<> Client::blob(const std::string& repository, const std::string& digest, uint64_t size,
                      Sink& sink) {
  Progress progress;
  TRY(retried<void>(
      [&] { return blobOnce(target(repository, "/blobs/" + digest), size, progress, sink); }));
  const std::string found = "sha256:" + progress.hash.hex();
  if (found == digest) return {};
  return error(Code::kInvalid, "the content of blob " + digest + " has the digest " + found +
                                   ": it is damaged or was changed");
}

}  // namespace cloister::registry
