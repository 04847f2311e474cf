// SPDX-License-Identifier: Apache-2.0
// Cloister as a contestant: a private server, called over HTTP by ordinary clients.
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <spawn.h>

#include "base/file.h"
#include "base/json.h"
#include "bench/contestant.h"

namespace cloister::bench {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
namespace json = base::json;
using Tcp = asio::ip::tcp;

std::string trimmed(std::string text) {
  text.erase(text.find_last_not_of(" \n") + 1);
  return text;
}

struct Answer {
  unsigned status = 0;
  std::string body;
};

// A kept connection.
class Connection {
 public:
  Result<> open(const std::string& address) {
    const size_t colon = address.rfind(':');
    if (colon == std::string::npos) return fail(Code::kInternal, "no port in " + address);
    boost::system::error_code error;
    const auto port = static_cast<uint16_t>(std::stoi(address.substr(colon + 1)));
    socket_.connect({asio::ip::make_address(address.substr(0, colon), error), port}, error);
    if (!error) socket_.set_option(Tcp::no_delay(true), error);
    if (error) return fail(Code::kUnavailable, "connecting to " + address + ": " + error.message());
    host_ = address;
    return {};
  }

  Result<Answer> ask(http::verb verb, const std::string& target, const std::string& key,
                     const std::string& body) {
    http::request<http::string_body> request(verb, target, 11);
    request.set(http::field::host, host_);
    request.set(http::field::authorization, "Bearer " + key);
    request.set(http::field::content_type, "application/json");
    request.body() = body;
    request.prepare_payload();
    boost::system::error_code error;
    http::write(socket_, request, error);
    http::response<http::string_body> response;
    if (!error) http::read(socket_, buffer_, response, error);
    if (error) return fail(Code::kUnavailable, target + ": " + error.message());
    return Answer{response.result_int(), std::move(response.body())};
  }

 private:
  asio::io_context context_;
  Tcp::socket socket_{context_};
  boost::beast::flat_buffer buffer_;
  std::string host_;
};

class HttpClient : public Client {
 public:
  explicit HttpClient(std::string key) : key_(std::move(key)) {}
  Result<> open(const std::string& address) { return connection_.open(address); }

  // From now on everything runs in a session of its own.
  Result<> openSession(const std::string& language) {
    const json::object request = {{"language", language}};
    const Answer answer =
        TRY(connection_.ask(http::verb::post, "/v1/sessions", key_, base::toJson(request)));
    const json::value body = TRY(base::parseJson(answer.body));
    const json::value* id = body.is_object() ? body.get_object().if_contains("id") : nullptr;
    if (answer.status != 201 || id == nullptr || !id->is_string()) {
      return fail(Code::kInternal, "making a session: " + answer.body);
    }
    target_ = "/v1/sessions/" + std::string(id->get_string()) + "/exec?wait=30";
    return {};
  }

  Result<std::string> run(const Work& work) override {
    const Answer answer = TRY(connection_.ask(http::verb::post, target_, key_, work.request));
    const json::value body = TRY(base::parseJson(answer.body));
    const json::object* object = body.if_object();
    const json::value* code = object != nullptr ? object->if_contains("exit_code") : nullptr;
    if (answer.status != 200 || code == nullptr || *code != json::value(0)) {
      return fail(Code::kInternal,
                  "cloister: " + std::to_string(answer.status) + " " + answer.body);
    }
    return std::string(object->at("stdout").as_string());
  }

 private:
  std::string key_;
  std::string target_ = "/v1/executions?wait=30";
  Connection connection_;
};

class InSession : public Contestant {
 public:
  InSession(std::string dir, std::string language)
      : dir_(std::move(dir)), language_(std::move(language)) {}
  [[nodiscard]] std::string name() const override { return "cloister, in a session"; }

  Result<std::unique_ptr<Client>> client() override {
    const std::string key = TRY(base::readFile(dir_ + "/admin.key"));
    const std::string address = TRY(base::readFile(dir_ + "/address"));
    auto client = std::make_unique<HttpClient>(trimmed(key));
    TRY(client->open(trimmed(address)));
    TRY(client->openSession(language_));
    return client;
  }

 private:
  std::string dir_, language_;
};

class Server : public Contestant {
 public:
  Server(std::string dir, bool pool) : dir_(std::move(dir)), pool_(pool) {}
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  ~Server() override {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGTERM);
    ::waitpid(pid_, nullptr, 0);
  }

  [[nodiscard]] std::string name() const override {
    return pool_ ? "cloister" : "cloister, no pool";
  }

  [[nodiscard]] pid_t server() const override { return pid_; }

  Result<std::unique_ptr<Client>> client() override {
    auto client = std::make_unique<HttpClient>(key_);
    TRY(client->open(address_));
    return client;
  }

  Result<> start(const std::string& bin) {
    const std::string program = bin + "/cloister";
    const std::string log = dir_ + "/log";
    const std::string config = dir_ + "/bench.yaml";
    TRY(base::writeFileAtomic(config, pool_ ? "{}\n" : "pool:\n  ready: 0\n", 0644));
    const char* argv[] = {program.c_str(), "serve",    "--listen",     "127.0.0.1:0", "--state",
                          dir_.c_str(),    "--config", config.c_str(), nullptr};
    const char* env[] = {"PATH=/usr/local/bin:/usr/bin:/bin", "CLOISTER_LOG=warn", nullptr};
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_addopen(&actions, 1, log.c_str(), O_WRONLY | O_CREAT, 0644);
    ::posix_spawn_file_actions_adddup2(&actions, 1, 2);
    const int error = ::posix_spawn(&pid_, program.c_str(), &actions, nullptr,
                                    const_cast<char**>(argv), const_cast<char**>(env));
    ::posix_spawn_file_actions_destroy(&actions);
    if (error != 0) return failErrno("starting " + program, error);
    return waitUntilReady();
  }

 private:
  Result<> waitUntilReady() {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (std::chrono::steady_clock::now() < end) {
      if (ready()) return {};
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    const auto log = base::readFile(dir_ + "/log");
    return fail(Code::kUnavailable, "the server did not become ready: " + log.value_or(""));
  }

  bool ready() {
    const auto address = base::readFile(dir_ + "/address");
    const auto key = base::readFile(dir_ + "/admin.key");
    if (!address || !key) return false;
    address_ = trimmed(*address);
    key_ = trimmed(*key);
    Connection connection;
    if (!connection.open(address_)) return false;
    const auto answer = connection.ask(http::verb::get, "/readyz", key_, "");
    return answer && answer->status == 200;
  }

  std::string dir_;
  bool pool_;
  std::string address_;
  std::string key_;
  pid_t pid_ = 0;
};

}  // namespace

Result<std::unique_ptr<Contestant>> cloister(const std::string& bin, const std::string& dir,
                                             bool pool) {
  TRY(base::makeDirs(dir));
  auto server = std::make_unique<Server>(dir, pool);
  TRY(server->start(bin));
  return server;
}

std::unique_ptr<Contestant> inSession(const std::string& dir, const std::string& language) {
  return std::make_unique<InSession>(dir, language);
}

}  // namespace cloister::bench
