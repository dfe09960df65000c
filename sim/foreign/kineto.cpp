#include "foreign/kineto.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "base/error.hpp"
#include "foreign/json_stream.hpp"

namespace rehearse::inline foreign {
namespace {

constexpr unsigned kBuffer = 1U << 18;
constexpr std::size_t kMostEvents = 40'000'000;
constexpr std::size_t kMostNames = 2'000'000;
constexpr std::size_t kMostName = 2000;

/// A file, whether gzip has packed it or not (zlib tells).
class Unpacked {
 public:
  Unpacked(const std::filesystem::path& file, const std::function<void(double)>& progress)
      : file_(gzopen(file.c_str(), "rb")), name_(file.string()), progress_(progress) {
    if (file_ == nullptr) throw MissingError(name_ + ": error: cannot read the file");
    gzbuffer(file_, kBuffer);
  }
  Unpacked(const Unpacked&) = delete;
  Unpacked& operator=(const Unpacked&) = delete;
  ~Unpacked() { gzclose(file_); }

  std::size_t read(char* to, std::size_t most) {
    const auto asked = static_cast<unsigned>(std::min<std::size_t>(most, kBuffer));
    const int got = gzread(file_, to, asked);
    if (got < 0) throw InputError(name_ + ": error: gzip's data is damaged");
    read_ += got;
    if (progress_) progress_(read_);
    return static_cast<std::size_t>(got);
  }

 private:
  gzFile file_;
  std::string name_;
  const std::function<void(double)>& progress_;
  double read_ = 0;
};

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
  double begin = -1, duration = -1;
  double thread = 0, stream = 0, correlation = -1, sequence = -1;
  double in = 0, out = 0, ranks = 0, allocated = 0, device_type = -1;
  double elements = 0;  ///< of the first input's dimensions

  void clear() {
    phase = 0;
    category = Category::other;
    for (std::string* text : {&name, &collective, &dtype, &group, &type}) text->clear();
    begin = duration = correlation = sequence = device_type = -1;
    thread = stream = in = out = ranks = allocated = elements = 0;
  }
};

class Reader {
 public:
  Reader(KinetoTrace& trace, JsonStream& json, KinetoPart part)
      : trace_(trace), json_(json), part_(part) {}

  void read() {
    bool found = false;
    std::string_view key;
    if (json_.next() != '{') fail_no_trace();
    json_.open();
    while (json_.member(key)) {
      const char kind = json_.next();
      if (key == "traceEvents" && kind == '[') {
        found = true;
        read_events();
      } else if (key == "deviceProperties" && kind == '[') {
        read_devices();
      } else if (key == "distributedInfo" && kind == '{') {
        read_rank();
      } else {
        json_.skip();
      }
    }
    json_.end();
    if (!found) fail_no_trace();
  }

 private:
  bool is_number() {
    const char c = json_.next();
    return c == '-' || (c >= '0' && c <= '9');
  }
  bool is_text() { return json_.next() == '"'; }

  /// Members of an object that has been reached; `member` takes a value by its key, or says no.
  template <class Member>
  void read_object(const Member& member) {
    std::string_view key;
    json_.open();
    while (json_.member(key))
      if (!member(key)) json_.skip();
  }

  bool take_number(double& to) {
    if (!is_number()) return false;
    to = json_.number();
    return true;
  }
  bool take_text(std::string& to, std::size_t most = std::string::npos) {
    if (!is_text()) return false;
    to = json_.string().substr(0, most);
    return true;
  }

  void read_devices() {
    json_.open();
    while (json_.element()) {
      if (json_.next() != '{') {
        json_.skip();
        continue;
      }
      read_object([&](std::string_view key) {
        if (key == "name" && trace_.device.empty()) return take_text(trace_.device);
        return key == "totalGlobalMem" && take_number(trace_.device_memory);
      });
    }
  }

  void read_rank() {
    read_object([&](std::string_view key) {
      double rank = 0;
      if (key != "rank" || !take_number(rank)) return false;
      trace_.rank = static_cast<int>(whole(rank));
      return true;
    });
  }

  void read_events() {
    json_.open();
    while (json_.element()) {
      if (json_.next() != '{') {
        json_.skip();
        continue;
      }
      event_.clear();
      read_object([&](std::string_view key) { return read_field(key); });
      take();
    }
  }

