// SPDX-License-Identifier: Apache-2.0
// Session: one control connection from its first frame to its end. At the end every sandbox of the
// connection is killed. The first message that is malformed or out of order ends the connection,
// and so does the silence of a control plane that answers no ping. One thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include <boost/asio/steady_timer.hpp>

#include "net/frame_connection.h"
#include "net/heartbeat.h"
#include "node/exec_slot.h"
#include "node/server.h"
#include "node/slot.h"

namespace cloister::node {

using Runtimes = std::map<std::string, runtime::Runtime*>;

class Session : public std::enable_shared_from_this<Session> {
 public:
  // `held_by_others`: number of unremoved sandboxes of earlier connections, which occupy slots.
  Session(std::unique_ptr<net::ByteStream> stream, const ServerConfig& config, PermitGate& gate,
          const Runtimes& runtimes, std::function<size_t()> held_by_others);

  // Serves until the peer leaves or breaks the protocol, then tears everything down. A removal that
  // takes longer than a second goes on by itself.
  runtime::Task<void> run();

  // Number of sandboxes, including sandboxes being made or removed.
  [[nodiscard]] size_t held() const { return slots_.size(); }

 private:
  Result<> handle(net::Frame frame);
  Result<> provision(uint32_t channel, const std::string& payload);
  Result<> plan(uint32_t call, const std::string& payload);
  Result<> exec(Slot& slot, std::string payload);
  Result<> open(uint32_t channel, const std::string& payload);
  Result<> toExec(ExecSlot& exec, net::Frame frame);
  Result<> teardown(uint32_t channel, const std::shared_ptr<Slot>& slot);
  Result<runtime::Runtime*> admit(const model::SignedPermit& permit, bool use,
                                  model::PermitFields& fields);
  void refuse(uint32_t channel, const Error& error);

  runtime::Task<void> provisionSlot(uint32_t channel, runtime::Runtime* runtime,
                                    model::SignedPermit permit);
  runtime::Task<void> closeSlot(uint32_t channel);
  runtime::Task<void> runExec(uint32_t channel, std::shared_ptr<Slot> slot,
                              model::PermitFields permit, wire::OpenRequest request);
  using Images = std::shared_ptr<const std::vector<model::OfferedImage>>;
  [[nodiscard]] Images images() const;
  [[nodiscard]] std::optional<model::ImageState> image() const;
  [[nodiscard]] uint32_t places() const;
  [[nodiscard]] bool idle() const { return slots_.empty() && execs_.empty() && plans_ == 0; }
  // Closes the connection of a silent control plane. The end is the same as of any other
  // connection.
  runtime::Task<void> watch();
  void look();
  void offer();
  void tellImage();
  // Sends news about ready sandboxes and offers, after all other messages, and at most once a
  // second.
  runtime::Task<void> tellChanges();
  runtime::Task<void> answerPlan(uint32_t call, runtime::Runtime* runtime,
                                 model::SignedPermit permit);

  boost::asio::any_io_executor executor_;
  std::shared_ptr<net::FrameConnection> connection_;
  const ServerConfig& config_;
  PermitGate& gate_;
  const Runtimes& runtimes_;
  std::function<size_t()> held_by_others_;
  std::map<uint32_t, std::shared_ptr<Slot>> slots_;
  std::map<uint32_t, std::shared_ptr<ExecSlot>> execs_;
  uint32_t last_channel_ = 0;
  uint32_t plans_ = 0;  // under way
  Images offered_;
  std::optional<model::ImageState> image_told_;
  uint32_t places_offered_ = 0;
  async::Signal changed_;
  boost::asio::steady_timer tell_;
  net::Heartbeat heartbeat_;
  uint64_t heard_ = 0;  // bytes received at the last look()
  boost::asio::steady_timer watch_;
};

}  // namespace cloister::node
