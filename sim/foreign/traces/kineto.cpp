#include "foreign/traces/kineto.hpp"

#include <fmt/format.h>
#include <rapidjson/error/en.h>
#include <rapidjson/reader.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "base/error.hpp"
#include "foreign/packed_text.hpp"

namespace rehearse::inline foreign {
namespace {

constexpr std::size_t kMostEvents = 40'000'000;
constexpr std::size_t kMostNames = 2'000'000;
constexpr std::size_t kMostName = 2000;
constexpr std::size_t kMostDepth = 200;

/// A number of a file as a whole one, whatever it is.
std::int64_t whole(double value) {
  constexpr double kMost = 9e15;
  return static_cast<std::int64_t>(std::clamp(value, -kMost, kMost));
}

enum class Category : std::uint8_t { other, operation, kernel, launch, note };

Category category_of(std::string_view name) {
  if (name == "cpu_op") return Category::operation;
  if (name == "kernel" || name == "gpu_memcpy" || name == "gpu_memset") return Category::kernel;
  if (name == "cuda_runtime" || name == "cuda_driver") return Category::launch;
  if (name == "user_annotation") return Category::note;
  return Category::other;
}

/// Fields of the event that is being read. Its texts keep their memory from event to event.
struct Event {
  char phase = 0;
  Category category = Category::other;
  std::string name, collective, dtype, group, type;
  std::string sizes;  ///< of all inputs, where somebody asks
  double begin = -1, duration = -1;
  double thread = 0, stream = 0, correlation = -1, sequence = -1;
  double in = 0, out = 0, ranks = 0, allocated = 0, device_type = -1;
  double elements = 0;  ///< of the first input's dimensions

  void clear() {
    phase = 0;
    category = Category::other;
    for (std::string* text : {&name, &collective, &dtype, &group, &type, &sizes}) text->clear();
    begin = duration = correlation = sequence = device_type = -1;
    thread = stream = in = out = ranks = allocated = elements = 0;
  }
};

/// The place of a value in the file.
enum class Place : std::uint8_t {
  outside,
  file,
  devices,  ///< the list deviceProperties
  device,
  run,  ///< distributedInfo
  events,
  event,
  arguments,
  shapes,  ///< an operator's "Input Dims", of which the first counts
  shape,
  further,  ///< another input's dimensions, or those of one tensor of a list
  types,    ///< likewise
  passed
};

/// Takes what RapidJSON reads, value by value, and keeps what an import needs.
class Reader : public rapidjson::BaseReaderHandler<rapidjson::UTF8<>, Reader> {
 public:
  Reader(KinetoTrace& trace, KinetoPart part, PackedText& text)
      : trace_(trace), part_(part), text_(text) {}

  bool found() const { return found_; }

  [[noreturn]] void fail_no_trace() const {
    throw InputError(trace_.file +
                     ": error: no list traceEvents: this is no trace of PyTorch's profiler");
  }

  bool Default() { return value(); }  ///< null, true and false
  bool Int(int number) { return Double(number); }
  bool Uint(unsigned number) { return Double(number); }
  bool Int64(std::int64_t number) { return Double(static_cast<double>(number)); }
  bool Uint64(std::uint64_t number) { return Double(static_cast<double>(number)); }
  bool Double(double number) {
    take(number);
    return value();
  }
  bool String(const char* text, unsigned size, bool) {
    take(std::string_view(text, size));
    return value();
  }
  bool Key(const char* text, unsigned size, bool) {
    if (places_.back() != Place::passed) key_.assign(text, size);
    text_.pass_token();
    return true;
  }
  bool StartObject() { return open(true); }
  bool EndObject(unsigned) { return close(); }
  bool StartArray() { return open(false); }
  bool EndArray(unsigned) { return close(); }

 private:
  /// A value has ended.
  bool value() {
    if (places_.back() == Place::outside) fail_no_trace();
    is_first_ = false;
    text_.pass_token();
    return true;
  }

