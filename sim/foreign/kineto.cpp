#include "foreign/kineto.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <streambuf>

#include "base/error.hpp"

namespace rehearse::inline foreign {
namespace {

constexpr std::size_t kBuffer = std::size_t{1} << 20;
constexpr std::size_t kMostEvents = 40'000'000;
constexpr std::size_t kMostNames = 2'000'000;
constexpr std::size_t kMostName = 2000;

/// A file, whether gzip has packed it or not (zlib tells).
class Unpacked : public std::streambuf {
 public:
  Unpacked(const std::filesystem::path& file, const std::function<void(double)>& progress)
      : file_(gzopen(file.c_str(), "rb")), name_(file.string()), progress_(progress) {
    if (file_ == nullptr) throw MissingError(name_ + ": error: cannot read the file");
    gzbuffer(file_, kBuffer);
  }
  Unpacked(const Unpacked&) = delete;
  Unpacked& operator=(const Unpacked&) = delete;
  ~Unpacked() override { gzclose(file_); }

 protected:
  int_type underflow() override {
    const int got = gzread(file_, buffer_.data(), static_cast<unsigned>(buffer_.size()));
    if (got < 0) throw InputError(name_ + ": error: gzip's data is damaged");
    if (got == 0) return traits_type::eof();
    read_ += got;
    if (progress_) progress_(read_);
    setg(buffer_.data(), buffer_.data(), buffer_.data() + got);
    return traits_type::to_int_type(buffer_.front());
  }

 private:
  gzFile file_;
  std::string name_;
  const std::function<void(double)>& progress_;
  std::vector<char> buffer_ = std::vector<char>(kBuffer);
  double read_ = 0;
};

/// Fields of the event that is being read.
struct Event {
  std::string phase, category, name, collective, dtype, group;
  double begin = -1, duration = -1;
  double thread = 0, stream = 0, correlation = -1, sequence = -1;
  double in = 0, out = 0, ranks = 0, allocated = 0, device_type = -1;
  double elements = 0;  ///< of the first input's dimensions
};

class Sink : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit Sink(KinetoTrace& trace) : trace_(trace) {}

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t value) override {
    return number(static_cast<double>(value));
  }
  bool number_unsigned(number_unsigned_t value) override {
    return number(static_cast<double>(value));
  }
  bool number_float(number_float_t value, const string_t&) override { return number(value); }
  bool binary(binary_t&) override { return true; }

  bool string(string_t& value) override {
    if (depth_ == kDevice && section_ == "deviceProperties" && keys_[kDevice] == "name") {
      if (trace_.device.empty()) trace_.device = value;
    } else if (in_event() && depth_ == kEvent) {
      const std::string& key = keys_[kEvent];
      if (key == "ph") event_.phase = value;
      if (key == "cat") event_.category = value;
      if (key == "name") event_.name = value.substr(0, kMostName);
      if (key == "tid")
        event_.thread = static_cast<double>(std::hash<std::string>{}(value) % 1000000007);
    } else if (in_args()) {
      const std::string& key = keys_[kArgs];
      if (key == "Collective name") event_.collective = value;
      if (key == "dtype") event_.dtype = value;
      if (key == "Process Group Name") event_.group = value;
    }
    return true;
  }

  bool start_object(std::size_t) override { return open(); }
  bool end_object() override {
    --depth_;
    if (in_events_ && depth_ == kEvent - 1) take();
    return true;
  }
  bool start_array(std::size_t) override {
    if (depth_ == 1 && section_ == "traceEvents") in_events_ = found_ = true;
    if (in_args_dims()) ++dims_;
    return open();
  }
  bool end_array() override {
    --depth_;
    if (depth_ == 1) in_events_ = false;
    return true;
  }
  bool key(string_t& name) override {
    if (depth_ < keys_.size()) keys_[depth_] = name;
    if (depth_ == 1) section_ = name;
    if (depth_ == kArgs && name == "Input Dims") {
      dims_ = 0;
      product_ = 1;
    }
    return true;
  }
  bool parse_error(std::size_t place, const std::string&,
                   const nlohmann::detail::exception& wrong) override {
    throw InputError(fmt::format("{}: error: event {}, byte {}: this is no JSON: {}", trace_.file,
                                 trace_.events, place, wrong.what()));
  }

  bool found() const { return found_; }

 private:
  // The file is an object (1) with a list (2) of objects (3) with objects of arguments (4).
  static constexpr std::size_t kEvent = 3, kArgs = 4, kDevice = 3;
  static constexpr std::size_t kMostDepth = 200;

