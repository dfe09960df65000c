#include "cli/shared_options.hpp"

#include "cli/arguments.hpp"

namespace rehearse {

void add_color(CLI::App& app, ColorChoice& color) {
  app.add_option_function<std::string>(
         "--color", [&color](const std::string& when) { color = parse_color_choice(when); },
         "auto, always or never")
      ->check(one_of({"auto", "always", "never"}))
      ->type_name("WHEN");
}

CLI::Option* add_html(CLI::App& app, std::filesystem::path& file) {
  return app
      .add_option("--html", file, "Write a page that opens in any browser, without a network")
      ->type_name("FILE");
}

CLI::Option* add_format(CLI::App& app, std::string& format, const std::string& about) {
  return app.add_option("--format", format, about)
      ->check(one_of({"table", "json", "csv"}))
      ->type_name("FORMAT");
}

void add_overrides(CLI::App& app, std::vector<std::string>& overrides, const std::string& about) {
  app.add_option("--set", overrides, about)->type_name("KEY=VALUE")->allow_extra_args(false);
}

CLI::Option* add_fail_unless(CLI::App& app, std::string& condition) {
  return app
      .add_option("--fail-unless", condition,
                  "Exit with 1 unless its memory fits, or may_fit: at risk is enough")
      ->check(one_of({"fits", "may_fit"}))
      ->type_name("CONDITION");
}

void add_jobs(CLI::App& app, int& jobs, const std::string& what) {
  app.add_option("--jobs", jobs, what + " side by side; else one per core")
      ->check(CLI::Range(1, 1024))
      ->type_name("N");
}

}  // namespace rehearse
