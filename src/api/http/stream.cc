// SPDX-License-Identifier: Apache-2.0
#include "api/http/stream.h"

namespace cloister::api {

void Stream::read(boost::asio::mutable_buffer into, Handler handler) {
  if (tls_) return tls_->async_read_some(into, std::move(handler));
  socket_->async_read_some(into, std::move(handler));
}

void Stream::write(const Gathered& from, Handler handler) {
  if (tls_) return tls_->async_write_some(from, std::move(handler));
  socket_->async_write_some(from, std::move(handler));
}

}  // namespace cloister::api
