// SPDX-License-Identifier: Apache-2.0
// Validation of a node's messages.
#pragma once

#include <string>

#include "base/result.h"
#include "model/image_state.h"
#include "net/frame_connection.h"

namespace cloister::runtime {

// The error in a node's own words: text for a reader, and never "the node is gone".
Error toldByNode(const std::string& payload);

// The state of the content of its own image, from a kImage; its time by our clock. kInvalid for
// what no node of ours says.
Result<model::ImageState> toldImage(const net::Frame& frame);

}  // namespace cloister::runtime
