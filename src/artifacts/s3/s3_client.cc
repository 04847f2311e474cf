// SPDX-License-Identifier: Apache-2.0
#include "artifacts/s3/s3_client.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <tuple>
#include <utility>

#include "artifacts/s3/xml.h"
#include "base/crypto.h"
#include "base/id.h"
#include "base/log.h"

namespace cloister::artifacts {
namespace {

constexpr size_t kBodyPiece = size_t{256} << 10;
constexpr size_t kMostList = size_t{4} << 20;
constexpr size_t kMostError = size_t{64} << 10;
constexpr int kBodyTimeouts = 10;  // a body may take this many times the timeout
constexpr int kOk = 200;
constexpr int kPartial = 206;
constexpr int kMissing = 404;
constexpr int kServerErrors = 500;

bool succeeded(int status) {
  constexpr int kRedirects = 300;
  return status >= kOk && status < kRedirects;
}

// Another attempt may succeed.
bool passes(int status) {
  constexpr int kRequestTimeout = 408;
  constexpr int kTooMany = 429;
  constexpr int kNotImplemented = 501;
  return status == kRequestTimeout || status == kTooMany ||
         (status >= kServerErrors && status != kNotImplemented);
}

// A word or sentence of the server: printable, and short.
std::string shown(std::string text) {
  constexpr size_t kMost = 200;
  std::erase_if(text, [](char c) { return c < ' ' || c > '~'; });
  if (text.size() > kMost) text.resize(kMost);
  return text;
}

Result<std::string> readPart(int fd, uint64_t offset, size_t size) {
  std::string bytes(size, '\0');
  size_t got = 0;
  while (got < size) {
    const ssize_t n = ::pread(fd, bytes.data() + got, size - got, static_cast<off_t>(offset + got));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return failErrno("reading the sealed file of a blob");
    if (n == 0) return fail(Code::kInternal, "reading the sealed file of a blob: it is too short");
    got += static_cast<size_t>(n);
  }
  return bytes;
}

Result<std::string> digestOf(const FilePart& part) {
  base::Sha256 digest;
  for (uint64_t at = 0; at < part.size;) {
    const auto size = static_cast<size_t>(std::min<uint64_t>(kBodyPiece, part.size - at));
    digest.update(TRY(readPart(part.fd, part.offset + at, size)));
    at += size;
  }
  return digest.hex();
}

net::BodySource bodyOf(const FilePart& part, base::Monotonic deadline) {
  return net::sourceOf([part, deadline, at = uint64_t{0}]() mutable -> Result<std::string> {
    if (base::monotonicNow() >= deadline) {
      return fail(Code::kUnavailable,
                  "sending a part: it takes too long (artifacts.s3.timeout_seconds)");
    }
    const auto size = static_cast<size_t>(std::min<uint64_t>(kBodyPiece, part.size - at));
    auto piece = TRY(readPart(part.fd, part.offset + at, size));
    at += size;
    return piece;
  });
}

}  // namespace

S3Client::S3Client(S3Options options)
    : options_(std::move(options)), stopped_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

void S3Client::stop() {
  const uint64_t one = 1;
  std::ignore = ::write(stopped_.get(), &one, sizeof one);
}

// False after stop().
bool S3Client::waitBefore(uint32_t attempt) {
  constexpr uint32_t kMostDoublings = 10;
  Millis pause = options_.pause * (1U << std::min(attempt, kMostDoublings));
  pause = std::min(pause, kMostPause);
  // At random, so that calls that failed together do not come back together.
  const auto byte = static_cast<unsigned char>(base::randomHex(1)[0]);
  pause = pause / 2 + pause / 2 * (byte % 16) / 16;
  pollfd polled{stopped_.get(), POLLIN, 0};
  return ::poll(&polled, 1, static_cast<int>(pause.count())) == 0;
}

std::string S3Client::pathOf(const std::string& key) const {
  std::string path = options_.endpoint.url.target + "/" + net::percentEncode(options_.bucket);
  for (size_t at = 0; !key.empty() && at <= key.size();) {
    const size_t end = std::min(key.find('/', at), key.size());
    path += "/" + net::percentEncode(std::string_view(key).substr(at, end - at));
    at = end + 1;
  }
  return path;
}

Result<net::HttpRequest> S3Client::requestOf(const Call& call) const {
  SignedRequest request{
      .method = call.method,
      .path = pathOf(call.key),
      .query = call.query,
      .payload_sha256 = call.file ? TRY(digestOf(*call.file)) : base::sha256Hex(call.text)};
  const std::string time = signingTime(base::wallMicros());
  request.headers = {{"host", options_.endpoint.url.authority()},
                     {"x-amz-content-sha256", request.payload_sha256},
                     {"x-amz-date", time}};
  if (!call.range.empty()) request.headers["range"] = call.range;
  if (!options_.credentials.token.empty()) {
    request.headers["x-amz-security-token"] = options_.credentials.token;
  }
  net::HttpRequest sent{.method = call.method,
                        .target = pathOf(call.key).substr(options_.endpoint.url.target.size()),
                        .body = call.text,
                        .type = "application/xml",
                        .accept = "*/*",
                        .headers = request.headers};
  sent.headers.erase("host");  // the connection sends it
  sent.headers["Authorization"] = authorizationOf(
      request, options_.credentials, {.region = options_.region, .service = "s3", .time = time});
  if (!call.query.empty()) sent.target += "?" + canonicalQuery(call.query);
  if (call.file) {
    sent.source = bodyOf(*call.file, base::monotonicNow() + options_.timeout * kBodyTimeouts);
    sent.length = call.file->size;
  }
  return sent;
}

Result<S3Client::Answer> S3Client::exchange(net::BlockingClient& client, const Call& call) {
  const net::HttpRequest request = TRY(requestOf(call));
  Answer answer{.head = TRY(client.open(request, options_.timeout)), .body = {}};
  const base::Monotonic deadline = base::monotonicNow() + options_.timeout * kBodyTimeouts;
  for (;;) {
    const auto piece = TRY(client.read(answer.body, options_.timeout));
    if (piece == net::BlockingClient::Piece::kEnd) return answer;
    if (answer.body.size() > call.most) {
      return fail(Code::kUnavailable, "reading the answer: it is too large");
    }
    if (piece == net::BlockingClient::Piece::kTimeout || base::monotonicNow() >= deadline) {
      return fail(Code::kUnavailable,
                  "reading the answer: it takes too long (artifacts.s3.timeout_seconds)");
    }
  }
}

net::BlockingClient S3Client::take() {
  const std::lock_guard lock(mutex_);
  if (idle_.empty()) return net::BlockingClient(options_.endpoint, stopped_.get());
  net::BlockingClient client = std::move(idle_.back());
  idle_.pop_back();
  return client;
}

void S3Client::give(net::BlockingClient client) {
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(client));
}

