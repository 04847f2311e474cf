// SPDX-License-Identifier: Apache-2.0
// MultipartReader: reads a multipart/form-data body (RFC 7578) part by part, while it arrives. A
// part's content is given in pieces, and only the rest of a piece is held. The bytes are hostile.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "api/http/http.h"
#include "base/result.h"

namespace cloister::api::compat {

class MultipartReader {
 public:
  // Gives the next bytes of the body, "" at its end.
  using Source = std::function<Task<Result<std::string>>()>;

  // `content_type`: the header of the request; kInvalid without a boundary.
  static Result<MultipartReader> make(std::string_view content_type, Source source);

  struct Part {
    std::string name;                     // of the form's field
    std::optional<std::string> filename;  // as sent: it may be a path
    std::string content_type;             // "" without one
  };
  // The next part; nullopt after the last. Skips the rest of an unread part. kInvalid for a
  // malformed body.
  Task<Result<std::optional<Part>>> next();
  // The next bytes of the present part; "" at its end.
  Task<Result<std::string>> read();

 private:
  MultipartReader(std::string boundary, Source source)
      : delimiter_("\r\n--" + std::move(boundary)), source_(std::move(source)) {}

  struct Found {
    size_t at = std::string::npos;
    bool known = false;  // that it is a delimiter
  };

  Task<Result<>> more();
  [[nodiscard]] Found findDelimiter() const;

  std::string delimiter_;
  Source source_;
  std::string held_ = "\r\n";  // so that the first delimiter is like all others
  bool in_part_ = false;
  bool begun_ = false;
  bool ended_ = false;
};

}  // namespace cloister::api::compat
