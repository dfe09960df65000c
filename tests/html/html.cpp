#include "html/html.hpp"

#include <boost/test/unit_test.hpp>

#include "base/quoting.hpp"
#include "html/fallback.hpp"
#include "html/page_template.hpp"

using rehearse::fallback;
using rehearse::html_escaped;
using rehearse::title_of;
using rehearse::to_html;
using Json = nlohmann::ordered_json;

BOOST_AUTO_TEST_SUITE(html_test)
namespace {

const char* const kHostile =
    "</script><script>alert(1)</script><!-- <img src=x onerror=alert(2)> & \"'";

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++found;
  return found;
}

/// What stands between the tags of the element with that id.
std::string data_of(const std::string& page, const std::string& id) {
  const std::string tag = "<script type=\"application/json\" id=\"" + id + "\">";
  const std::size_t begin = page.find(tag) + tag.size();
  return page.substr(begin, page.find("</script>", begin) - begin);
}

Json study() {
  return {{"schema", "rehearse.study/1"},
          {"study", "toy"},
          {"description", kHostile},
          {"axes", {"nodes"}},
          {"points",
           {{{"point", 1},
             {"vary", {{"nodes", kHostile}}},
             {"exit_code", 2},
             {"error", kHostile},
             {"report", nullptr}}}}};
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_page_holds_the_document_as_it_is) {
  const Json document = study();
  const Json extras = {{"numbers", {0.1, 1e300, 9007199254740993}}, {"text", "@EXTRAS@ @TITLE@"}};
  const std::string page = to_html(document, extras);
  BOOST_TEST(Json::parse(data_of(page, "document")) == document);
  BOOST_TEST(Json::parse(data_of(page, "extras")) == extras);
}

/// As main.js does.
Json restored(const Json& part, const Json& shared) {
  if (!part.is_structured()) return part;
  if (part.is_object() && part.contains("$shared"))
    return restored(shared.at(part["$shared"].get<std::size_t>()), shared);
  Json whole = part;
  for (Json& inner : whole) inner = restored(inner, shared);
  return whole;
}

BOOST_AUTO_TEST_CASE(what_points_of_a_sweep_say_alike_stands_once) {
  const std::string line(200, 'x');
  Json document = study();
  for (int point = 2; point <= 12; ++point)
    document["points"].push_back(
        {{"point", point},
         {"vary", {{"nodes", point}}},
         {"exit_code", 0},
         {"error", nullptr},
         {"report", {{"lines", {line, "short"}}, {"inner", {{"line", line}}}}}});
  const std::string page = to_html(document);
  BOOST_TEST(count(page, line) == 1u);
  const Json shared = Json::parse(data_of(page, "extras")).at("shared");
  BOOST_TEST(restored(Json::parse(data_of(page, "document")), shared) == document);
}

BOOST_AUTO_TEST_CASE(no_text_of_the_document_is_markup) {
  const std::string page = to_html(study());
  const std::string empty = to_html(Json{{"schema", "rehearse.plan/1"}});
  for (const char* markup : {"<script", "</script", "<img", "<!--"})
    BOOST_TEST(count(page, markup) == count(empty, markup), markup);
}

BOOST_AUTO_TEST_CASE(markup_is_escaped) {
  BOOST_TEST(html_escaped("<a b='c'>&\"</a>") == "&lt;a b=&#39;c&#39;&gt;&amp;&quot;&lt;/a&gt;");
}

BOOST_AUTO_TEST_CASE(the_same_document_is_the_same_page) {
  BOOST_TEST((to_html(study()) == to_html(study().dump(2))));
}

BOOST_AUTO_TEST_CASE(text_that_is_no_utf8_does_not_stop_a_page) {
  Json document = study();
  document["description"] = "broken \xff here";
  BOOST_TEST(Json::parse(data_of(to_html(document), "document"))["description"] ==
             "broken \xEF\xBF\xBD here");
}

BOOST_AUTO_TEST_CASE(the_page_allows_only_its_own_scripts_and_no_network) {
  const std::string_view page = rehearse::page_template();
  const std::size_t policy = page.find("Content-Security-Policy");
  BOOST_REQUIRE(policy != std::string_view::npos);
  const std::string_view text = page.substr(policy, page.find('>', policy) - policy);
  BOOST_TEST(text.find("default-src 'none'; script-src 'sha256-") != std::string_view::npos);
  BOOST_TEST(text.find("unsafe") == std::string_view::npos);
}

BOOST_AUTO_TEST_CASE(a_document_without_description_is_called_by_its_name) {
  BOOST_TEST(title_of({{"schema", "rehearse.study/1"}, {"study", "toy"}, {"description", ""}}) ==
             "toy");
  BOOST_TEST(title_of({{"schema", "rehearse.report/1"},
                       {"model", "vgg16"},
                       {"strategy", "ddp"},
                       {"cluster", ""}}) == "vgg16 · ddp · inline cluster");
}

BOOST_AUTO_TEST_CASE(without_scripts_a_point_has_its_row) {
  const std::string table = fallback(study());
  BOOST_TEST(count(table, "<tr>") == 2);
  BOOST_TEST(table.find("1 of 1 points") != std::string::npos);
}

// The last one: what is noted stays.
BOOST_AUTO_TEST_CASE(the_page_shows_its_command_without_the_files_that_it_writes) {
  rehearse::note_command(
      {"./rehearse", "run", "a b.yaml", "--html", "x.html", "--output=y", "--set", "run.steps=2"});
  BOOST_TEST(Json::parse(data_of(to_html(study()), "extras"))["command"] ==
             "rehearse run 'a b.yaml' --set run.steps=2");
}

BOOST_AUTO_TEST_SUITE_END()