Result<S3Client::Answer> S3Client::attempt(const Call& call) {
  net::BlockingClient client = take();
  auto answer = exchange(client, call);
  // A connection in an unknown state is not used again.
  if (answer) give(std::move(client));
  return answer;
}

Result<S3Client::Answer> S3Client::make(const Call& call) {
  for (uint32_t attempts = 1;; ++attempts) {
    auto answer = attempt(call);
    if (answer) answer->repeated = attempts > 1;
    const bool again =
        answer ? passes(answer->head.status) : answer.error().code == Code::kUnavailable;
    if (again && attempts < options_.attempts && waitBefore(attempts - 1)) continue;
    if (answer) return answer;
    // A broken disk of ours is no matter of S3.
    if (answer.error().code != Code::kUnavailable && answer.error().code != Code::kInvalid) {
      return std::unexpected(std::move(answer).error().within(call.doing));
    }
    // Clients of tenants read the error, and need not know the addresses of the operator.
    base::log(base::Level::kWarn, "S3 not reached",
              {{"doing", call.doing}, {"reason", answer.error().message}});
    return fail(Code::kUnavailable, call.doing + ": the store does not answer");
  }
}

std::unexpected<Error> S3Client::refused(const Call& call, const Answer& answer) const {
  const std::string code = shown(xml::textOf(answer.body, "Code"));
  const std::string message = shown(xml::textOf(answer.body, "Message"));
  std::string why = "HTTP status " + std::to_string(answer.head.status);
  if (!code.empty()) why += ", " + code;
  // The message of a refused signature repeats the signed text.
  if (!message.empty() && code != "SignatureDoesNotMatch") why += " (" + message + ")";
  if (code == "NoSuchBucket") why += "; make the bucket, or correct artifacts.s3.bucket";
  if (code == "SignatureDoesNotMatch" || code == "InvalidAccessKeyId" || code == "AccessDenied") {
    why += "; correct artifacts.s3.credentials_file, or the rights of the key on the bucket";
  }
  if (code == "AuthorizationHeaderMalformed") why += "; correct artifacts.s3.region";
  if (code == "RequestTimeTooSkewed") why += "; set the clock of this machine";
  const bool missing = answer.head.status == kMissing && code != "NoSuchBucket";
  return fail(missing ? Code::kNotFound : Code::kUnavailable,
              call.doing + ": the store answers " + why);
}

