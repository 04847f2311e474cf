// SPDX-License-Identifier: Apache-2.0
#include "artifacts/s3/sigv4.h"

#include <algorithm>
#include <ctime>

#include "base/crypto.h"
#include "base/hmac.h"
#include "net/url.h"

namespace cloister::artifacts {
namespace {

constexpr std::string_view kAlgorithm = "AWS4-HMAC-SHA256";
constexpr size_t kDateDigits = 8;

std::string trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r";
  const size_t from = text.find_first_not_of(kBlank);
  if (from == std::string_view::npos) return {};
  return std::string(text.substr(from, text.find_last_not_of(kBlank) + 1 - from));
}

std::string signedNames(const SignedRequest& request) {
  std::string names;
  for (const auto& [name, value] : request.headers)
    names += (names.empty() ? "" : ";") + name;
  return names;
}

std::string scopeOf(const SigningScope& scope) {
  return scope.time.substr(0, kDateDigits) + "/" + scope.region + "/" + scope.service +
         "/aws4_request";
}

std::string signatureOf(const std::string& text, const S3Credentials& credentials,
                        const SigningScope& scope) {
  std::string key = "AWS4" + credentials.secret;
  for (const std::string& part : {scope.time.substr(0, kDateDigits), scope.region, scope.service,
                                  std::string("aws4_request")})
    key = base::hmacSha256(key, part);
  return base::hmacSha256Hex(key, text);
}

bool isPlainWord(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c > ' ' && c < 0x7f; });
}

}  // namespace

std::string canonicalQuery(const std::map<std::string, std::string>& query) {
  std::map<std::string, std::string> encoded;  // sorted by the encoded names
  for (const auto& [name, value] : query)
    encoded.emplace(net::percentEncode(name), net::percentEncode(value));
  std::string text;
  for (const auto& [name, value] : encoded)
    text += (text.empty() ? "" : "&") + name + "=" + value;
  return text;
}

std::string canonicalRequest(const SignedRequest& request) {
  std::string text(request.method);
  text.append("\n").append(request.path).append("\n");
  text.append(canonicalQuery(request.query)).append("\n");
  for (const auto& [name, value] : request.headers)
    text.append(name).append(":").append(trimmed(value)).append("\n");
  return text.append("\n").append(signedNames(request)).append("\n").append(request.payload_sha256);
}

std::string authorizationOf(const SignedRequest& request, const S3Credentials& credentials,
                            const SigningScope& scope) {
  const std::string text = std::string(kAlgorithm) + "\n" + scope.time + "\n" + scopeOf(scope) +
                           "\n" + base::sha256Hex(canonicalRequest(request));
  return std::string(kAlgorithm) + " Credential=" + credentials.key_id + "/" + scopeOf(scope) +
         ",SignedHeaders=" + signedNames(request) +
         ",Signature=" + signatureOf(text, credentials, scope);
}

std::string signingTime(int64_t wall_micros) {
  constexpr int64_t kMicros = 1'000'000;
  const auto seconds = static_cast<time_t>(wall_micros / kMicros);
  std::tm utc{};
  ::gmtime_r(&seconds, &utc);
  char text[32];
  const size_t size = std::strftime(text, sizeof text, "%Y%m%dT%H%M%SZ", &utc);
  return {text, size};
}

Result<S3Credentials> parseCredentials(std::string_view text) {
  S3Credentials credentials;
  size_t number = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = trimmed(text.substr(at, end - at));
    at = end + 1;
    ++number;
    if (line.empty() || line[0] == '#' || line[0] == ';' || line[0] == '[') continue;
    const size_t equals = line.find('=');
    const std::string name = trimmed(std::string_view(line).substr(0, equals));
    const std::string value =
        equals == std::string::npos ? "" : trimmed(std::string_view(line).substr(equals + 1));
    std::string* member = name == "aws_access_key_id"       ? &credentials.key_id
                          : name == "aws_secret_access_key" ? &credentials.secret
                          : name == "aws_session_token"     ? &credentials.token
                                                            : nullptr;
    if (member != nullptr && member->empty() && isPlainWord(value)) {
      *member = value;
      continue;
    }
    return fail(Code::kInvalid,
                "line " + std::to_string(number) +
                    " must be `aws_access_key_id = …`, `aws_secret_access_key = …` or "
                    "`aws_session_token = …`, each once");
  }
  if (!credentials.key_id.empty() && !credentials.secret.empty()) return credentials;
  return fail(Code::kInvalid,
              "must have the lines `aws_access_key_id = …` and "
              "`aws_secret_access_key = …`");
}

}  // namespace cloister::artifacts
