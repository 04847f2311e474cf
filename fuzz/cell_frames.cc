// SPDX-License-Identifier: Apache-2.0
// The frames of an interpreter's program (wire/kernel.h), in pieces of any size: streams are passed
// on, results keep their bound and their JSON is whole, and after a violation nothing more is read.
// The first byte gives the size of the pieces.
#include "orchestrator/sessions/cell_frames.h"

#include <algorithm>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>

#include "observer.h"

using namespace cloister;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0 || size > 100'000) return 0;
  const std::string_view said(reinterpret_cast<const char*>(data + 1), size - 1);
  const size_t piece = 1 + data[0];
  orchestrator::KernelBounds bounds;
  bounds.results_bytes = 4096;
  fuzz::StrictObserver observer(0, 0);
  orchestrator::CellFrames frames(observer, bounds, [] {});
  frames.onStarted();
  boost::asio::io_context io;
  bool ended = false;
  boost::asio::co_spawn(
      io,
      [&]() -> runtime::Task<void> {
        for (size_t at = 0; at < said.size(); at += piece)
          co_await frames.onOutput(model::Stream::kStdout, said.substr(at, piece));
        ended = true;
      },
      boost::asio::detached);
  io.run();
  REQUIRE(ended);
  REQUIRE(frames.resultsBytes() <= bounds.results_bytes);
  REQUIRE(frames.results().size() <= said.size());
  std::ignore = base::toJson(frames.results());
  return 0;
}
