// SPDX-License-Identifier: Apache-2.0
#include "node/outlet.h"

#include <utility>

namespace cloister::node {
namespace {

using runtime::Task;
using wire::FromNode;

constexpr size_t kPiece = size_t{64} << 10;  // maximum output in a frame

}  // namespace

Outlet::Outlet(std::shared_ptr<net::FrameConnection> connection,
               const boost::asio::any_io_executor& executor, uint32_t channel)
    : connection_(std::move(connection)), channel_(channel), changed_(executor) {}

void Outlet::shut() {
  shut_ = true;
  changed_.notify();
}

bool Outlet::acknowledge(uint32_t units) {
  if (units > in_flight_) return shut_;
  in_flight_ -= units;
  changed_.notify();
  return true;
}

void Outlet::onStarted() {
  post(FromNode::kStarted);
}

Task<void> Outlet::onOutput(model::Stream stream, std::string_view bytes) {
  while (!bytes.empty()) {
    const std::string_view piece = bytes.substr(0, kPiece);
    std::string payload(1, static_cast<char>(stream));
    payload += piece;
    co_await sendWindowed(FromNode::kOutput, std::move(payload));
    bytes.remove_prefix(piece.size());
  }
}

Task<void> Outlet::onFileBegin(std::string path, uint64_t size) {
  std::string payload(path.size() + 16, '\0');
  wire::Writer writer(payload.data(), payload.size());
  writer.bytes(path);
  writer.u64(size);
  payload.resize(writer.view().size());
  co_await sendWindowed(FromNode::kFileBegin, std::move(payload));
}

Task<void> Outlet::onFileData(std::string_view bytes) {
  while (!bytes.empty()) {
    const std::string_view piece = bytes.substr(0, kPiece);
    co_await sendWindowed(FromNode::kFileData, std::string(piece));
    bytes.remove_prefix(piece.size());
  }
}

Task<void> Outlet::onFileEnd() {
  co_await sendWindowed(FromNode::kFileEnd, {});
}

void Outlet::onUsage(const model::Usage& usage) {
  model::Usage said = usage;
  said.cpu_millis = cpuNow(usage.cpu_ms);
  if (!connection_->congested()) post(FromNode::kUsage, wire::encodeUsage(said));
}

Task<void> Outlet::sendWindowed(FromNode type, std::string payload) {
  const uint32_t cost = wire::windowCost(payload.size());
  while (in_flight_ + cost > wire::kOutputWindow && !shut_)
    co_await changed_.wait();
  if (shut_) co_return;
  in_flight_ += cost;
  co_await connection_->send(static_cast<uint16_t>(type), channel_, std::move(payload));
}

void Outlet::post(FromNode type, std::string payload) {
  connection_->post(static_cast<uint16_t>(type), channel_, std::move(payload));
}

void Outlet::postError(const Error& error) {
  post(FromNode::kFailed, wire::encodeError(error));
}

}  // namespace cloister::node
