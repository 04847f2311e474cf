// SPDX-License-Identifier: Apache-2.0
#include "egress/packages/file_body.h"

#include <algorithm>

#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace cloister::egress {

namespace asio = boost::asio;

FileBody::FileBody(Source source, std::shared_ptr<const model::PlanPackages> packages,
                   std::unique_ptr<PackageJudge> judge, Expected expected,
                   std::shared_ptr<void> turn, OnRefusal on_refusal)
    : source_(std::move(source)),
      packages_(std::move(packages)),
      judge_(std::move(judge)),
      check_(*judge_, std::move(expected)),
      turn_(std::move(turn)),
      on_refusal_(std::move(on_refusal)) {}

std::optional<uint64_t> FileBody::length() const {
  if (const auto* file = std::get_if<PackageFolder::File>(&source_)) return file->size;
  return std::get<Remote>(source_).body.length;
}

FileBody::Task<Result<std::string>> FileBody::read() {
  if (auto* remote = std::get_if<Remote>(&source_)) {
    co_return co_await remote->upstream->next(remote->body);
  }
  co_return PackageFolder::read(std::get<PackageFolder::File>(source_).fd);
}

// False: refused. Other connections get their turn between the parts.
FileBody::Task<bool> FileBody::judge(std::string_view piece) {
  const auto executor = co_await asio::this_coro::executor;
  while (!piece.empty()) {
    const size_t count = std::min(piece.size(), ContentCheck::kMostAtOnce);
    refusal_ = check_.feed(piece.substr(0, count));
    if (refusal_) co_return false;
    piece.remove_prefix(count);
    co_await asio::post(executor, asio::use_awaitable);
  }
  co_return true;
}

FileBody::Task<Result<std::string>> FileBody::next() {
  while (!ended_) {
    std::string piece = CO_TRY(co_await read());
    if (piece.empty()) {
      ended_ = true;
      const auto length = this->length();
      if (length && *length != check_.bytes()) {
        co_return fail(Code::kUnavailable, "the file of a package broke off");
      }
      refusal_ = check_.end();
    } else if (co_await judge(piece)) {
      std::swap(piece, held_);
      if (!piece.empty()) co_return piece;
      continue;
    }
    if (refusal_) {
      on_refusal_(*refusal_);
      co_return fail(Code::kDenied, refusal_->text());
    }
  }
  if (refusal_) co_return fail(Code::kDenied, refusal_->text());
  co_return std::exchange(held_, {});
}

}  // namespace cloister::egress