  Place inside(bool is_object) const {
    switch (places_.back()) {
      case Place::outside:
        if (!is_object) fail_no_trace();
        return Place::file;
      case Place::file:
        if (key_ == "traceEvents" && !is_object) return Place::events;
        if (key_ == "deviceProperties" && !is_object) return Place::devices;
        return key_ == "distributedInfo" && is_object ? Place::run : Place::passed;
      case Place::devices:
        return is_object ? Place::device : Place::passed;
      case Place::events:
        return is_object ? Place::event : Place::passed;
      case Place::event:
        return key_ == "args" && is_object ? Place::arguments : Place::passed;
      case Place::arguments:
        if (key_ == "Input Dims" && !is_object) return Place::shapes;
        return key_ == "Input type" && !is_object ? Place::types : Place::passed;
      case Place::shapes:
        if (is_object) return Place::passed;
        if (is_first_) return Place::shape;
        return part_ == KinetoPart::shapes ? Place::further : Place::passed;
      case Place::shape:
      case Place::further:
        return part_ == KinetoPart::shapes && !is_object ? Place::further : Place::passed;
      default:
        return Place::passed;
    }
  }

  bool open(bool is_object) {
    if (places_.size() > kMostDepth)
      text_.fail(fmt::format("nested deeper than {} levels", kMostDepth));
    places_.push_back(inside(is_object));
    is_first_ = true;
    if (places_.back() == Place::events) found_ = true;
    if (places_.back() == Place::event) event_.clear();
    if (places_.back() == Place::shape) product_ = 1;
    if (places_.back() == Place::shape || places_.back() == Place::further) opens_ = true;
    text_.pass_token();
    return true;
  }

  bool close() {
    const Place ended = places_.back();
    places_.pop_back();
    if (ended == Place::event) take_event();
    if ((ended == Place::shape || ended == Place::further) && !opens_ && in_shape_) {
      event_.sizes += ']';
      in_shape_ = false;
    }
    opens_ = false;
    is_first_ = false;
    text_.pass_token();
    return true;
  }

  void take(double number) {
    switch (places_.back()) {
      case Place::device:
        if (key_ == "totalGlobalMem") trace_.device_memory = number;
        return;
      case Place::run:
        if (key_ == "rank") trace_.rank = static_cast<int>(whole(number));
        if (key_ == "world_size") trace_.ranks = static_cast<int>(whole(number));
        return;
      case Place::event:
        if (key_ == "ts") event_.begin = number;
        if (key_ == "dur") event_.duration = number;
        if (key_ == "tid") event_.thread = number;
        return;
      case Place::arguments:
        return take_argument(number);
      case Place::shape:
        // 128 of [[8, 16], [16]]: operators that add up gradients, and Gloo's, need it.
        event_.elements = product_ *= number;
        add_size(number);
        return;
      case Place::further:
        add_size(number);
        return;
      default:
        return;
    }
  }

  void add_size(double number) {
    if (part_ != KinetoPart::shapes) return;
    if (in_shape_) {
      event_.sizes += ", ";
    } else {
      event_.sizes += event_.sizes.empty() ? "[" : " [";
    }
    event_.sizes += std::to_string(whole(number));
    in_shape_ = true;
    opens_ = false;
  }

  void take_argument(double number) {
    if (key_ == "correlation") event_.correlation = number;
    if (key_ == "Sequence number") event_.sequence = number;
    if (key_ == "stream") event_.stream = number;
    if (key_ == "In msg nelems") event_.in = number;
    if (key_ == "Out msg nelems") event_.out = number;
    if (key_ == "Group size") event_.ranks = number;
    if (key_ == "Total Allocated") event_.allocated = number;
    if (key_ == "Device Type") event_.device_type = number;
  }

  void take(std::string_view text) {
    switch (places_.back()) {
      case Place::device:
        if (key_ == "name" && trace_.device.empty()) trace_.device = text;
        return;
      case Place::event:
        if (key_ == "name") event_.name = text.substr(0, kMostName);
        if (key_ == "ph") event_.phase = text.size() == 1 ? text.front() : '\0';
        if (key_ == "cat") event_.category = category_of(text);
        if (key_ == "tid")
          event_.thread = static_cast<double>(std::hash<std::string_view>{}(text) % 1000000007);
        return;
      case Place::arguments:
        if (key_ == "Collective name") event_.collective = text;
        if (key_ == "dtype") event_.dtype = text;
        if (key_ == "Process Group Name") event_.group = text;
        return;
      case Place::types:
        if (event_.type.empty()) event_.type = text;
        return;
      default:
        return;
    }
  }

  [[noreturn]] void fail(const std::string& message) const {
    throw InputError(fmt::format("{}: error: event {} ({}): {}", trace_.file, trace_.events,
                                 event_.name, message));
  }

