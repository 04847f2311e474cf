// SPDX-License-Identifier: Apache-2.0
// The REST API's JSON ↔ messages of spec/proto, over protobuf's json_util. Fields have the same
// names in both. json_util and the REST API differ in a few points, and the conversion follows the
// REST API there, by the descriptors of the messages:
//
//   integers of 64 bits   json_util writes them as texts; the REST API has exact numbers
//   contents and outputs  `bytes` in messages; in JSON a text with an `encoding` beside it
//   argv, no_artifacts    the two members of a run request that JSON has in another shape
//
// Any thread.
#pragma once

#include <string_view>

#include <google/protobuf/message.h>

#include "base/json.h"
#include "base/result.h"

namespace cloister::rpc {

// The body of a REST request.
Result<base::json::object> toRequest(const google::protobuf::Message& message);

// Sets `message` from the body of an answer. Unknown members are ignored, so that a newer service
// can be called. kInternal if a known member has another type.
Result<> fromAnswer(std::string_view body, google::protobuf::Message& message);

}  // namespace cloister::rpc
