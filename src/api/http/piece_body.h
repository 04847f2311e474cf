// SPDX-License-Identifier: Apache-2.0
// PieceBody: a body for Beast's parsers, taken piece by piece. Internal to the two parsers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include <boost/beast/core/buffers_range.hpp>
#include <boost/beast/http/message.hpp>

namespace cloister::api {

// A body whose pieces may be taken before the end.
struct PieceBody {
  struct value_type {
    std::string bytes;
    size_t whole = 0;  // a body of at most so many bytes is held as a whole
  };
  class reader {
   public:
    template <bool kRequest, class Fields>
    reader(boost::beast::http::header<kRequest, Fields>&, value_type& body) : body_(body) {}
    void init(const boost::optional<uint64_t>& length, boost::system::error_code& error) {
      error = {};
      if (length && *length <= body_.whole) body_.bytes.reserve(std::min<size_t>(*length, kAtOnce));
    }
    template <class Buffers>
    size_t put(const Buffers& buffers, boost::system::error_code& error) {
      error = {};
      const size_t before = body_.bytes.size();
      for (const auto buffer : boost::beast::buffers_range_ref(buffers))
        body_.bytes.append(static_cast<const char*>(buffer.data()), buffer.size());
      return body_.bytes.size() - before;
    }
    void finish(boost::system::error_code& error) { error = {}; }

   private:
    // The most bytes reserved ahead: an announced length may be a lie.
    static constexpr size_t kAtOnce = size_t{1} << 20;

    value_type& body_;
  };
};

}  // namespace cloister::api
