#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "base/corrected_unit.hpp"
#include "base/error.hpp"
#include "base/number.hpp"
#include "config/count.hpp"
#include "config/document.hpp"
#include "config/document_node.hpp"
#include "config/key_log.hpp"
#include "config/mistakes.hpp"

namespace rehearse::inline config {

namespace {

using Kind = DocumentNode::Kind;

constexpr std::size_t kShownBytes = 60;

std::string did_you_mean(const std::string& word, const std::vector<std::string>& candidates) {
  const std::string near = nearest(word, candidates);
  return near.empty() ? "" : fmt::format("did you mean \"{}\"?", near);
}

/// What stands there instead, for messages.
std::string got(const DocumentNode& node) {
  switch (node.kind) {
    case Kind::null:
    case Kind::stand_in:
      return "nothing";
    case Kind::list:
      return "a list";
    case Kind::map:
      return "a map";
    case Kind::scalar:
      break;
  }
  std::string shown = node.text.substr(0, kShownBytes);
  if (shown.size() < node.text.size()) {
    while (!shown.empty() && (static_cast<unsigned char>(node.text[shown.size()]) & 0xc0) == 0x80)
      shown.pop_back();
    shown += "...";
  }
  for (char& c : shown) c = c == '\n' || c == '\t' ? ' ' : c;
  return fmt::format("{}\"{}\"", node.quoted ? "the text " : "", shown);
}

/// Why a scalar that looks like a number is none, and what to write instead.
/// "1e9" and "100.0" are numbers, but no whole ones as they are written.
std::string whole_remedy(const std::string& text, std::int64_t low, std::int64_t high) {
  const double number = decimal_number(text).value_or(0.5);
  const bool whole = number == std::floor(number) && static_cast<double>(low) <= number &&
                     number <= static_cast<double>(high) && std::abs(number) < 0x1p53;
  return whole ? fmt::format("write {}", static_cast<std::int64_t>(number)) : "";
}

std::string number_remedy(const DocumentNode& node) {
  const std::string& text = node.text;
  if (node.kind != Kind::scalar) return "";
  if (node.quoted) return decimal_number(text) ? "write it without quotes: " + text : "";
  const std::size_t digits = text.find_first_not_of("+-");
  if (digits == std::string::npos) return "";
  if (text.find('_') != std::string::npos &&
      text.find_first_not_of("0123456789_.+-") == std::string::npos) {
    return "write it without underscores";
  }
  const bool leading_zero = text[digits] == '0' && text.size() > digits + 1;
  if (leading_zero && std::string_view("xXobB").find(text[digits + 1]) != std::string_view::npos) {
    return "write it as a decimal number";
  }
  if (leading_zero && text.find_first_not_of("0123456789.", digits) == std::string::npos) {
    return "write it without leading zeros";
  }
  const std::string_view word =
      std::string_view(text).substr(digits + (text[digits] == '.' ? 1 : 0));
  for (const char* name : {"inf", "Inf", "INF", "nan", "NaN", "NAN", "infinity"}) {
    if (word == name) return "numbers must be finite";
  }
  if (text.find_first_not_of("0123456789.eE+-") == std::string::npos &&
      text.find_first_of("eE") != std::string::npos) {
    return "numbers must be at most 1.8e308 and written like 1.5e3";
  }
  if (text.ends_with('k') || text.ends_with('K'))
    if (const auto count = count_number(text.substr(0, text.size() - 1) + "K"))
      return fmt::format("write it out: {:.0f}", *count);
  return "";
}

std::string range_text(std::int64_t low, std::int64_t high) {
  const bool bounded_below = low != std::numeric_limits<std::int64_t>::min();
  const bool bounded_above = high != std::numeric_limits<std::int64_t>::max();
  if (bounded_below && bounded_above) return fmt::format("a whole number from {} to {}", low, high);
  if (bounded_below) return fmt::format("a whole number of at least {}", low);
  if (bounded_above) return fmt::format("a whole number of at most {}", high);
  return "a whole number";
}

double require_number(const Value& value, const DocumentNode& node, const char* expected,
                      bool (*allowed)(double)) {
  const bool plain = node.kind == Kind::scalar && !node.quoted;
  const auto number = plain ? decimal_number(node.text) : std::nullopt;
  if (number && allowed(*number)) return *number;
  value.mistake(fmt::format("expected {}; got {}", expected, got(node)),
                number ? "" : number_remedy(node));
  return 1;
}

// Beyond these nothing is a machine of today or tomorrow, and sums and products of such numbers
// leave what a simulation can count.
constexpr Seconds kLongest(1e12);
constexpr Bytes kLargest(0x1p60);
constexpr BytesPerSecond kSlowestLink(1), kFastestLink(1e18);
constexpr FlopsPerSecond kSlowest(1), kFastest(1e24);

/// How a quantity is read from a text, what may be meant where it cannot be, and between what it
/// must lie where it is not 0.
template <class Quantity>
struct Reader {
  Quantity (*parse)(const std::string&);
  std::string (*correct)(const std::string&);
  Quantity low, high;
};

template <class Quantity>
Quantity require_quantity(const Value& value, const DocumentNode& node, const char* expected,
                          const Reader<Quantity>& reader) {
  if (node.kind != Kind::scalar) {
    value.mistake(fmt::format("expected {}; got {}", expected, got(node)));
    return Quantity(1);
  }
  try {
    const Quantity quantity = reader.parse(node.text);
    const bool low = quantity < reader.low && quantity > Quantity(0);
    if (!low && quantity <= reader.high) return quantity;
    value.mistake(fmt::format("expected at {} {}; got {}", low ? "least" : "most",
                              format(low ? reader.low : reader.high), got(node)));
  } catch (const std::invalid_argument& error) {
    const std::string meant = reader.correct(node.text);
    value.mistake(error.what(), meant.empty() ? "" : fmt::format("did you mean \"{}\"?", meant));
  }
  return Quantity(1);
}

/// Notes what a value is read as, where someone wants to know.
template <class... Parts>
void read_as(const Value& value, fmt::format_string<Parts...> type, Parts&&... parts) {
  if (KeyLog* const log = KeyLog::current())
    log->use(value.file(), value.path())
        .types.insert(fmt::format(type, std::forward<Parts>(parts)...));
}

}  // namespace

bool Value::is_map() const { return node_->kind == Kind::map; }
bool Value::is_list() const { return node_->kind == Kind::list; }
bool Value::is_scalar() const { return node_->kind == Kind::scalar; }
bool Value::is_null() const { return node_->kind == Kind::null; }

Map Value::as_map() const {
  read_as(*this, "map");
  if (is_map()) return Map(*this);
  std::string remedy;
  if (is_null()) remedy = "give it keys, or write {} where it needs none";
  if (is_scalar() && !node_->quoted && node_->text.find(':') != std::string::npos) {
    remedy = "put a space after the colon";
  }
  mistake("expected a map; got " + got(*node_), remedy);
  return stand_in();
}

Map Value::stand_in() const { return Map(Value(document_, document_->stand_in(*node_), path_)); }

std::vector<Value> Value::as_list() const {
  read_as(*this, "list");
  if (!is_list()) {
    mistake("expected a list; got " + got(*node_), is_null() ? "write [] for an empty list"
                                                   : is_scalar()
                                                       ? fmt::format("write [{}]", shown())
                                                       : "");
    return {};
  }
  std::vector<Value> values;
  values.reserve(node_->items.size());
  for (std::size_t i = 0; i < node_->items.size(); ++i) {
    const std::string step = std::to_string(i);
    values.push_back(Value(document_, &node_->items[i], path_.empty() ? step : path_ + "." + step));
  }
  return values;
}

std::string Value::as_string() const {
  read_as(*this, "text");
  if (!is_scalar()) mistake("expected a text; got " + got(*node_));
  return node_->text;
}

bool Value::as_bool() const {
  read_as(*this, "true or false");
  const bool plain = is_scalar() && !node_->quoted;
  if (plain && node_->text == "true") return true;
  if (plain && node_->text == "false") return false;
  const bool word = is_scalar() && (node_->text == "true" || node_->text == "false");
  mistake("expected true or false; got " + got(*node_),
          word ? "write it without quotes: " + node_->text : "");
  return false;
}

double Value::as_number() const {
  read_as(*this, "number");
  return require_number(*this, *node_, "a number", [](double) { return true; });
}

double Value::as_positive_number() const {
  read_as(*this, "number > 0");
  return require_number(*this, *node_, "a positive number",
                        [](double number) { return number > 0; });
}

double Value::as_non_negative_number() const {
  read_as(*this, "number >= 0");
  return require_number(*this, *node_, "a number of at least 0",
                        [](double number) { return number >= 0; });
}

std::int64_t Value::as_integer(std::int64_t low, std::int64_t high) const {
  read_as(*this, "integer >= {}", low);
  const bool plain = is_scalar() && !node_->quoted && decimal_number(node_->text).has_value();
  std::int64_t integer = 0;
  if (plain) {
    const char* begin = node_->text.data() + (node_->text[0] == '+' ? 1 : 0);
    const char* end = node_->text.data() + node_->text.size();
    const auto [stop, error] = std::from_chars(begin, end, integer);
    if (error == std::errc() && stop == end && low <= integer && integer <= high) return integer;
  }
  mistake(fmt::format("expected {}; got {}", range_text(low, high), got(*node_)),
          plain ? whole_remedy(node_->text, low, high) : number_remedy(*node_));
  return std::max(low, std::min<std::int64_t>(1, high));
}

Seconds Value::as_seconds() const {
  read_as(*this, "time");
  return require_quantity<Seconds>(*this, *node_,
                                   "a time with its unit, such as \"5us\" or \"1.5ms\"",
                                   {parse_seconds, corrected_seconds, Seconds(0), kLongest});
}

Bytes Value::as_bytes() const {
  read_as(*this, "size");
  return require_quantity<Bytes>(*this, *node_,
                                 "a size with its unit, such as \"25MiB\" or \"80GB\"",
                                 {parse_bytes, corrected_bytes, Bytes(0), kLargest});
}

BytesPerSecond Value::as_bytes_per_second() const {
  read_as(*this, "data rate");
  const auto rate = require_quantity<BytesPerSecond>(
      *this, *node_, "a data rate with its unit, such as \"25Gbps\" or \"300GBps\"",
      {parse_bytes_per_second, corrected_bytes_per_second, kSlowestLink, kFastestLink});
  if (rate.value() > 0) return rate;
  mistake("expected a data rate above 0; got " + got(*node_));
  return BytesPerSecond(1);
}

FlopsPerSecond Value::as_flops_per_second() const {
  read_as(*this, "arithmetic rate");
  const auto rate = require_quantity<FlopsPerSecond>(
      *this, *node_, "an arithmetic rate with its unit, such as \"19.5TFLOPs\" or \"312TFLOP/s\"",
      {parse_flops_per_second, corrected_flops_per_second, kSlowest, kFastest});
  if (rate.value() > 0) return rate;
  mistake("expected an arithmetic rate above 0; got " + got(*node_));
  return FlopsPerSecond(1);
}

std::string Value::as_choice(const std::vector<std::string>& names) const {
  read_as(*this, "{}", fmt::join(names, " | "));
  const std::string text = is_scalar() ? node_->text : "";
  for (const std::string& name : names) {
    if (is_scalar() && name == text) return name;
  }
  mistake(fmt::format("expected one of {}; got {}", fmt::join(names, ", "), got(*node_)),
          did_you_mean(text, names));
  const std::string near = nearest(text, names);
  return near.empty() && !names.empty() ? names.front() : near;
}

bool Value::is_stand_in() const { return node_->kind == Kind::stand_in; }

void Value::fail(const std::string& message, const std::string& remedy) const {
  if (is_stand_in() && Mistakes::current() != nullptr) Mistakes::current()->note_stand_in();
  fail_at(node_->place, path_.empty() ? message : path_ + ": " + message, remedy);
}

void Value::mistake(const std::string& message, const std::string& remedy) const {
  Mistakes* const all = Mistakes::current();
  if (all == nullptr) fail(message, remedy);
  if (is_stand_in()) return all->note_stand_in();
  all->note(error_at(node_->place, path_.empty() ? message : path_ + ": " + message, remedy));
}

std::string Value::shown() const { return is_scalar() ? node_->text : got(*node_); }
std::filesystem::path Value::folder() const { return node_->place.source->folder; }
const std::string& Value::file() const { return node_->place.source->name; }
int Value::line() const { return static_cast<int>(node_->place.line) + 1; }

}  // namespace rehearse::inline config