Result<> S3Client::put(const std::string& key, const FilePart& body) {
  const Call call{.method = "PUT", .key = key, .file = body, .doing = "putting a blob into S3"};
  const Answer answer = TRY(make(call));
  if (!succeeded(answer.head.status)) return refused(call, answer);
  return {};
}

// Bytes and place of an answer, which Content-Range tells: "bytes 0-9/100".
Result<S3Client::Range> S3Client::rangeOf(const Call& call, const Answer& answer) const {
  Range range;
  range.bytes = answer.body;
  range.total = answer.body.size();
  if (answer.head.status == kOk) return range;
  const std::string text = answer.head.header("content-range");
  const size_t slash = text.find('/');
  constexpr std::string_view kUnit = "bytes ";
  const auto bad = [&] {
    return fail(Code::kUnavailable, call.doing + ": the answer has a wrong Content-Range");
  };
  if (!text.starts_with(kUnit) || slash == std::string::npos) return bad();
  const char* end = text.data() + text.size();
  const auto first = std::from_chars(text.data() + kUnit.size(), end, range.offset);
  const auto total = std::from_chars(text.data() + slash + 1, end, range.total);
  if (first.ec != std::errc() || total.ec != std::errc() || total.ptr != end ||
      range.offset > range.total || range.bytes.size() > range.total - range.offset) {
    return bad();
  }
  return range;
}

Result<S3Client::Range> S3Client::get(const std::string& key, uint64_t offset, size_t size) {
  const Call call{
      .method = "GET",
      .key = key,
      .range = "bytes=" + std::to_string(offset) + "-" + std::to_string(offset + size - 1),
      .doing = "reading a blob from S3",
      .most = std::max(size, kMostError)};
  const Answer answer = TRY(make(call));
  if (answer.head.status != kOk && answer.head.status != kPartial) return refused(call, answer);
  Range range = TRY(rangeOf(call, answer));
  if (range.offset == offset && range.bytes.size() == size) return range;
  return fail(Code::kUnavailable, call.doing + ": the answer has another range than was asked for");
}

Result<S3Client::Range> S3Client::tail(const std::string& key, size_t size) {
  const Call call{.method = "GET",
                  .key = key,
                  .range = "bytes=-" + std::to_string(size),
                  .doing = "opening a blob in S3",
                  .most = std::max(size, kMostError)};
  const Answer answer = TRY(make(call));
  if (answer.head.status != kOk && answer.head.status != kPartial) return refused(call, answer);
  Range range = TRY(rangeOf(call, answer));
  if (range.offset + range.bytes.size() == range.total) return range;
  return fail(Code::kUnavailable, call.doing + ": the answer has another range than was asked for");
}

Result<> S3Client::remove(const std::string& key) {
  const Call call{.method = "DELETE", .key = key, .doing = "removing a blob from S3"};
  const Answer answer = TRY(make(call));
  if (succeeded(answer.head.status)) return {};
  auto error = refused(call, answer);
  if (error.error().code == Code::kNotFound) return {};
  return error;
}

Result<std::string> S3Client::begin(const std::string& key) {
  const Call call{.method = "POST",
                  .key = key,
                  .query = {{"uploads", ""}},
                  .doing = "beginning an upload to S3"};
  const Answer answer = TRY(make(call));
  std::string id = xml::textOf(answer.body, "UploadId");
  if (!succeeded(answer.head.status)) return refused(call, answer);
  if (id.empty()) return fail(Code::kUnavailable, call.doing + ": the answer has no UploadId");
  return id;
}

