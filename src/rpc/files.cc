// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include <cloister/v1/files.grpc.pb.h>

#include "rpc/json_mapping.h"
#include "rpc/reactors.h"
#include "rpc/services.h"

namespace cloister::rpc {
namespace {

using Context = grpc::CallbackServerContext;
using google::protobuf::Empty;
using net::HttpConnection;

constexpr Millis kSilence{60'000};

Result<std::string> filesOf(std::string_view session, std::string_view rest = "") {
  return "/v1/sessions/" + TRY(partOf(session, "session_id")) + "/files" + std::string(rest);
}

// The route of one file, without its query.
template <class Request>
Result<std::string> fileOf(const Request& request) {
  return TRY(filesOf(request.session_id(), "/")) + TRY(pathOf(request.path(), "path"));
}

Result<Ask> askToRead(const v1::ReadFileRequest& request) {
  Query query;
  query.add("root", request.has_root(), request.root());
  Ask ask{.target = TRY(fileOf(request)) + query.text(), .accept = "*/*"};
  const int64_t from = request.offset();
  if (from < 0) return fail(Code::kInvalid, "offset: must not be negative", "offset");
  if (request.has_limit() && request.limit() < 1) {
    return fail(Code::kInvalid, "limit: must be at least 1", "limit");
  }
  if (request.has_offset() || request.has_limit()) {
    std::string range = "bytes=" + std::to_string(from) + "-";
    const int64_t room = std::numeric_limits<int64_t>::max() - from;
    if (request.has_limit()) {
      range += std::to_string(from + std::min(request.limit() - 1, room));
    }
    ask.more.emplace("Range", std::move(range));
  }
  return ask;
}

std::optional<int64_t> numberOf(std::string_view text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// Size of the whole file, from "bytes 0-99/1234" or from the length of the answer.
std::optional<int64_t> sizeOf(const net::HttpHead& head) {
  const std::string range = head.header("content-range");
  if (range.empty()) return numberOf(head.header("content-length"));
  return numberOf(std::string_view(range).substr(range.find('/') + 1));
}

Reply<> dataLoss() {
  return std::unexpected(Refusal(
      grpc::Status(grpc::StatusCode::DATA_LOSS, "the file broke off: it may have become shorter")));
}

// The body of an upload: the messages of a call, one piece each.
class Upload {
 public:
  Upload(Call& call, Receiver<v1::WriteFileRequest>& receiver) : call_(call), receiver_(receiver) {}

  Task<Reply<const v1::WriteFileRequest*>> first() {
    if (co_await receiver_.receive(message_)) co_return &message_;
    co_return std::unexpected(call_.refusal(
        Error{Code::kInvalid, "the stream has no message: the first names the session and the path",
              ""}));
  }

  // The next piece; "" at the end. An error unless the last message said `finish_write`: a client
  // that is gone looks like one that has sent all.
  Task<Result<std::string>> next() {
    for (;;) {
      if (std::string piece = std::exchange(*message_.mutable_data(), {}); !piece.empty()) {
        co_return piece;
      }
      if (message_.finish_write()) co_return std::string();
      if (!co_await receiver_.receive(message_)) {
        unfinished_ = true;
        co_return fail(Code::kInvalid, kUnfinished, "finish_write");
      }
    }
  }

  [[nodiscard]] bool cutShort() const { return unfinished_; }
  static constexpr const char* kUnfinished =
      "the stream ended without a message with finish_write: the file stays as it was";

 private:
  Call& call_;
  Receiver<v1::WriteFileRequest>& receiver_;
  v1::WriteFileRequest message_;
  bool unfinished_ = false;
};

class Files final : public v1::Files::CallbackService {
 public:
  explicit Files(Parts parts) : calls_(parts.calls), upstream_(parts.upstream) {}

  grpc::ServerUnaryReactor* List(Context* context, const v1::ListFilesRequest* request,
                                 v1::ListFilesResponse* out) override {
    return unary(calls_, context, [this, request, out](Call& call) -> Task<Reply<>> {
      Query query;
      query.add("path", request->has_path(), request->path())
          .add("depth", request->has_depth(), request->depth())
          .add("limit", request->has_limit(), request->limit())
          .add("root", request->has_root(), request->root());
      const std::string target = CO_TRY(filesOf(request->session_id(), query.text()));
      co_return co_await upstream_.exchange(call, {.target = target}, *out);
    });
  }

  grpc::ServerWriteReactor<v1::FileChunk>* Read(Context* context,
                                                const v1::ReadFileRequest* request) override {
    return sending<v1::FileChunk>(
        calls_, context,
        [this, request](Call& call, Sender<v1::FileChunk>& sender) -> Task<Reply<>> {
          const Ask ask = CO_TRY(askToRead(*request));
          co_return co_await read(call, ask, request->offset(), sender);
        });
  }

  grpc::ServerReadReactor<v1::WriteFileRequest>* Write(Context* context,
                                                       v1::FileEntry* out) override {
    return receiving<v1::WriteFileRequest>(
        calls_, context,
        [this, out](Call& call, Receiver<v1::WriteFileRequest>& receiver) -> Task<Reply<>> {
          co_return co_await write(call, receiver, *out);
        });
  }

  grpc::ServerUnaryReactor* Delete(Context* context, const v1::DeleteFileRequest* request,
                                   Empty*) override {
    return unary(calls_, context, [this, request](Call& call) -> Task<Reply<>> {
      Query query;
      query.add("root", request->has_root(), request->root())
          .flag("recursive", request->recursive());
      const std::string target = CO_TRY(fileOf(*request));
      CO_TRY(
          co_await upstream_.exchange(call, {.method = "DELETE", .target = target + query.text()}));
      co_return Reply<>{};
    });
  }

  grpc::ServerUnaryReactor* MakeDirectory(Context* context, const v1::MakeDirectoryRequest* request,
                                          v1::FileEntry* out) override {
    return unary(calls_, context, [this, request, out](Call& call) -> Task<Reply<>> {
      const Ask ask = CO_TRY(askToChange(*request, ":mkdir"));
      co_return co_await upstream_.exchange(call, ask, *out);
    });
  }

  grpc::ServerUnaryReactor* Move(Context* context, const v1::MoveFileRequest* request,
                                 Empty*) override {
    return unary(calls_, context, [this, request](Call& call) -> Task<Reply<>> {
      const Ask ask = CO_TRY(askToChange(*request, ":move"));
      CO_TRY(co_await upstream_.exchange(call, ask));
      co_return Reply<>{};
    });
  }

 private:
  template <class Request>
  static Result<Ask> askToChange(const Request& request, std::string_view verb) {
    Query query;
    query.add("root", request.has_root(), request.root());
    base::json::object body = TRY(toRequest(request));
    body.erase("session_id");
    body.erase("root");
    return Ask{.method = "POST",
               .target = TRY(filesOf(request.session_id(), verb)) + query.text(),
               .body = base::toJson(body)};
  }

  Task<Reply<>> read(Call& call, const Ask& ask, int64_t offset, Sender<v1::FileChunk>& sender) {
    Exchange exchange(upstream_, call);
    const net::HttpHead head = CO_TRY(co_await exchange.succeed(ask, call.within(kSilence)));
    v1::FileChunk chunk;
    if (const auto size = sizeOf(head)) chunk.set_size(*size);
    chunk.set_etag(head.header("etag"));
    chunk.set_content_type(head.header("content-type"));
    for (bool first = true;; first = false) {
      chunk.clear_data();
      auto piece = co_await exchange.read(*chunk.mutable_data(), base::monotonicNow() + kSilence);
      const bool whole = piece && *piece == HttpConnection::Piece::kEnd;
      if (call.ended() != Call::End::kNone) co_return std::unexpected(call.refusal(Error{}));
      if (!piece || *piece == HttpConnection::Piece::kTimeout) co_return dataLoss();
      if (whole && !first) co_return Reply<>{};
      chunk.set_offset(offset);
      offset += static_cast<int64_t>(chunk.data().size());
      if (!co_await sender.send(chunk)) {
        call.end(Call::End::kCancelled);
        co_return std::unexpected(call.refusal(Error{}));
      }
      if (whole) co_return Reply<>{};
      chunk.clear_size();
      chunk.clear_etag();
      chunk.clear_content_type();
    }
  }

  Task<Reply<>> write(Call& call, Receiver<v1::WriteFileRequest>& receiver, v1::FileEntry& out) {
    Upload upload(call, receiver);
    const v1::WriteFileRequest& head = *CO_TRY(co_await upload.first());
    Query query;
    query.add("root", head.has_root(), head.root())
        .add("mode", head.has_mode(), head.mode())
        .add("offset", head.has_offset(), head.offset());
    Ask ask{.method = "PUT", .target = CO_TRY(fileOf(head)) + query.text()};
    ask.source = [&upload] { return upload.next(); };
    Exchange exchange(upstream_, call);
    const auto answered = co_await exchange.succeed(ask, call.within(kSilence));
    if (!answered) {
      const Error unfinished{Code::kInvalid, Upload::kUnfinished, "finish_write"};
      co_return std::unexpected(upload.cutShort() ? call.refusal(Refusal(unfinished))
                                                  : answered.error());
    }
    const std::string body = CO_TRY(co_await exchange.rest(call.within(kSilence)));
    CO_TRY(fromAnswer(body, out));
    co_return Reply<>{};
  }

  Calls& calls_;
  Upstream& upstream_;
};

}  // namespace

std::unique_ptr<grpc::Service> files(Parts parts) {
  return std::make_unique<Files>(parts);
}

}  // namespace cloister::rpc
