// SPDX-License-Identifier: Apache-2.0
// McpBridge: MCP's stdio transport on one side (one JSON-RPC message per line), POST /mcp on the
// other. The bridge parses only the protocol's era, for the HTTP headers, and cancellations. Each
// request has its own thread and connection; closing the connection cancels a modern request.
#pragma once

#include <atomic>
#include <condition_variable>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "base/json.h"
#include "cli/relay.h"
#include "cli/server.h"
#include "net/blocking_client.h"

namespace cloister::cli {

class McpBridge {
 public:
  static constexpr size_t kMaxLine = size_t{32} << 20;
  static constexpr size_t kMaxUnderWay = 64;  // requests at once; more are refused

  // Lines for the client go to the descriptor `out`, and nothing else does.
  McpBridge(net::Endpoint endpoint, int out) : endpoint_(std::move(endpoint)), out_(out) {}
  McpBridge(const McpBridge&) = delete;
  McpBridge& operator=(const McpBridge&) = delete;
  ~McpBridge();  // ends pending requests

  // A line of the client, without its line end.
  void take(std::string_view line);
  // The client sent a line over kMaxLine.
  void refuseLine();
  // False once the client does not read any more.
  [[nodiscard]] bool alive() const { return alive_; }
  // Waits for pending requests, at most `patience`.
  void settle(Millis patience);
  // Cancels all pending requests, and waits for their end.
  void finish();

 private:
  struct Job {
    base::json::value id;
    std::string key;  // the id as JSON
    std::string body;
    bool modern = false;
    std::map<std::string, std::string> headers;
    Latch stop;
    std::thread thread;
    bool cancelled = false;  // under mutex_, as the next
    bool done = false;
  };
  using JobPtr = std::shared_ptr<Job>;

  void start(const base::json::object& message, std::string_view line);
  void run(const JobPtr& job);
  Result<bool> exchange(const JobPtr& job);  // true: an answer was passed on
  Result<bool> pass(net::BlockingClient& client, const net::HttpHead& head, const JobPtr& job);
  Result<bool> passEvents(net::BlockingClient& client, const JobPtr& job);
  void initialize(const base::json::object& message, std::string_view line);
  void forward(const base::json::object& message, std::string_view line);
  void cancel(const base::json::object& message);
  Result<net::HttpResponse> post(std::string_view body,
                                 const std::map<std::string, std::string>& headers);
  Result<> renew(const std::string& lost);
  std::map<std::string, std::string> legacyHeaders();
  void say(std::string_view message);
  void complain(const base::json::value& id, int code, const std::string& message);
  void reap();

  net::Endpoint endpoint_;
  int out_;
  std::mutex writing_;
  std::atomic<bool> alive_ = true;
  std::mutex mutex_;
  std::condition_variable done_;  // of a job
  std::list<JobPtr> jobs_;
  std::string session_;  // of the legacy era
  std::string version_;
  std::string hello_;  // the initialize request, to make the session again
};

}  // namespace cloister::cli
