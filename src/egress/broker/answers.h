// SPDX-License-Identifier: Apache-2.0
// The answers of hosts that get a secret: nothing of the secret may come back into the sandbox.
// Answers in a coding that cannot be read are refused. Pure.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "redact/matcher.h"

namespace cloister::egress {

using Fields = std::vector<std::pair<std::string, std::string>>;  // names in any case

// Why the answer cannot be read, as the end of a sentence that begins with "it"; "": it can.
std::string unreadable(int status, const Fields& fields);
// Takes the secrets out of the values. A field with a secret in its name is dropped.
void redactFields(Fields& fields, const redact::Patterns& values);
// Whether the bodies are messages of gRPC: a changed message could not be read, so a secret ends
// the answer instead.
bool isGrpc(const Fields& fields);

}  // namespace cloister::egress
