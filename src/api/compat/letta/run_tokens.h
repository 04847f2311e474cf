// SPDX-License-Identifier: Apache-2.0
// The keys that running tools have (LETTA_API_KEY). A key is valid at /letta alone, from the start
// of its run to the run's end, and may read and run tools as the caller of the run. The keys are in
// memory: a restart of the service ends the runs as well. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "api/http/http.h"
#include "auth/credential.h"
#include "base/result.h"
#include "store/store.h"

namespace cloister::api::compat::letta {

// A tool that runs tools that run tools ends here.
inline constexpr uint32_t kMaxDepth = 4;

class RunTokens : public std::enable_shared_from_this<RunTokens> {
 public:
  explicit RunTokens(store::Store& store) : store_(store) {}

  struct Entry {
    model::Principal principal;
    uint32_t depth = 1;  // runs of tools above, and this one
  };
  // A key for a run; its end ends the key.
  class Token {
   public:
    Token(std::shared_ptr<RunTokens> of, std::string text)
        : of_(std::move(of)), text_(std::move(text)) {}
    Token(const Token&) = delete;
    Token& operator=(const Token&) = delete;
    ~Token() { of_->live_.erase(text_); }
    [[nodiscard]] const std::string& text() const { return text_; }

   private:
    std::shared_ptr<RunTokens> of_;
    std::string text_;
  };

  // For a run that `request` asks for. kDenied beyond kMaxDepth.
  Result<std::unique_ptr<Token>> issue(const Request& request);
  // The identity by the key of a run; nullopt for another credential.
  [[nodiscard]] std::optional<Result<auth::Identity>> identify(const Request& request) const;
  // kDenied if a tool asks: a tool does not change tools or configurations.
  [[nodiscard]] Result<> mayChange(const Request& request) const;

 private:
  [[nodiscard]] const Entry* find(const Request& request) const;

  store::Store& store_;
  std::map<std::string, Entry, std::less<>> live_;  // by the text; as many as runs of tools
};

}  // namespace cloister::api::compat::letta
