#include "config/fields.hpp"

#include <boost/test/unit_test.hpp>

#include "config/key_log.hpp"
#include "error_of.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(fields_test)
namespace {

struct Valve {
  Seconds opening{0.5};
};
struct Pump {
  enum class Mode { slow, fast };
  int stages = 2;
  double share = 0.25;
  bool on = true;
  Mode mode = Mode::slow;
  Seconds pause{2};
  Bytes log{1024};
  BytesPerSecond rate{1e9};
  std::string name = "nobody";
  std::optional<Bytes> tank{};
  std::vector<Valve> valves{};
  double low = 0, high = 1;
  int speed = 7;
};

Fields<Valve> valve_fields() {
  return {required("opening", &Valve::opening, "How long it opens.", "me")};
}

Fields<Pump> pump_fields() {
  using P = Pump;
  return {
      field("stages", &P::stages, form::integer(1, 9).in("wheels"), "Wheels."),
      field("share", &P::share, form::within(0, 0.5), "A share."),
      field("on", &P::on, "Whether it runs."),
      field("mode", &P::mode,
            form::choice<P::Mode>({{"slow", P::Mode::slow}, {"fast", P::Mode::fast}}), "A mode."),
      field("pause", &P::pause, "A pause."),
      field("log", &P::log, "A size."),
      field("rate", &P::rate, "A rate."),
      field("name", &P::name, "A name."),
      field("tank", &P::tank, form::size_above_0(), "A tank.").otherwise("(none)"),
      required("valves", &P::valves, form::list(form::map(valve_fields())), "Its valves."),
      group<P>("bounds",
               {field("low", &P::low, form::number(), "Low."),
                field("high", &P::high, form::positive(), "High.")},
               "Bounds."),
      silent("speed", &P::speed, form::integer(1, 9), "Unsaid.").where([](const P& pump) {
        return pump.on;
      })};
}

Pump read(const std::string& text) {
  return read_fields(Document::parse(text, "f.yaml")->root(), pump_fields());
}

const std::string kLeast = "valves: [{opening: 3s}]\nbounds: {}\n";

BOOST_AUTO_TEST_CASE(one_list_reads_a_record) {
  const Pump pump = read(
      "stages: 3\nshare: 0.5\non: true\nmode: fast\npause: 1s\nlog: 4kB\nrate: 2GBps\nname: p\n"
      "tank: 1MB\nvalves: [{opening: 3s}, {opening: 4s}]\nbounds: {low: -1, high: 2}\nspeed: 8\n");
  BOOST_TEST(pump.stages == 3);
  BOOST_TEST(pump.share == 0.5);
  BOOST_TEST((pump.mode == Pump::Mode::fast));
  BOOST_TEST(pump.log.value() == 4000);
  BOOST_TEST(pump.tank->value() == 1e6);
  BOOST_TEST(pump.valves.size() == 2u);
  BOOST_TEST(pump.valves[1].opening.value() == 4);
  BOOST_TEST(pump.low == -1);
  BOOST_TEST(pump.speed == 8);
}

BOOST_AUTO_TEST_CASE(the_defaults_are_the_members_and_are_noted_but_for_silent_and_optional_ones) {
  const auto document = Document::parse(kLeast, "f.yaml");
  const Pump pump = read_fields(document->root(), pump_fields());
  BOOST_TEST(pump.stages == 2);
  BOOST_TEST(!pump.tank.has_value());
  BOOST_TEST(document->defaults_taken() ==
                 (std::vector<std::string>{"stages = 2", "share = 0.25", "on = true", "mode = slow",
                                           "pause = 2.00 s", "log = 1.00 KiB", "rate = 1.00 GB/s",
                                           "name = nobody", "bounds.low = 0", "bounds.high = 1"}),
             boost::test_tools::per_element());
}

/// What tests/keys need not look for: a key of a list is read as its line says.
BOOST_AUTO_TEST_CASE(a_line_of_the_reference_has_the_type_and_the_default_that_are_read) {
  KeyLog log;
  read(kLeast);
  read(
      "stages: 3\nshare: 0.5\non: true\nmode: fast\npause: 1s\nlog: 4kB\nrate: 2GBps\nname: p\n"
      "tank: 1MB\nvalves: [{opening: 3s}]\nbounds: {low: -1, high: 2}\nspeed: 8\n");
  for (const Key& key : keys_of(pump_fields())) {
    BOOST_TEST(key.is_field);
    std::string path = key.name;
    if (const std::size_t item = path.find("[]"); item != std::string::npos)
      path.replace(item, 2, ".0");
    const KeyLog::Use& use = log.use("f.yaml", path);
    const std::string type = key.type.name();
    BOOST_TEST((use.types.contains(type) || type == "list of map"), path << " is no " << type);
    if (!use.defaults.empty()) BOOST_TEST(*use.defaults.begin() == key.fallback);
  }
}

BOOST_AUTO_TEST_CASE(lines_have_units_words_and_the_keys_below_them) {
  const std::vector<Key> keys = keys_of(pump_fields(), "pump.");
  BOOST_TEST(keys[0].name == "pump.stages");
  BOOST_TEST(keys[0].type.text() == "integer >= 1 (wheels)");
  BOOST_TEST(keys[1].type.text() == "number (0 to 0.5)");
  BOOST_TEST(keys[8].fallback == "(none)");
  BOOST_TEST(keys[9].type.text() == "list of map");
  BOOST_TEST(keys[10].name == "pump.valves[].opening");
  BOOST_TEST(keys[10].fallback == "required");
  BOOST_TEST(keys[10].source == "me");
  BOOST_TEST(keys[12].name == "pump.bounds.low");
  BOOST_TEST(keys.back().fallback == "-");
}

BOOST_AUTO_TEST_CASE(messages_are_those_of_the_values) {
  BOOST_TEST(error_of([] { read("share: 0.7\n" + kLeast); }) ==
             "f.yaml:1:8: error: share: expected a number from 0 to 0.5; got \"0.7\"\n"
             "share: 0.7\n       ^");
  BOOST_TEST(error_of([] { read("bounds: {}\n"); }) ==
             "f.yaml:1:1: error: the key \"valves\" is missing\nbounds: {}\n^");
  BOOST_TEST(error_of([] { read("tank: 0B\n" + kLeast); }) ==
             "f.yaml:1:7: error: tank: expected a size above zero; got 0B\ntank: 0B\n      ^");
}

BOOST_AUTO_TEST_CASE(a_key_that_does_not_apply_is_unknown) {
  BOOST_TEST(error_of([] {
               read("on: false\nspeed: 3\n" + kLeast);
             }).starts_with("f.yaml:2:1: error: speed: unknown key"));
}

BOOST_AUTO_TEST_CASE(a_check_holds_keys_against_each_other_once_all_are_known) {
  const auto fails = [](Map& map, Valve&) { map.require("opening").fail("too long"); };
  const auto read_checked = [&](const std::string& text) {
    return error_of(
        [&] { read_fields(Document::parse(text, "f.yaml")->root(), valve_fields(), fails); });
  };
  BOOST_TEST(read_checked("opening: 3s\n").find("opening: too long") != std::string::npos);
  BOOST_TEST(read_checked("opening: 3s\nclosing: 1s\n").find("unknown key") != std::string::npos);
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