Result<std::string> S3Client::put(const std::string& key, const std::string& upload,
                                  uint32_t number, const FilePart& body) {
  const Call call{.method = "PUT",
                  .key = key,
                  .query = {{"partNumber", std::to_string(number)}, {"uploadId", upload}},
                  .file = body,
                  .doing = "putting part " + std::to_string(number) + " of a blob into S3"};
  const Answer answer = TRY(make(call));
  if (!succeeded(answer.head.status)) return refused(call, answer);
  std::string tag = answer.head.header("etag");
  if (tag.empty()) return fail(Code::kUnavailable, call.doing + ": the answer has no ETag");
  return tag;
}

Result<> S3Client::complete(const std::string& key, const std::string& upload,
                            const std::vector<std::string>& tags) {
  Call call{.method = "POST",
            .key = key,
            .query = {{"uploadId", upload}},
            .text = "<CompleteMultipartUpload>",
            .doing = "completing an upload to S3"};
  for (size_t i = 0; i < tags.size(); ++i) {
    call.text += "<Part><PartNumber>" + std::to_string(i + 1) + "</PartNumber><ETag>" +
                 xml::escaped(tags[i]) + "</ETag></Part>";
  }
  call.text += "</CompleteMultipartUpload>";
  const Answer answer = TRY(make(call));
  // An error may come with status 200, after blanks that kept the connection alive.
  const bool failed = !xml::elements(answer.body, "Error").empty();
  if (succeeded(answer.head.status) && !failed) return {};
  // An earlier attempt, whose answer was lost, has completed it.
  if (answer.repeated && answer.head.status == kMissing && tail(key, 1)) return {};
  auto error = refused(call, answer);
  if (error.error().code == Code::kNotFound) error.error().code = Code::kUnavailable;
  return error;
}

Result<> S3Client::abort(const std::string& key, const std::string& upload) {
  const Call call{.method = "DELETE",
                  .key = key,
                  .query = {{"uploadId", upload}},
                  .doing = "aborting an upload to S3"};
  const Answer answer = TRY(make(call));
  if (succeeded(answer.head.status)) return {};
  auto error = refused(call, answer);
  if (error.error().code == Code::kNotFound) return {};
  return error;
}

Result<std::vector<std::string>> S3Client::list(const std::string& prefix) {
  const Call call{
      .method = "GET",
      .query = {{"list-type", "2"}, {"max-keys", std::to_string(kMostListed)}, {"prefix", prefix}},
      .doing = "listing blobs in S3",
      .most = kMostList};
  const Answer answer = TRY(make(call));
  if (!succeeded(answer.head.status)) return refused(call, answer);
  std::vector<std::string> keys;
  for (const std::string_view each : xml::elements(answer.body, "Contents")) {
    std::string key = xml::textOf(each, "Key");
    if (key.starts_with(prefix) && keys.size() < kMostListed) keys.push_back(std::move(key));
  }
  return keys;
}

Result<std::vector<S3Client::Upload>> S3Client::uploads(const std::string& prefix) {
  const Call call{
      .method = "GET",
      .query = {{"max-uploads", std::to_string(kMostListed)}, {"prefix", prefix}, {"uploads", ""}},
      .doing = "listing uploads to S3",
      .most = kMostList};
  const Answer answer = TRY(make(call));
  if (!succeeded(answer.head.status)) return refused(call, answer);
  std::vector<Upload> uploads;
  for (const std::string_view each : xml::elements(answer.body, "Upload")) {
    Upload upload{.key = xml::textOf(each, "Key"), .id = xml::textOf(each, "UploadId")};
    const auto began = base::parseTime(xml::textOf(each, "Initiated"));
    if (!upload.key.starts_with(prefix) || upload.id.empty() || !began) continue;
    upload.began_at = *began;
    if (uploads.size() < kMostListed) uploads.push_back(std::move(upload));
  }
  return uploads;
}

Result<> S3Client::check(const std::string& prefix) {
  const Call call{.method = "GET",
                  .query = {{"list-type", "2"}, {"max-keys", "1"}, {"prefix", prefix}},
                  .doing = "looking at the bucket " + options_.bucket + " of " +
                           options_.endpoint.url.authority(),
                  .most = kMostList};
  auto answer = attempt(call);
  if (!answer) return std::unexpected(std::move(answer).error().within(call.doing));
  if (succeeded(answer->head.status)) return {};
  auto error = refused(call, *answer);
  error.error().code = passes(answer->head.status) ? Code::kUnavailable : Code::kInvalid;
  return error;
}

}  // namespace cloister::artifacts
