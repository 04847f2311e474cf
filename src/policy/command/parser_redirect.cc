// SPDX-License-Identifier: Apache-2.0
// Redirections, and where here-documents are announced.
#include <algorithm>

#include "policy/command/parser.h"

namespace cloister::policy {
namespace {

constexpr size_t kMaxRedirects = 16;

}  // namespace

void ShellParser::redirects(Command& command) {
  for (blanks(); !atEnd() && redirect(command); blanks()) {
  }
}

bool ShellParser::redirect(Command& command) {
  cur();
  const size_t begin = pos_;
  size_t at = pos_;
  while (at < text_.size() && text_[at] >= '0' && text_[at] <= '9')
    ++at;
  if (at > pos_ && at + 1 < text_.size() && text_[at] == '\\' && text_[at + 1] == '\n') {
    stop("syntax", "a number over two lines");
    return true;
  }
  if (at >= text_.size()) return false;
  const bool both = at == pos_ && text_[at] == '&' && after() == '>';
  if (!both && text_[at] != '<' && text_[at] != '>') return false;
  if (at == pos_ && !both && after() == '(') return false;  // a process substitution
  pos_ = at;
  if (both) {
    bashOnly("&>", begin);
    take();
  }
  const char c = cur();
  take();
  Redirect redirect;
  redirect.kind = c == '<' ? Redirect::Kind::kRead : Redirect::Kind::kWrite;
  if (c == '<' && take('<')) {
    if (!take('<')) {
      hereDocument(command, begin);
      return true;
    }
    bashOnly("<<<", begin);
    redirect.kind = Redirect::Kind::kHere;
  } else if (c == '<' && take('>')) {
    redirect.kind = Redirect::Kind::kWrite;
  } else if (take('&')) {
    redirect.kind = Redirect::Kind::kDuplicate;
  } else if (c == '>' && !take('>')) {
    take('|');
  }
  blanks();
  const size_t before = pos_;
  redirect.target = word();
  if (pos_ == before) stop("syntax", "a redirection to nothing");
  redirect.span = spanFrom(begin);
  if (command.redirects.size() >= kMaxRedirects) stop("too_long", "too many redirections");
  command.redirects.reserve(kMaxRedirects + 1);  // no reallocation: here_ points to some
  command.redirects.push_back(std::move(redirect));
  return true;
}

void ShellParser::hereDocument(Command& command, size_t begin) {
  Here here;
  here.tabs = take('-');
  blanks();
  const size_t before = pos_;
  const Word end = word();
  if (pos_ == before) return stop("syntax", "a here-document without its end");
  here.quoted = end.quoted;
  for (const Part& part : end.parts) {
    if (part.kind != Part::Kind::kText || part.differs || part.text.contains('\n')) {
      return stop("here_document", "a here-document whose end is not plain");
    }
    here.end += part.text;
  }
  if (text_.substr(before, pos_ - before).contains("\\\n"))
    stop("here_document", "an end over two lines");
  if (command.redirects.size() >= kMaxRedirects) return stop("too_long", "too many redirections");
  command.redirects.reserve(kMaxRedirects + 1);
  here.redirect = &command.redirects.emplace_back();
  here.redirect->kind = Redirect::Kind::kHere;
  here.redirect->span = spanFrom(begin);
  here_.push_back(std::move(here));
}

}  // namespace cloister::policy
