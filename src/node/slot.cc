// SPDX-License-Identifier: Apache-2.0
#include "node/slot.h"

#include <algorithm>
#include <utility>

#include "base/crypto.h"
#include "base/log.h"

namespace cloister::node {
namespace {

using runtime::Task;
using wire::FromNode;

constexpr size_t kPiece = size_t{64} << 10;  // of output in one frame

}  // namespace

Slot::Slot(std::shared_ptr<runtime::Connection> connection, boost::asio::any_io_executor executor,
           uint32_t channel, model::PermitFields permit)
    : connection_(std::move(connection)),
      channel_(channel),
      permit_(std::move(permit)),
      changed_(std::move(executor)) {}

Task<void> Slot::provision(runtime::Runtime& runtime, model::SignedPermit permit) {
  auto sandbox = co_await runtime.provision(permit);
  if (sandbox) {
    sandbox_ = *std::move(sandbox);
    const runtime::SandboxInfo& info = sandbox_->info();
    post(FromNode::kProvisioned,
         wire::encodeProvisioned({info.runtime, info.node, info.image_digest, info.weakened}));
  } else {
    base::log(base::Level::kWarn, "sandbox not provisioned",
              {{"execution", permit_.execution_id}, {"reason", sandbox.error().message}});
    postError(sandbox.error());
  }
  idle();
}

Task<void> Slot::exec(std::string encoded_spec) {
  busy_ = true;
  return execKept(shared_from_this(), std::move(encoded_spec));
}

Task<void> Slot::execKept(std::shared_ptr<Slot> self, std::string encoded_spec) {
  auto outcome = co_await self->perform(std::move(encoded_spec));
  if (outcome) {
    self->post(FromNode::kFinished, wire::encodeOutcome(*outcome));
  } else {
    self->postError(outcome.error());
  }
  self->idle();
}

Task<Result<model::Outcome>> Slot::perform(std::string encoded_spec) {
  if (std::exchange(exec_used_, true)) {
    co_return fail(Code::kDenied, "running a program: its permit was used");
  }
  if (base::sha256Hex(encoded_spec) != permit_.spec_sha256) {
    co_return fail(Code::kDenied, "running a program: it is not the one that its permit names");
  }
  const model::ExecSpec spec = CO_TRY(wire::decodeExecSpec(encoded_spec));
  encoded_spec.clear();
  encoded_spec.shrink_to_fit();
  co_return co_await sandbox_->exec(spec, *this);
}

Task<void> Slot::close() {
  closing_ = true;
  changed_.notify();
  if (sandbox_ && busy_) sandbox_->cancel();
  while (busy_)
    co_await changed_.wait();
  if (sandbox_) {
    if (const auto done = co_await sandbox_->teardown(); !done) {
      base::log(base::Level::kError, "sandbox not torn down",
                {{"execution", permit_.execution_id}, {"reason", done.error().message}});
    }
    sandbox_.reset();
  }
  post(FromNode::kTornDown);
}

void Slot::cancel() {
  if (sandbox_ && busy_) sandbox_->cancel();
}

bool Slot::acknowledge(uint32_t units) {
  if (units > in_flight_) return closing_;
  in_flight_ -= units;
  changed_.notify();
  return true;
}

void Slot::onStarted() {
  post(FromNode::kStarted);
}

Task<void> Slot::onOutput(model::Stream stream, std::string_view bytes) {
  while (!bytes.empty()) {
    const std::string_view piece = bytes.substr(0, kPiece);
    std::string payload(1, static_cast<char>(stream));
    payload += piece;
    co_await sendWindowed(FromNode::kOutput, std::move(payload));
    bytes.remove_prefix(piece.size());
  }
}

Task<void> Slot::onFileBegin(std::string path, uint64_t size) {
  std::string payload(path.size() + 16, '\0');
  wire::Writer writer(payload.data(), payload.size());
  writer.bytes(path);
  writer.u64(size);
  payload.resize(writer.view().size());
  co_await sendWindowed(FromNode::kFileBegin, std::move(payload));
}

Task<void> Slot::onFileData(std::string_view bytes) {
  while (!bytes.empty()) {
    const std::string_view piece = bytes.substr(0, kPiece);
    co_await sendWindowed(FromNode::kFileData, std::string(piece));
    bytes.remove_prefix(piece.size());
  }
}

Task<void> Slot::onFileEnd() {
  co_await sendWindowed(FromNode::kFileEnd, {});
}

void Slot::onUsage(const model::Usage& usage) {
  if (!connection_->congested()) post(FromNode::kUsage, wire::encodeUsage(usage));
}

Task<void> Slot::sendWindowed(FromNode type, std::string payload) {
  const uint32_t cost = wire::windowCost(payload.size());
  while (in_flight_ + cost > wire::kOutputWindow && !closing_)
    co_await changed_.wait();
  if (closing_) co_return;
  in_flight_ += cost;
  co_await connection_->send(static_cast<uint16_t>(type), channel_, std::move(payload));
}

void Slot::idle() {
  busy_ = false;
  changed_.notify();
}

void Slot::post(FromNode type, std::string payload) {
  connection_->post(static_cast<uint16_t>(type), channel_, std::move(payload));
}

void Slot::postError(const Error& error) {
  post(FromNode::kFailed, wire::encodeError(error));
}

}  // namespace cloister::node
