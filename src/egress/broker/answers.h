// SPDX-License-Identifier: Apache-2.0
// The answers of hosts that get a secret: nothing of the secret may come back into the sandbox.
// Answers in a coding that cannot be read are refused. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "redact/matcher.h"

namespace cloister::egress {

using Fields = std::vector<std::pair<std::string, std::string>>;  // names in any case

// Why the answer cannot be read, as the end of a sentence that begins with "it"; "": it can.
std::string unreadable(int status, const Fields& fields);
// Takes the secrets out of the values. A field with a secret in its name is dropped.
void redactFields(Fields& fields, const redact::Patterns& values);

// The body of an answer, without the secrets. Bytes that may begin a secret are held back until
// more come, but not over the end of a message of gRPC or an event of a stream of events
// (text/event-stream): the receiver may answer before the next one comes.
class CleanBody {
 public:
  // `fields` of the answer's head tell the kind of the body.
  CleanBody(std::shared_ptr<const redact::Patterns> values, const Fields& fields);

  // → the bytes that may be passed on. kDenied: a message of gRPC has a secret, or cannot be read.
  // Nobody could read a changed message, so the answer has to end; the message is a sentence.
  Result<std::string> feed(std::string_view bytes);
  // The rest, after the last bytes.
  Result<std::string> finish();

 private:
  enum class Kind : uint8_t { kPlain, kEvents, kGrpc };

  // Bytes up to the next boundary, or all; whether they end there.
  Result<std::pair<size_t, bool>> measure(std::string_view bytes);
  Result<std::pair<size_t, bool>> measureMessage(std::string_view bytes);
  std::pair<size_t, bool> measureEvent(std::string_view bytes);
  [[nodiscard]] Result<> check() const;

  std::shared_ptr<const redact::Patterns> values_;
  Kind kind_ = Kind::kPlain;
  std::optional<redact::Stream> stream_;
  std::string prefix_;      // of a message: its flag and length, as far as they came
  uint64_t left_ = 0;       // of a message
  bool empty_line_ = true;  // of an event: the present line has no byte
};

}  // namespace cloister::egress
