#include "replay/replay_state.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <string_view>

#include "base/error.hpp"
#include "config/whole_file.hpp"

namespace rehearse::inline calibrate {
namespace {

constexpr std::string_view kMagic = "rehearse.replay/1\n";

/// FNV-1a, 64 bits.
std::uint64_t digest(std::string_view text) {
  std::uint64_t value = 0xcbf29ce484222325ULL;
  for (const char c : text) value = (value ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return value;
}

class Writer {
 public:
  template <class T>
  void number(T value) {
    static_assert(std::is_arithmetic_v<T>);
    text.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void bytes(std::span<const std::byte> all) {
    number<std::uint64_t>(all.size());
    text.append(reinterpret_cast<const char*>(all.data()), all.size());
  }
  void optional(const std::optional<double>& value) {
    number<std::uint8_t>(value.has_value());
    number(value.value_or(0));
  }

  std::string text{kMagic};
};

/// Of a text whose digest was right: what does not fit is our own error.
class Reader {
 public:
  explicit Reader(std::string_view text) : left_(text) {}

  template <class T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  std::vector<std::byte> bytes() {
    const auto all = std::as_bytes(std::span(take(number<std::uint64_t>())));
    return {all.begin(), all.end()};
  }
  std::optional<double> optional() {
    const bool there = number<std::uint8_t>() != 0;
    const auto value = number<double>();
    return there ? std::optional(value) : std::nullopt;
  }

 private:
  std::string_view take(std::size_t size) {
    check(size <= left_.size(), "a state's parts fit into it");
    const std::string_view taken = left_.substr(0, size);
    left_.remove_prefix(size);
    return taken;
  }
  std::string_view left_;
};

void write_curve(Writer& writer, const CurveBuilder::State& curve) {
  writer.number<std::uint8_t>(curve.diverged);
  writer.number(curve.loss_sum);
  writer.number(curve.losses);
  writer.number(curve.samples);
  writer.number<std::uint64_t>(curve.points.size());
  for (const CurvePoint& point : curve.points) {
    writer.number(point.update);
    writer.number(point.time.value());
    writer.number(point.samples);
    writer.optional(point.train_loss);
    writer.optional(point.test_loss);
    writer.number(point.test_accuracy);
  }
}

CurveBuilder::State read_curve_state(Reader& reader) {
  CurveBuilder::State curve;
  curve.diverged = reader.number<std::uint8_t>() != 0;
  curve.loss_sum = reader.number<double>();
  curve.losses = reader.number<std::uint64_t>();
  curve.samples = reader.number<std::uint64_t>();
  curve.points.resize(reader.number<std::uint64_t>());
  for (CurvePoint& point : curve.points) {
    point.update = reader.number<std::uint64_t>();
    point.time = Seconds(reader.number<double>());
    point.samples = reader.number<std::uint64_t>();
    point.train_loss = reader.optional();
    point.test_loss = reader.optional();
    point.test_accuracy = reader.number<double>();
  }
  return curve;
}

}  // namespace

void write_state(const std::filesystem::path& file, const std::string& replayed,
                 const ReplayState& state) {
  Writer writer;
  writer.bytes(std::as_bytes(std::span(replayed)));
  writer.number(state.version);
  writer.bytes(state.parameters);
  writer.bytes(state.velocity);
  writer.number<std::uint64_t>(state.pending.size());
  for (const PendingGradient& one : state.pending) {
    writer.number(one.row);
    writer.number(one.loss);
    writer.bytes(one.gradient);
    writer.bytes(one.read);
  }
  write_curve(writer, state.curve);
  writer.number(digest(writer.text));
  write_whole_file(file, writer.text);
}

std::optional<ReplayState> read_state(const std::filesystem::path& file,
                                      const std::string& replayed) {
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored)) return std::nullopt;
  const std::string text = read_whole_file(file);
  std::uint64_t written = 0;
  const std::size_t end = text.size() - std::min(text.size(), sizeof written);
  std::memcpy(&written, text.data() + end, text.size() - end);
  if (!text.starts_with(kMagic) || digest(std::string_view(text).substr(0, end)) != written) {
    throw InputError(fmt::format(
        "{}: error: is not what a replay keeps, or is damaged\nremedy: another --resume, or "
        "remove it to begin anew",
        file.string()));
  }
  Reader reader(std::string_view(text).substr(kMagic.size(), end - kMagic.size()));
  const std::vector<std::byte> of = reader.bytes();
  if (!std::ranges::equal(of, std::as_bytes(std::span(replayed)))) {
    throw InputError(fmt::format(
        "{}: error: holds another replay: {}\nremedy: another --resume, or remove it to begin anew",
        file.string(), std::string_view(reinterpret_cast<const char*>(of.data()), of.size())));
  }
  ReplayState state;
  state.version = reader.number<std::uint64_t>();
  state.parameters = reader.bytes();
  state.velocity = reader.bytes();
  state.pending.resize(reader.number<std::uint64_t>());
  for (PendingGradient& one : state.pending) {
    one.row = reader.number<std::uint64_t>();
    one.loss = reader.number<double>();
    one.gradient = reader.bytes();
    one.read = reader.bytes();
  }
  state.curve = read_curve_state(reader);
  return state;
}

}  // namespace rehearse::inline calibrate
