// SPDX-License-Identifier: Apache-2.0
// AWS Signature Version 4 in headers, for S3: the path is encoded once, and the SHA-256 of the body
// is signed. Source: AWS General Reference, "Signature Version 4 signing process", and the Amazon
// S3 API Reference, "Authenticating requests". Pure functions; any thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "base/result.h"

namespace cloister::artifacts {

// A key pair of an account. No member is ever logged.
struct S3Credentials {
  std::string key_id;
  std::string secret;
  std::string token;  // of a session, sent with each request; "" for a lasting key
};

struct SignedRequest {
  std::string_view method;
  std::string path;                                 // percent-encoded, begins with "/"
  std::map<std::string, std::string> query = {};    // raw names and values
  std::map<std::string, std::string> headers = {};  // all signed; names in lower case
  std::string payload_sha256;                       // hex
};

struct SigningScope {
  std::string region;
  std::string service = "s3";
  std::string time;  // "20130524T000000Z"
};

// "name=value&…", encoded and sorted, as in the target of a request.
std::string canonicalQuery(const std::map<std::string, std::string>& query);
// The hashed text, for tests.
std::string canonicalRequest(const SignedRequest& request);
// The value of the header Authorization.
std::string authorizationOf(const SignedRequest& request, const S3Credentials& credentials,
                            const SigningScope& scope);
// "20130524T000000Z" of wall-clock microseconds.
std::string signingTime(int64_t wall_micros);

// The credentials in the text of a file: lines `aws_access_key_id = …`, `aws_secret_access_key = …`
// and perhaps `aws_session_token = …`; lines in brackets, comments and empty lines do not matter.
// kInvalid names what is wrong, without the value.
Result<S3Credentials> parseCredentials(std::string_view text);

}  // namespace cloister::artifacts