  bool in_event() const { return in_events_ && depth_ >= kEvent; }
  bool in_args() const { return in_event() && depth_ == kArgs && keys_[kEvent] == "args"; }
  bool in_args_dims() const {
    return in_event() && depth_ >= kArgs && keys_[kEvent] == "args" && keys_[kArgs] == "Input Dims";
  }

  bool open() {
    if (++depth_ > kMostDepth)
      throw InputError(fmt::format("{}: error: event {}: nested deeper than {} levels", trace_.file,
                                   trace_.events, kMostDepth));
    if (in_events_ && depth_ == kEvent) event_ = Event();
    return true;
  }

  bool number(double value) {
    if (in_events_ && depth_ == kEvent) {
      const std::string& key = keys_[kEvent];
      if (key == "ts") event_.begin = value;
      if (key == "dur") event_.duration = value;
      if (key == "tid") event_.thread = value;
    } else if (in_args_dims()) {
      if (dims_ == 2) event_.elements = product_ *= value;  // the first input's
    } else if (in_args()) {
      const std::string& key = keys_[kArgs];
      if (key == "correlation") event_.correlation = value;
      if (key == "Sequence number") event_.sequence = value;
      if (key == "stream") event_.stream = value;
      if (key == "In msg nelems") event_.in = value;
      if (key == "Out msg nelems") event_.out = value;
      if (key == "Group size") event_.ranks = value;
      if (key == "Total Allocated") event_.allocated = value;
      if (key == "Device Type") event_.device_type = value;
    } else if (section_ == "deviceProperties" && depth_ == kDevice &&
               keys_[kDevice] == "totalGlobalMem") {
      trace_.device_memory = value;
    } else if (section_ == "distributedInfo" && depth_ == 2 && keys_[2] == "rank") {
      trace_.rank = static_cast<int>(value);
    }
    return true;
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
            static_cast<std::uint32_t>(thread), static_cast<std::int64_t>(tie)};
  }

  void take() {
    if (++trace_.events > kMostEvents) fail("more events than are read");
    if (event_.phase == "i" && event_.name == "[memory]") {
      // 1 is CUDA; a file that does not say is taken for it.
      if (event_.device_type == 1 || event_.device_type < 0)
        trace_.allocated_peak = std::max(trace_.allocated_peak, event_.allocated);
      return;
    }
    if (event_.phase != "X") return;
    const std::string& category = event_.category;
    if (category == "cpu_op") {
      if (event_.elements > 0 && event_.name == "torch::autograd::AccumulateGrad")
        trace_.parameters[trace_.operators.size()] = static_cast<std::int64_t>(event_.elements);
      trace_.operators.push_back(span(event_.thread, event_.sequence));
    } else if (category == "kernel" || category == "gpu_memcpy" || category == "gpu_memset") {
      const TraceSpan kernel = span(event_.stream, event_.correlation);
      if (!event_.name.starts_with("nccl"))
        trace_.kernels.push_back(kernel);
      else
        trace_.collectives.push_back({kernel,
                                      event_.collective.empty()
                                          ? event_.name.substr(0, event_.name.find('('))
                                          : event_.collective,
                                      event_.dtype, event_.group, std::max(event_.in, event_.out),
                                      static_cast<int>(event_.ranks)});
    } else if (category == "cuda_runtime" || category == "cuda_driver") {
      if (event_.correlation >= 0)
        trace_.launches.push_back(span(event_.thread, event_.correlation));
    } else if (category == "user_annotation") {
      trace_.notes.push_back(span(event_.thread, -1));
    }
  }

  KinetoTrace& trace_;
  std::size_t depth_ = 0;
  std::array<std::string, 5> keys_;
  std::string section_;
  bool in_events_ = false, found_ = false;
  int dims_ = 0;
  double product_ = 1;
  Event event_;
  std::unordered_map<std::string, std::uint32_t> indices_;
};

}  // namespace

KinetoTrace read_kineto(const std::filesystem::path& file,
                        const std::function<void(double)>& progress) {
  KinetoTrace trace;
  trace.file = file.string();
  Unpacked bytes(file, progress);
  std::istream in(&bytes);
  in.exceptions(std::ios::badbit);
  Sink sink(trace);
  nlohmann::json::sax_parse(in, &sink);
  if (!sink.found())
    throw InputError(trace.file +
                     ": error: no list traceEvents: this is no trace of PyTorch's profiler");
  return trace;
}

}  // namespace rehearse::inline foreign
