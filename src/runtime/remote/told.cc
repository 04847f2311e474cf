// SPDX-License-Identifier: Apache-2.0
#include "runtime/remote/told.h"

#include <string>
#include <utility>

#include "base/clock.h"
#include "model/image_name.h"
#include "wire/node.h"

namespace cloister::runtime {

Error toldByNode(const std::string& payload) {
  auto told = wire::decodeError(payload);
  if (!told) return {Code::kInternal, "the node failed without a readable reason", {}};
  Error error = *std::move(told);
  const bool usual = error.code == Code::kDenied || error.code == Code::kUnsupported ||
                     error.code == Code::kQuota || error.code == Code::kNoSpace ||
                     error.code == Code::kConflict;
  if (!usual) error.code = Code::kInternal;
  // The member of a request is the control plane's to name. One word is for the control plane
  // itself: the node has lost a layer of the permit (orchestrator/core/layers.h), which is made
  // again, once.
  if (error.field != "layers") error.field.clear();
  return error;
}

Result<model::ImageState> toldImage(const net::Frame& frame) {
  const auto wrong = [](const std::string& what) {
    return fail(Code::kInvalid, "reading the state of the node's image: " + what);
  };
  if (frame.channel != 0 || frame.payload.size() > wire::kMaxImage) {
    return wrong("out of its bounds");
  }
  wire::ImageTold told = TRY(wire::decodeImage(frame.payload));
  model::ImageState& state = told.state;
  if (!state.digest.empty() && !model::isImageDigest(state.digest)) {
    return wrong("its digest is none");
  }
  // Transmission time only increases the difference.
  int64_t sum = 0;
  if (__builtin_sub_overflow(base::wallMicros(), told.told_at, &state.clock_ahead) ||
      __builtin_add_overflow(state.changed_at, state.clock_ahead, &sum)) {
    return wrong("its time is none");
  }
  return std::move(state);
}

}  // namespace cloister::runtime
