// SPDX-License-Identifier: Apache-2.0
#include "trace/otlp/exporter.h"

#include <sys/random.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "async/signal.h"
#include "async/spawn.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/id.h"
#include "base/log.h"
#include "net/fetch.h"
#include "net/trust.h"
#include "net/url.h"
#include "trace/otlp/spans_json.h"

namespace cloister::trace::otlp {
namespace {

template <class T>
using Task = boost::asio::awaitable<T>;

constexpr size_t kBatch = 512;  // as OpenTelemetry's own batch processors
constexpr Millis kGather{1'000};
constexpr Millis kPostTimeout{10'000};
constexpr Millis kFirstPause{1'000};
constexpr Millis kLongestPause{30'000};
constexpr size_t kMaxHeaders = size_t{16} << 10;
constexpr int kPercent = 100;

using Headers = std::vector<std::pair<std::string, std::string>>;

// "Name: value" a line.
Result<Headers> readHeaders(const std::string& path) {
  Headers headers;
  if (path.empty()) return headers;
  const auto wrong = [&](const std::string& why) {
    return fail(Code::kInvalid, "traces.headers_file: " + why, "traces.headers_file");
  };
  const auto text = base::readFile(path, kMaxHeaders);
  if (!text) return wrong(text.error().message);
  for (size_t from = 0; from < text->size();) {
    const size_t end = std::min(text->find('\n', from), text->size());
    std::string line = text->substr(from, end - from);
    from = end + 1;
    if (line.ends_with('\r')) line.pop_back();
    if (line.empty()) continue;
    const size_t colon = line.find(':');
    const bool token = colon != std::string::npos && colon > 0 &&
                       std::all_of(line.begin(), line.begin() + static_cast<ptrdiff_t>(colon),
                                   [](char c) { return std::isalnum(c) != 0 || c == '-'; });
    const bool printable = std::ranges::all_of(line, [](char c) { return c >= ' ' && c <= '~'; });
    if (!token || !printable) {
      return wrong("each line must be a header, as in \"Authorization: Bearer TOKEN\"");
    }
    const size_t value = std::min(line.find_first_not_of(' ', colon + 1), line.size());
    headers.emplace_back(line.substr(0, colon), line.substr(value));
  }
  return headers;
}

// A URL without a path is the collector's: traces have a path of their own there (OTLP/HTTP).
Result<net::Url> urlOf(const std::string& text) {
  auto url = net::parseUrl(text);
  if (!url) {
    return fail(Code::kInvalid, "traces.otlp: " + url.error().message, "traces.otlp");
  }
  if (url->target.empty() || url->target == "/") url->target = "/v1/traces";
  return url;
}

}  // namespace

struct Exporter::Impl : std::enable_shared_from_this<Impl> {
  Impl(net::Url to, boost::asio::ssl::context trust, Headers with,
       const model::TraceSettings& settings, std::string_view version)
      : url(std::move(to)),
        tls(std::move(trust)),
        headers(std::move(with)),
        most(settings.queue),
        percent(settings.sample_percent),
        resource{.version = std::string(version), .instance = base::newId("svc")} {}

  [[nodiscard]] std::vector<Span> next();
  Task<void> exportAll();
  Task<Result<uint64_t>> send(std::vector<Span> spans);
  void count(uint64_t exported, uint64_t dropped) {
    if (counted) counted(exported, dropped);
  }

  net::Url url;
  boost::asio::ssl::context tls;
  Headers headers;
  const size_t most;
  const uint32_t percent;
  const Resource resource;
  std::minstd_rand dice{std::random_device{}()};
  std::deque<Span> waiting;
  std::optional<async::Signal> news;
  Counted counted;
  bool stopped = false;
  bool done = false;  // after stopped
  bool failing = false;
};

std::vector<Span> Exporter::Impl::next() {
  const size_t count = std::min(waiting.size(), kBatch);
  std::vector<Span> batch(std::make_move_iterator(waiting.begin()),
                          std::make_move_iterator(waiting.begin() + static_cast<ptrdiff_t>(count)));
  waiting.erase(waiting.begin(), waiting.begin() + static_cast<ptrdiff_t>(count));
  return batch;
}

// The number of spans that the collector rejected.
Task<Result<uint64_t>> Exporter::Impl::send(std::vector<Span> spans) {
  net::Posted posted{.body = toRequest(resource, spans), .headers = headers};
  const net::HttpResponse answer =
      CO_TRY(co_await net::postForAnswer(url, tls, std::move(posted), {.timeout = kPostTimeout}));
  if (answer.head.status < 200 || answer.head.status > 299) {
    co_return fail(Code::kUnavailable,
                   "exporting spans: the collector answered " + std::to_string(answer.head.status));
  }
  co_return std::min<uint64_t>(rejectedIn(answer.body), spans.size());
}

Task<void> Exporter::Impl::exportAll() {
  const auto self = shared_from_this();
  Millis pause = kFirstPause;
  while (!stopped || !waiting.empty()) {
    if (!stopped && waiting.size() < kBatch) {
      co_await news->wait(base::monotonicNow() + kGather);
    }
    if (waiting.empty()) continue;
    std::vector<Span> batch = next();
    const uint64_t size = batch.size();
    const auto rejected = co_await send(batch);
    if (rejected) {
      if (std::exchange(failing, false)) base::log(base::Level::kInfo, "spans are exported again");
      pause = kFirstPause;
      count(size - *rejected, *rejected);
      continue;
    }
    if (!std::exchange(failing, true)) {
      base::log(base::Level::kWarn, "spans not exported", {{"reason", rejected.error().message}});
    }
    if (stopped) {
      count(0, size + waiting.size());
      waiting.clear();
      break;
    }
    // The oldest spans go first, and spans beyond the bound are lost.
    const size_t kept = std::min(batch.size(), most - std::min(most, waiting.size()));
    waiting.insert(waiting.begin(),
                   std::make_move_iterator(batch.end() - static_cast<ptrdiff_t>(kept)),
                   std::make_move_iterator(batch.end()));
    count(0, size - kept);
    const base::Monotonic until = base::monotonicNow() + pause;
    while (!stopped && base::monotonicNow() < until)
      co_await news->wait(until);
    pause = std::min(pause * 2, kLongestPause);
  }
  done = true;
  news->notify();
}

Exporter::Exporter(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

Exporter::~Exporter() {
  impl_->stopped = true;
}

void Exporter::start(const boost::asio::any_io_executor& executor, Counted counted) {
  impl_->counted = std::move(counted);
  impl_->news.emplace(executor);
  async::spawn(executor, impl_->exportAll());
}

boost::asio::awaitable<void> Exporter::drain(Millis patience) {
  const auto impl = impl_;
  impl->stopped = true;
  if (!impl->news) co_return;
  impl->news->notify();
  const base::Monotonic until = base::monotonicNow() + patience;
  while (!impl->done && base::monotonicNow() < until)
    co_await impl->news->wait(until);
}

model::TraceContext Exporter::admit(std::string_view traceparent) {
  if (const auto given = model::parseTraceparent(traceparent)) return *given;
  model::TraceContext context;
  if (::getrandom(context.trace.data(), context.trace.size(), 0) !=
      static_cast<ssize_t>(context.trace.size())) {
    return {};
  }
  context.sampled = impl_->dice() % kPercent < impl_->percent;
  return context;
}

void Exporter::ended(Span span) {
  if (impl_->waiting.size() >= impl_->most) return impl_->count(0, 1);
  impl_->waiting.push_back(std::move(span));
  if (impl_->waiting.size() == kBatch && impl_->news) impl_->news->notify();
}

Result<std::shared_ptr<Exporter>> openExporter(const model::TraceSettings& settings,
                                               std::string_view version) {
  if (settings.otlp.empty()) return nullptr;
  net::Url url = TRY(urlOf(settings.otlp));
  auto tls = TRY(net::clientTls(settings.ca_file, "traces.ca_file"));
  Headers headers = TRY(readHeaders(settings.headers_file));
  return std::shared_ptr<Exporter>(new Exporter(std::make_shared<Exporter::Impl>(
      std::move(url), std::move(tls), std::move(headers), settings, version)));
}

}  // namespace cloister::trace::otlp
