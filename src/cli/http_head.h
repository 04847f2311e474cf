// SPDX-License-Identifier: Apache-2.0
// The head of an HTTP/1.1 response (RFC 9112 §4, §5): pure, strict.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/result.h"
#include "cli/http_client.h"

namespace cloister::cli {

// `text` is the status line and the field lines, each ended by CRLF, without the empty line.
// Refused: another protocol, a status that is not three digits, folded lines, bad field names,
// control characters, more than 100 fields.
Result<HttpHead> parseHead(std::string_view text);

// Content-Length, if there is one; equal repetitions count as one (RFC 9112 §6.3).
Result<std::optional<uint64_t>> contentLength(const HttpHead& head);

// The size in a chunk's first line; extensions are ignored.
Result<uint64_t> chunkSize(std::string_view line);

}  // namespace cloister::cli