  std::uint32_t name_index(const std::string& name) {
    const auto [at, is_new] =
        indices_.try_emplace(name, static_cast<std::uint32_t>(trace_.names.size()));
    if (is_new) {
      if (trace_.names.size() >= kMostNames) fail("too many different names");
      trace_.names.push_back(name);
    }
    return at->second;
  }

  TraceSpan span(double thread, double tie) {
    if (event_.begin < 0 || event_.duration < 0 || !std::isfinite(event_.begin + event_.duration))
      fail("a span without ts or dur");
    return {event_.begin, static_cast<float>(event_.duration), name_index(event_.name),
            static_cast<std::uint32_t>(whole(thread)), whole(tie)};
  }

  void take_event() {
    if (++trace_.events > kMostEvents) fail("more events than are read");
    if (event_.phase == 'i' && event_.name == "[memory]") {
      // 1 is CUDA; a file that does not say is taken for it.
      if (event_.device_type == 1 || event_.device_type < 0)
        trace_.allocated_peak = std::max(trace_.allocated_peak, event_.allocated);
      return;
    }
    if (event_.phase != 'X') return;
    if (event_.category == Category::kernel && event_.name.starts_with("nccl")) {
      trace_.collectives.push_back({span(event_.stream, event_.correlation),
                                    event_.collective.empty()
                                        ? event_.name.substr(0, event_.name.find('('))
                                        : event_.collective,
                                    event_.dtype, event_.group, std::max(event_.in, event_.out),
                                    static_cast<int>(whole(event_.ranks))});
    } else if (event_.category == Category::note && event_.name.starts_with("gloo:")) {
      trace_.collectives.push_back({span(event_.thread, -1), event_.name.substr(5), event_.type,
                                    event_.group, event_.elements, 0});
      trace_.gloo_threads.insert(trace_.collectives.back().kernel.thread);
    } else if (part_ != KinetoPart::collectives) {
      take_work();
    }
  }

  void take_work() {
    switch (event_.category) {
      case Category::operation:
        if (event_.elements > 0 && event_.name == "torch::autograd::AccumulateGrad")
          trace_.parameters[trace_.operators.size()] = whole(event_.elements);
        trace_.operators.push_back(span(event_.thread, event_.sequence));
        if (part_ == KinetoPart::shapes)
          trace_.shapes.push_back(name_index(event_.sizes.substr(0, kMostName)));
        break;
      case Category::kernel:
        trace_.kernels.push_back(span(event_.stream, event_.correlation));
        break;
      case Category::launch:
        if (event_.correlation >= 0)
          trace_.launches.push_back(span(event_.thread, event_.correlation));
        break;
      case Category::note:
        trace_.notes.push_back(span(event_.thread, -1));
        break;
      case Category::other:
        break;
    }
  }

  KinetoTrace& trace_;
  KinetoPart part_;
  PackedText& text_;
  Event event_;
  std::string key_;  ///< of the object that is being read
  std::vector<Place> places_{Place::outside};
  bool found_ = false, is_first_ = true;
  bool opens_ = false, in_shape_ = false;  ///< a list of sizes begins; has some
  double product_ = 1;
  std::unordered_map<std::string, std::uint32_t> indices_;
};

}  // namespace

KinetoTrace read_kineto(const std::filesystem::path& file,
                        const std::function<void(double)>& progress, KinetoPart part) {
  KinetoTrace trace;
  trace.file = file.string();
  PackedText text(file, progress, [&](std::size_t place, const std::string& message) {
    return InputError(fmt::format("{}: error: event {}, byte {}: this is no JSON: {}", trace.file,
                                  trace.events, place, message));
  });
  Reader reader(trace, part, text);
  constexpr unsigned kFlags = rapidjson::kParseIterativeFlag | rapidjson::kParseFullPrecisionFlag |
                              rapidjson::kParseValidateEncodingFlag;
  rapidjson::Reader json;
  const rapidjson::ParseResult parsed = json.Parse<kFlags>(text, reader);
  if (!parsed) text.fail(rapidjson::GetParseError_En(parsed.Code()));
  if (!text.has_ended()) text.fail("more follows behind the value");
  if (!reader.found()) reader.fail_no_trace();
  std::ranges::stable_sort(trace.collectives, {},
                           [](const TraceCollective& one) { return one.kernel.begin; });
  return trace;
}

}  // namespace rehearse::inline foreign
