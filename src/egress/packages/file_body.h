// SPDX-License-Identifier: Apache-2.0
// FileBody: a file of a package on its way to a sandbox. The last piece is held back until the
// whole content was judged, so a file that is refused is never complete. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include <boost/asio/awaitable.hpp>

#include "base/result.h"
#include "egress/packages/content_check.h"
#include "egress/packages/folder.h"
#include "egress/packages/upstream.h"
#include "model/packages.h"

namespace cloister::egress {

class FileBody {
 public:
  template <class T>
  using Task = boost::asio::awaitable<T>;
  // The source of the bytes. The upstream outlives the body.
  struct Remote {
    const PackageUpstream* upstream;
    PackageUpstream::Body body;
  };
  using Source = std::variant<Remote, PackageFolder::File>;

  // The judge's rules live as long as the body: `packages` keeps them.
  // `on_refusal` is called once, before next() fails for a rule.
  using OnRefusal = std::function<void(const PackageRefusal&)>;
  FileBody(Source source, std::shared_ptr<const model::PlanPackages> packages,
           std::unique_ptr<PackageJudge> judge, Expected expected, std::shared_ptr<void> turn,
           OnRefusal on_refusal);

  // nullopt: not known.
  [[nodiscard]] std::optional<uint64_t> length() const;
  // The next judged bytes; "" at the end. An error: the rest must not arrive, and refusal() says
  // whether a rule is the cause.
  Task<Result<std::string>> next();
  [[nodiscard]] const std::optional<PackageRefusal>& refusal() const { return refusal_; }

 private:
  Task<Result<std::string>> read();
  Task<bool> judge(std::string_view piece);

  Source source_;
  std::shared_ptr<const model::PlanPackages> packages_;
  std::unique_ptr<PackageJudge> judge_;
  ContentCheck check_;
  std::shared_ptr<void> turn_;  // among the requests to the upstreams
  OnRefusal on_refusal_;
  std::string held_;
  bool ended_ = false;
  std::optional<PackageRefusal> refusal_;
};

}  // namespace cloister::egress
