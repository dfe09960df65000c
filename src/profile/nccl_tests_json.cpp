#include "profile/nccl_tests_json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "config/foreign_file.hpp"
#include "config/json/json_text.hpp"
#include "profile/nccl_devices.hpp"

namespace rehearse::inline profile {
namespace {

using Json = nlohmann::json;

class JsonReader {
 public:
  JsonReader(const std::string& text, const std::string& file, const NcclTestsOptions& options)
      : file_(file), options_(options), root_(parse(text)) {
    if (!root_.contains("config")) refuse_foreign_file(text, file);
  }

  CommPoints read() {
    CommPoints result;
    result.file = file_;
    const Json& config = member(root_, "config", "");
    const NcclDevices devices = read_devices(config);
    result.hardware = devices.model();
    if (const auto version = root_.find("nccl_version");
        version != root_.end() && version->is_number_integer()) {
      result.source = fmt::format("nccl-tests with NCCL {}", version_text(version->get<int>()));
    }
    const CollectiveKind kind = read_kind();
    if (!options_.nodes && devices.nodes_are_open())
      fail("config.devices",
           "every rank of a host has the same device number: which of them share a node is not "
           "said; give --nodes");
    const int ranks = options_.ranks.value_or(devices.ranks()),
              nodes = options_.nodes.value_or(devices.nodes());
    if (ranks < 2) fail("config.devices", "one rank communicates with nobody");
    if (nodes < 1 || nodes > ranks)
      fail("config.devices", "expected from one node to as many as ranks");
    const Json& rows = list(member(root_, "results", ""), "results");
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (const auto point = read_row(rows[i], fmt::format("results[{}]", i))) {
        result.points.push_back({kind, ranks, nodes, point->first, point->second});
      }
    }
    if (result.points.empty()) fail("results", "no result of a size above 0");
    return result;
  }

 private:
  Json parse(const std::string& text) const {
    try {
      Json root = parsed_json(text);
      return root;
    } catch (const Json::parse_error& error) {
      const auto end =
          text.begin() + static_cast<std::ptrdiff_t>(std::min(error.byte, text.size()));
      const auto line = std::count(text.begin(), end, '\n') + 1;
      throw InputError(
          fmt::format("{}:{}: error: not a whole JSON report of nccl-tests", file_, line));
    } catch (const Json::out_of_range&) {
      throw InputError(fmt::format("{}: error: a number that is too large", file_));
    }
  }

  [[noreturn]] void fail(const std::string& path, const std::string& message) const {
    throw InputError(fmt::format("{}: error: {}: {}", file_, path, message));
  }

  const Json& member(const Json& object, const std::string& key, const std::string& path) const {
    const std::string full = path.empty() ? key : path + "." + key;
    if (!object.is_object()) fail(path, "expected an object");
    const auto found = object.find(key);
    if (found == object.end()) fail(full, "is missing");
    return *found;
  }

  const Json& list(const Json& value, const std::string& path) const {
    if (!value.is_array()) fail(path, "expected a list");
    return value;
  }

  double number(const Json& value, const std::string& path) const {
    if (!value.is_number()) fail(path, fmt::format("expected a number; got {}", json_text(value)));
    return value.get<double>();
  }

  int whole(const Json& value, const std::string& path) const {
    const double result = number(value, path);
    if (result < 0 || result > 1e9 || result != static_cast<int>(result))
      fail(path, "expected a whole number");
    return static_cast<int>(result);
  }

  std::string text(const Json& value, const std::string& path) const {
    if (!value.is_string()) fail(path, fmt::format("expected a text; got {}", json_text(value)));
    return value.get<std::string>();
  }

  NcclDevices read_devices(const Json& config) const {
    NcclDevices devices;
    devices.set_ranks_per_process(whole(member(config, "nthreads", "config"), "config.nthreads") *
                                  whole(member(config, "ngpus", "config"), "config.ngpus"));
    const Json& listed = list(member(config, "devices", "config"), "config.devices");
    for (std::size_t i = 0; i < listed.size(); ++i) {
      const std::string path = fmt::format("config.devices[{}]", i);
      const auto field = [&](const char* key) -> const Json& {
        return member(listed[i], key, path);
      };
      NcclDevices::Device device;
      device.rank = whole(field("rank"), path + ".rank");
      device.group = whole(field("group"), path + ".group");
      device.pid = whole(field("pid"), path + ".pid");
      device.host = text(field("hostname"), path + ".hostname");
      device.device = json_text(field("device"));
      if (const auto bus = listed[i].find("device_hex"); bus != listed[i].end())
        device.device += json_text(*bus);
      device.model = text(field("device_info"), path + ".device_info");
      if (!devices.add(device)) fail(path, fmt::format("rank {} is listed twice", device.rank));
    }
    return devices;
  }

  /// The program is the first argument.
  CollectiveKind read_kind() const {
    if (options_.collective) return *options_.collective;
    const Json& args = list(member(root_, "args", ""), "args");
    const std::string program = args.empty() ? "" : text(args[0], "args[0]");
    const auto kind = collective_of_program(program_in(program));
    if (!kind)
      fail("args[0]", fmt::format("expected a test such as all_reduce_perf; got \"{}\"", program));
    return *kind;
  }

  std::optional<std::pair<Bytes, Seconds>> read_row(const Json& row,
                                                    const std::string& path) const {
    const Bytes size(number(member(row, "size", path), path + ".size"));
    if (!(size.value() > 0)) return std::nullopt;
    // Some tests have no out-of-place half: its value is null then.
    const bool in_place = options_.in_place || member(row, "out_of_place", path).is_null();
    const std::string half = in_place ? "in_place" : "out_of_place", half_path = path + "." + half;
    const Json& timing = member(row, half, path);
    if (!timing.is_object()) fail(half_path, "expected an object");
    const std::string key = timing.contains("cpu_time") ? "cpu_time" : "time";
    const Seconds time(number(member(timing, key, half_path), half_path + "." + key) * 1e-6);
    if (!(time.value() > 0)) fail(half_path + "." + key, "expected a time above 0");
    if (const auto wrong = timing.find("nwrong");
        wrong != timing.end() && wrong->is_number() && *wrong > 0) {
      fail(half_path + ".nwrong", "the results of this row are wrong, so is its time");
    }
    return std::pair(size, time);
  }

  /// 22703 is 2.27.3 (NCCL_VERSION since 2.9).
  static std::string version_text(int code) {
    return fmt::format("{}.{}.{}", code / 10000, code / 100 % 100, code % 100);
  }

  std::string file_;
  NcclTestsOptions options_;
  Json root_;
};

}  // namespace

CommPoints read_nccl_tests_json(const std::string& text, const std::string& file,
                                const NcclTestsOptions& options) {
  return JsonReader(text, file, options).read();
}

}  // namespace rehearse::inline profile