  bool read_field(std::string_view key) {
    if (key == "ts") return take_number(event_.begin);
    if (key == "dur") return take_number(event_.duration);
    if (key == "name") return take_text(event_.name, kMostName);
    if (key == "ph" && is_text()) {
      const std::string_view phase = json_.string();
      event_.phase = phase.size() == 1 ? phase.front() : '\0';
      return true;
    }
    if (key == "cat" && is_text()) {
      event_.category = category_of(json_.string());
      return true;
    }
    if (key == "tid" && is_text()) {
      event_.thread =
          static_cast<double>(std::hash<std::string_view>{}(json_.string()) % 1000000007);
      return true;
    }
    if (key == "tid") return take_number(event_.thread);
    if (key != "args" || json_.next() != '{') return false;
    read_object([&](std::string_view argument) { return read_argument(argument); });
    return true;
  }

  bool read_argument(std::string_view key) {
    if (key == "correlation") return take_number(event_.correlation);
    if (key == "Sequence number") return take_number(event_.sequence);
    if (key == "stream") return take_number(event_.stream);
    if (key == "Input Dims") return read_first_dimensions();
    if (key == "Input type") return read_first_type();
    if (key == "Collective name") return take_text(event_.collective);
    if (key == "dtype") return take_text(event_.dtype);
    if (key == "Process Group Name") return take_text(event_.group);
    if (key == "In msg nelems") return take_number(event_.in);
    if (key == "Out msg nelems") return take_number(event_.out);
    if (key == "Group size") return take_number(event_.ranks);
    if (key == "Total Allocated") return take_number(event_.allocated);
    return key == "Device Type" && take_number(event_.device_type);
  }

  /// Reads 128 from `[[8, 16], [16]]`. Operators that add up gradients, and Gloo's, need shapes.
  bool read_first_dimensions() {
    if (json_.next() != '[') return false;
    json_.open();
    bool is_first = true;
    while (json_.element()) {
      if (!is_first || json_.next() != '[') {
        json_.skip();
      } else {
        double product = 1;
        bool has_numbers = false;
        json_.open();
        while (json_.element()) {
          double size = 0;
          if (take_number(size)) {
            product *= size;
            has_numbers = true;
          } else {
            json_.skip();
          }
        }
        if (has_numbers) event_.elements = product;
      }
      is_first = false;
    }
    return true;
  }

  /// Reads float from `["float", ""]`.
  bool read_first_type() {
    if (json_.next() != '[') return false;
    json_.open();
    while (json_.element())
      if (!event_.type.empty() || !take_text(event_.type)) json_.skip();
    return true;
  }

  [[noreturn]] void fail(const std::string& message) const {
    throw InputError(fmt::format("{}: error: event {} ({}): {}", trace_.file, trace_.events,
                                 event_.name, message));
  }

  [[noreturn]] void fail_no_trace() const {
    throw InputError(trace_.file +
                     ": error: no list traceEvents: this is no trace of PyTorch's profiler");
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

  void take() {
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
    } else if (part_ == KinetoPart::all) {
      take_work();
    }
  }

  void take_work() {
    switch (event_.category) {
      case Category::operation:
        if (event_.elements > 0 && event_.name == "torch::autograd::AccumulateGrad")
          trace_.parameters[trace_.operators.size()] = whole(event_.elements);
        trace_.operators.push_back(span(event_.thread, event_.sequence));
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
  JsonStream& json_;
  KinetoPart part_;
  Event event_;
  std::unordered_map<std::string, std::uint32_t> indices_;
};

}  // namespace

KinetoTrace read_kineto(const std::filesystem::path& file,
                        const std::function<void(double)>& progress, KinetoPart part) {
  KinetoTrace trace;
  trace.file = file.string();
  Unpacked bytes(file, progress);
  JsonStream json(
      [&](char* to, std::size_t most) { return bytes.read(to, most); },
      [&](std::size_t place, const std::string& message) {
        return InputError(fmt::format("{}: error: event {}, byte {}: this is no JSON: {}",
                                      trace.file, trace.events, place, message));
      });
  Reader(trace, json, part).read();
  std::ranges::stable_sort(trace.collectives, {},
                           [](const TraceCollective& one) { return one.kernel.begin; });
  return trace;
}

}  // namespace rehearse::inline foreign
