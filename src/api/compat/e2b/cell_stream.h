// SPDX-License-Identifier: Apache-2.0
// CellStream: the lines that E2B's code interpreter sends about a cell, one JSON document each.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "api/http/http.h"
#include "orchestrator/runs/output_log.h"

namespace cloister::api::compat::e2b {

class CellStream {
 public:
  explicit CellStream(std::shared_ptr<orchestrator::OutputLog> log) : log_(std::move(log)) {}

  // Sends lines up to the cell's end. False: the client is gone, or too slow.
  Task<bool> send(BodyWriter& out);

 private:
  Task<bool> sendOutput(BodyWriter& out, bool last);
  Task<bool> sendEnd(BodyWriter& out);
  Task<bool> sendResults(BodyWriter& out, const model::Execution& execution);

  std::shared_ptr<orchestrator::OutputLog> log_;
  uint64_t out_ = 0;
  uint64_t err_ = 0;
  std::string out_rest_;  // the beginning of a character whose other bytes are to come
  std::string err_rest_;
  std::string traceback_;  // may be the error that ends the cell
};

}  // namespace cloister::api::compat::e2b
