// SPDX-License-Identifier: Apache-2.0
// From syntax to executed programs: words, assignments, redirections, compound commands.
#include "policy/command/effects.h"

#include <algorithm>

#include "policy/command/reader.h"

namespace cloister::policy {
namespace {

constexpr size_t kMaxFindings = 64;

bool nameChar(char c) {
  return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool number(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  return !text.empty() && text.size() < 19 &&
         text.find_first_not_of("0123456789") == std::string_view::npos;
}

// The only part of a word, apart from quotes around the part.
const Part* onlyPart(const Word& word) {
  const Part* only = nullptr;
  for (const Part& part : word.parts) {
    if (part.kind == Part::Kind::kText && part.text.empty()) continue;
    if (only != nullptr) return nullptr;
    only = &part;
  }
  return only;
}

// True for a certain number: digits, or an expansion to digits.
bool numeric(const Word& word) {
  if (word.parts.empty()) return true;
  const Part* part = onlyPart(word);
  if (part == nullptr) return false;
  const bool special =
      part->kind == Part::Kind::kParameter && part->inner.empty() &&
      (part->text == "!" || part->text == "#" || part->text == "?" || part->text == "$");
  return part->kind == Part::Kind::kArithmetic || special ||
         (part->kind == Part::Kind::kText && !part->differs && number(part->text));
}

// Whether an expansion may be a part of a name, or be a name: PA${x}TH, $1. A backslash before a
// line end joins names as well.
bool composesNames(std::string_view text) {
  if (text.contains('\\')) return true;
  for (size_t at = 0; at < text.size(); ++at) {
    const char before = at > 0 ? text[at - 1] : ' ';
    if (text[at] == '$') {
      const bool braces = text.substr(at).starts_with("${");
      const size_t name = at + (braces ? 2 : 1);
      const char next = name < text.size() ? text[name] : ' ';
      const bool positional =
          (next >= '0' && next <= '9') || next == '@' || next == '*' || (braces && next == '!');
      if (nameChar(before) || before == '}' || positional) return true;
    }
    if (before == '}' && nameChar(text[at])) return true;
  }
  return false;
}

// Whether arithmetic changes the variable between the positions: x = 1, x <<= 1, ++x. A comparison
// with <= or >= counts as well.
bool changedAt(std::string_view text, size_t begin, size_t end) {
  constexpr std::string_view kBlanks = " \t\n";
  const size_t next = std::min(text.find_first_not_of(kBlanks, end), text.size());
  const std::string_view rest = text.substr(next);
  if (rest.starts_with("++") || rest.starts_with("--")) return true;
  const size_t equals = rest.find_first_not_of("+-*/%<>&^|");
  if (equals != std::string_view::npos && rest[equals] == '=' && !rest.starts_with("=="))
    return true;
  const size_t last =
      begin == 0 ? std::string_view::npos : text.find_last_not_of(kBlanks, begin - 1);
  if (last == std::string_view::npos || last == 0) return false;
  const std::string_view before = text.substr(last - 1, 2);
  return before == "++" || before == "--";
}

}  // namespace

void EffectReader::doubt(std::string_view kind, std::string what, Span span) {
  note(kind, std::move(what), span, Finding::Weight::kDoubt);
}

void EffectReader::note(std::string_view kind, std::string what, Span span,
                        Finding::Weight weight) {
  std::vector<Finding>& all = effects_.findings;
  // A doubt is never lost to the bound: the doubt replaces the last finding.
  if (all.size() >= kMaxFindings && weight != Finding::Weight::kDoubt) return;
  if (all.size() >= kMaxFindings) all.pop_back();
  all.push_back(
      {.kind = std::string(kind), .what = std::move(what), .span = span, .weight = weight});
}

void EffectReader::projectCode(std::string what, Span span, Execution* execution) {
  if (execution != nullptr) execution->project = true;
  note("project_code", std::move(what), span, Finding::Weight::kProject);
}

void EffectReader::text(std::string_view text, Dialect dialect, std::string_view via,
                        const Span* inside) {
  Parsed parsed = parseShell(text, dialect, bounds_, budget_, inside);
  for (Doubt& found : parsed.doubts)
    doubt(found.kind, std::move(found.what), found.span);
  const Dialect outer = std::exchange(dialect_, dialect);
  std::string outer_via = std::exchange(via_, std::string(via));
  std::set<std::string> outer_numbers = std::exchange(numbers_, {});
  const bool moved = moved_;
  for (int pass = 0; pass < 2; ++pass) {  // the second knows the first one's: for pid in $pids
    std::set<std::string> others;
    std::set<std::string> found;
    notePlainNumbers(parsed.script, found, others);
    for (const std::string& name : others)
      found.erase(name);
    numbers_ = std::move(found);
  }
  script(parsed.script);
  moved_ = moved_ || moved;
  dialect_ = outer;
  via_ = std::move(outer_via);
  numbers_ = std::move(outer_numbers);
}

// Variables with only numbers assigned, so that arithmetic with these variables runs nothing. Any
// other value may be text with a subscript that runs commands.
void EffectReader::notePlainNumbers(const Script& script, std::set<std::string>& found,
                                    std::set<std::string>& others) {
  const auto number = [&](const Word& word) { return isNumber(word); };
  const auto word = [&](const Word& word) {
    for (const Part& part : word.parts) {
      notePlainNumbers(part.inner, found, others);
      if (part.assigns) others.insert(part.text);
      if (part.kind == Part::Kind::kText) others.insert(part.text);  // as an operand: read i
    }
  };
  for (const Command& command : script) {
    for (const Assignment& one : command.assignments) {
      const bool plain =
          (one.array || one.values.size() == 1) && std::ranges::all_of(one.values, number);
      (plain ? found : others).insert(one.name);
      if (one.array) arrays_.insert(one.name);
      for (const Word& value : one.values) {
        for (const Part& part : value.parts)
          notePlainNumbers(part.inner, found, others);
      }
    }
    if (!command.name.empty()) {
      const bool plain = !command.words.empty() && std::ranges::all_of(command.words, number);
      (plain ? found : others).insert(command.name);
      if (command.kind == Command::Kind::kFunction) functions_.insert(command.name);
    }
    noteArrays(command);
    if (!command.text.empty()) {  // for ((i = 0; …)): arithmetic gives numbers
      const std::string& text = command.text;
      for (size_t at = 0; at < text.size();) {
        size_t end = at;
        while (end < text.size() && nameChar(text[end]))
          ++end;
        size_t next = text.find_first_not_of(' ', end);
        const bool equals =
            next != std::string::npos && text[next] == '=' && text.substr(next, 2) != "==";
        if (end > at && equals) found.insert(text.substr(at, end - at));
        at = std::max(end, at + 1);
      }
    }
    std::ranges::for_each(command.words, word);
    for (const Redirect& redirect : command.redirects)
      word(redirect.target);
    for (const Script& body : command.bodies)
      notePlainNumbers(body, found, others);
  }
}

// True for a certain number: as numeric(), or a variable with only numbers assigned.
bool EffectReader::isNumber(const Word& word) const {
  if (numeric(word)) return true;
  const Part* part = onlyPart(word);
  if (part == nullptr) return false;
  if (part->kind == Part::Kind::kCommand) return listsJobs(part->inner);
  return part->kind == Part::Kind::kParameter && part->inner.empty() && !part->assigns &&
         numbers_.contains(part->text);
}

// $(jobs -p): numbers of processes.
bool EffectReader::listsJobs(const Script& script) const {
  if (script.size() != 1 || script[0].kind != Command::Kind::kSimple) return false;
  const Command& jobs = script[0];
  const auto is = [&](size_t at, std::string_view text) {
    const std::vector<Part>& parts = jobs.words[at].parts;
    return parts.size() == 1 && parts[0].kind == Part::Kind::kText && parts[0].text == text;
  };
  return jobs.words.size() == 2 && jobs.assignments.empty() && jobs.redirects.empty() &&
         is(0, "jobs") && is(1, "-p") && !functions_.contains("jobs");
}

// The names of arrays made by declare -a, read -a and mapfile.
void EffectReader::noteArrays(const Command& command) {
  const auto text = [](const Word& word) {
    return word.parts.empty() ? std::string_view() : std::string_view(word.parts[0].text);
  };
  if (command.words.empty()) return;
  constexpr std::string_view kMake = " declare typeset local readonly export read ";
  const std::string name(text(command.words[0]));
  const bool lines = name == "mapfile" || name == "readarray";
  if (!lines && !kMake.contains(" " + name + " ")) return;
  const bool arrays = lines || std::ranges::any_of(command.words, [&](const Word& word) {
                        return text(word).starts_with('-') &&
                               text(word).find_first_of("aA") != std::string_view::npos;
                      });
  if (!arrays) return;
  for (const Word& word : command.words)
    arrays_.emplace(text(word).substr(0, text(word).find('=')));
  for (const Assignment& one : command.assignments)
    arrays_.insert(one.name);
}

void EffectReader::script(const Script& script) {
  for (const Command& one : script)
    command(one);
}

void EffectReader::command(const Command& command) {
  for (const Assignment& one : command.assignments)
    assignment(one);
  if (command.kind == Command::Kind::kSimple) return simple(command);
  if (!command.name.empty() && command.kind == Command::Kind::kCompound) {
    assigns(command.name, nullptr, command.span);
  }
  if (!command.text.empty()) arithmetic(command.text, command.span);
  if (command.kind == Command::Kind::kTest) {
    test(command);
  } else {
    std::vector<Value> words;
    for (const Word& word : command.words)
      expand(word, words);
    if (!command.name.empty()) std::ranges::move(words, std::back_inserter(effects_.assigned));
  }
  redirects(command);
  for (const Script& body : command.bodies)
    script(body);
}

// bash has `time` as a word of its grammar; other shells run the program, which knows no
// assignments.
void EffectReader::timed(const Command& command) {
  Execution time{.program = "time", .via = via_, .trusted = true, .wrapper = true};
  time.argv.push_back({.text = "time", .known = true, .span = command.span});
  time.span = command.span;
  effects_.executions.push_back(std::move(time));
  if (!command.assignments.empty()) {
    doubt("unknown_program", "to some shells, what follows `time` is a program", command.span);
  }
}

void EffectReader::simple(const Command& command) {
  if (command.timed) timed(command);
  std::vector<Value> argv;
  for (const Word& word : command.words)
    expand(word, argv);
  if (!argv.empty() && !command.assignments.empty()) declaresArrays(command, argv[0].text);
  const std::optional<Value> input = redirects(command);
  const Value* outer = std::exchange(input_, input ? &*input : nullptr);
  if (!argv.empty()) {
    run(std::move(argv), via_);
  } else if (!command.words.empty()) {
    doubt("unknown_program", "a command without a word", command.span);
  }
  input_ = outer;
}

std::optional<Value> EffectReader::redirects(const Command& command) {
  std::optional<Value> input;
  for (const Redirect& redirect : command.redirects) {
    Value target = value(redirect.target);
    if (redirect.kind == Redirect::Kind::kHere) {
      input = std::move(target);
      continue;
    }
    if (redirect.kind != Redirect::Kind::kWrite) input.reset();
    if (target.text.starts_with("/dev/tcp/") || target.text.starts_with("/dev/udp/")) {
      effects_.connects.push_back(std::move(target));
      continue;
    }
    const bool descriptor = redirect.kind == Redirect::Kind::kDuplicate && target.known &&
                            (number(target.text) || target.text == "-");
    if (redirect.kind != Redirect::Kind::kRead && !descriptor)
      effects_.writes.push_back(std::move(target));
  }
  return input;
}

void EffectReader::assignment(const Assignment& assignment) {
  std::vector<Value> values;
  for (const Word& word : assignment.values)
    expand(word, values);
  if (values.empty()) values.push_back({.span = assignment.span});
  Value& first = values[0];
  if (assignment.array) first.known = first.number = false;
  assigns(assignment.name, &first, assignment.span);
  std::ranges::move(values, std::back_inserter(effects_.assigned));
}

void EffectReader::assigns(std::string_view name, const Value* value, Span span) {
  switch (variableNamed(name)) {
    case Variable::kPlain:
      return;
    case Variable::kChanges:
      return doubt("environment", std::string(name) + " changes what is run or how text is read",
                   span);
    case Variable::kCode:
      return note("project_code", std::string(name) + " says where code is loaded from", span,
                  Finding::Weight::kProject);
    case Variable::kCommand:
      if (value == nullptr || !value->known) {
        return doubt("environment", std::string(name) + " is a command that is not written here",
                     span);
      }
      return shellText(*value, name, Dialect::kPosix);
    default:
      return assignsFile(name, value, span);
  }
}

// Variables whose value decides: the value may name a file for writing, or be evaluated.
void EffectReader::assignsFile(std::string_view name, const Value* value, Span span) {
  const bool known = value != nullptr && value->known;
  const std::string_view text = known ? std::string_view(value->text) : std::string_view();
  const auto has = [&](std::string_view part) { return text.contains(part); };
  switch (variableNamed(name)) {
    case Variable::kNumber:
      if ((known && number(text)) || (value != nullptr && value->number)) return;
      return doubt("arithmetic", std::string(name) + " is evaluated, as arithmetic", span);
    case Variable::kFlags: {
      constexpr std::string_view kRuns[] = {"linker", "wrapper", "plugin", "specs", "exec",
                                            "extld",  "path",    "@",      "-B",    "-load"};
      if (known && std::ranges::none_of(kRuns, has)) return;
      return doubt("environment", std::string(name) + " may have an option that runs a program",
                   span);
    }
    case Variable::kTrace:
      if (known && !text.starts_with('/') && !text.starts_with("af_unix:")) return;
      [[fallthrough]];
    default:
      if (known && text.empty()) return;
      effects_.writes.push_back(known ? *value : Value{.known = false, .span = span});
  }
}

// Arithmetic evaluates the value of a variable again, with subscripts, which run commands. Its
// assignments are assignments of the shell: ((PATH = 1)).
void EffectReader::arithmetic(std::string_view text, Span span) {
  if (text.contains('[') || text.contains("$(") || text.contains('`')) {
    return doubt("arithmetic", "arithmetic with a subscript or a command", span);
  }
  if (composesNames(text)) {
    return doubt("arithmetic", "arithmetic with a name that is not written here", span);
  }
  for (size_t at = 0; at < text.size();) {
    size_t end = at;
    while (end < text.size() && nameChar(text[end]))
      ++end;
    const std::string_view name = text.substr(at, end - at);
    if (!name.empty() && (name[0] < '0' || name[0] > '9') &&
        !numbers_.contains(std::string(name))) {
      return doubt(
          "arithmetic",
          "arithmetic with " + std::string(name) + ", whose value is not known to be a number",
          span);
    }
    if (changedAt(text, at, end)) {
      const Value result{.known = false, .number = true, .span = span};
      assigns(name, &result, span);
    }
    at = std::max(end, at + 1);
  }
}

void EffectReader::test(const Command& command) {
  std::vector<Value> words;
  for (const Word& word : command.words)
    words.push_back(value(word));
  constexpr std::string_view kNumeric = " -eq -ne -lt -le -gt -ge ";
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& text = words[i].text;
    if (words[i].known && (text == "-v" || text == "-R")) {
      const bool plain = i + 1 < words.size() && words[i + 1].known &&
                         std::ranges::all_of(words[i + 1].text, nameChar);
      if (!plain) doubt("subscript", "a test of a variable with a subscript", words[i].span);
    }
    if (!words[i].known || text.size() != 3 || !kNumeric.contains(text)) continue;
    for (const size_t side : {i - 1, i + 1}) {
      if (side >= words.size() || number(words[side].text)) continue;
      const Word& word = command.words[side];
      const bool variable = word.parts.size() == 1 && word.parts[0].kind == Part::Kind::kParameter;
      const std::string& name = variable ? word.parts[0].text : words[side].text;
      const bool special = name == "#" || name == "?" || name == "$";
      if (!special && !numbers_.contains(name)) {
        doubt("arithmetic", "a number in [[ ]] that may be text with a command in it",
              words[side].span);
      }
    }
  }
}

void EffectReader::expand(const Word& word, std::vector<Value>& out) {
  out.push_back(value(word));
}

Value EffectReader::value(const Word& word) {
  Value value{.number = !word.parts.empty() && isNumber(word), .span = word.span};
  for (const Part& one : word.parts) {
    if (word.braces && value.known && one.kind == Part::Kind::kText && !one.quoted &&
        one.text.contains('{')) {
      value.text += one.text.substr(0, one.text.find('{'));
      value.known = false;
    }
    part(one, value);
  }
  if (word.braces) {
    value.glob = !value.many && !value.text.empty();
    value.known = false;
    value.many = true;
  }
  return value;
}

void EffectReader::part(const Part& part, Value& value) {
  using Kind = Part::Kind;
  switch (part.kind) {
    case Kind::kText:
      if (value.known) value.text += part.text;
      if (part.differs && value.known) {
        for (Doubt& found : suspiciousCharacters(part.text, &value.span)) {
          if (part.text.find_first_not_of("\t\n") == std::string::npos) continue;
          doubt(found.kind, std::move(found.what), found.span);
        }
      }
      return;
    case Kind::kGlob:
      if (value.known) value.glob = true;
      value.many = true;
      break;
    case Kind::kParameter:
      if (part.assigns) assigns(part.text, nullptr, value.span);
      value.many = value.many || !part.quoted || part.text == "@";
      value.glob = value.glob && part.quoted;
      break;
    case Kind::kCommand:
      value.many = value.many || !part.quoted;
      value.glob = value.glob && part.quoted;
      break;
    case Kind::kArithmetic:
      arithmetic(part.text, value.span);
      break;
    case Kind::kProcess:
    case Kind::kTilde:
      break;
  }
  value.known = false;
  if (++depth_ > bounds_.max_depth) {
    doubt("too_deep", "the command is nested too deep", value.span);
  } else {
    const Value* outer = std::exchange(input_, nullptr);
    script(part.inner);
    input_ = outer;
  }
  --depth_;
}

std::string plainPath(std::string_view path) {
  std::vector<std::string_view> parts;
  const bool absolute = path.starts_with('/');
  while (!path.empty()) {
    const size_t end = std::min(path.find('/'), path.size());
    const std::string_view part = path.substr(0, end);
    path.remove_prefix(std::min(end + 1, path.size()));
    if (part.empty() || part == ".") continue;
    if (part == ".." && !parts.empty() && parts.back() != "..") {
      parts.pop_back();
    } else if (part != ".." || !absolute) {
      parts.push_back(part);
    }
  }
  std::string plain = absolute ? "/" : "";
  for (const std::string_view part : parts) {
    if (plain.size() > (absolute ? 1U : 0U)) plain += '/';
    plain += part;
  }
  return plain.empty() ? "." : plain;
}

EffectReader::EffectReader(const CommandBounds& bounds, const ImageNames* image,
                           std::string_view directory)
    : bounds_(bounds), image_(image) {
  effects_.directories = {plainPath(directory)};
  const std::string beneath = effects_.directories.front() + "/";
  moved_ = !beneath.starts_with(std::string(kWorkspace) + "/");
}

Effects effectsOf(std::string_view command, const CommandBounds& bounds, const ImageNames* image,
                  std::string_view directory) {
  EffectReader reader(bounds, image, directory);
  reader.text(command, Dialect::kBash, "", nullptr);
  Effects effects = reader.take();
  if (command.size() > bounds.max_bytes) return effects;
  for (Doubt& found : suspiciousCharacters(command)) {
    effects.findings.push_back(
        {.kind = std::move(found.kind), .what = std::move(found.what), .span = found.span});
  }
  return effects;
}

Effects effectsOfArgv(const std::vector<std::string>& argv, const CommandBounds& bounds,
                      const ImageNames* image, std::string_view directory) {
  EffectReader reader(bounds, image, directory);
  std::vector<Value> words;
  std::vector<Doubt> doubts;
  uint32_t at = 0;
  for (const std::string& word : argv) {
    const auto end = static_cast<uint32_t>(at + std::min<size_t>(word.size(), bounds.max_bytes));
    const Span span{.begin = at, .end = end};
    if (word.size() > bounds.max_bytes || end > bounds.max_bytes ||
        words.size() >= bounds.max_words) {
      doubts.push_back({.kind = "too_long", .what = "the command is too long", .span = span});
      break;
    }
    std::ranges::move(suspiciousCharacters(word, &span), std::back_inserter(doubts));
    words.push_back({.text = word, .span = span});
    at = end + 1;
  }
  if (!words.empty()) reader.run(std::move(words), "");
  Effects effects = reader.take();
  for (Doubt& found : doubts) {
    effects.findings.push_back(
        {.kind = std::move(found.kind), .what = std::move(found.what), .span = found.span});
  }
  return effects;
}

}  // namespace cloister::policy
