#include <unistd.h>

#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <ostream>
#include <string>
#include <vector>

#include "config/document.hpp"
#include "error_of.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(syntax_test)
namespace {

namespace data = boost::unit_test::data;

struct BadText {
  std::string text;
  std::string message;
};
std::ostream& operator<<(std::ostream& out, const BadText& bad) { return out << bad.message; }

std::string repeated(const std::string& piece, std::size_t count) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) text += piece;
  return text;
}

const std::vector<BadText> kBadTexts = {
    // Nothing in it.
    {"", "f.yaml: error: the file is empty"},
    {"# only a comment\n\n", "f.yaml: error: the file is empty"},
    {"---\n", "f.yaml: error: the file is empty"},
    {"~\n", "f.yaml: error: the file is empty"},
    // No text.
    {std::string("a: 1\nb: \0\n", 10), "f.yaml:2:4: error: a NUL byte; this is not a text file"},
    {"a: 1\nb\xc3: 2\n", "f.yaml:2:2: error: invalid UTF-8; save the file as UTF-8 text"},
    {"a: \xc0\xaf\n", "f.yaml:1:4: error: invalid UTF-8; save the file as UTF-8 text"},
    {"a: \xed\xa0\x80\n", "f.yaml:1:4: error: invalid UTF-8; save the file as UTF-8 text"},
    {"a: \xf4\x90\x80\x80\n", "f.yaml:1:4: error: invalid UTF-8; save the file as UTF-8 text"},
    {"a: \xff\xfe\n", "f.yaml:1:4: error: invalid UTF-8; save the file as UTF-8 text"},
    {"a: \x1b[31m\n", "f.yaml:1:4: error: the control character 0x1b"},
    {"a: 1\rb: 2\n", "f.yaml:1:5: error: a carriage return that ends no line"},
    {"a: \"\\0\"\n", "f.yaml:1:4: error: a text with a control character in it\na: \"\\0\"\n   ^"},
    // What strict YAML leaves out.
    {"a: 1\nb: 2\na: 3\n",
     "f.yaml:3:1: error: duplicate key \"a\"; it stands on line 1 already\na: 3\n^"},
    {"a: {b: 1, \"b\": 2}\n",
     "f.yaml:1:11: error: duplicate key \"b\"; it stands on line 1 already\na: {b: 1, \"b\": 2}\n  "
     "        ^"},
    {"a: &x 1\nb: *x\n",
     "f.yaml:1:4: error: anchors (&x) are not supported\na: &x 1\n   ^\nremedy: write the value "
     "out"},
    {"b: *x\n",
     "f.yaml:1:4: error: aliases (*name) are not supported\nb: *x\n   ^\nremedy: write the value "
     "out"},
    {"a: !!int 3\n",
     "f.yaml:1:4: error: tags (!name) are not supported\na: !!int 3\n   ^\nremedy: leave the tag "
     "out"},
    {"a: ! 3\n",
     "f.yaml:1:4: error: tags (!name) are not supported\na: ! 3\n   ^\nremedy: leave the tag out"},
    {"!!map\na: 1\n",
     "f.yaml:1:1: error: tags (!name) are not supported\n!!map\n^\nremedy: leave the tag out"},
    {"<<: {a: 1}\n",
     "f.yaml:1:1: error: merge keys (<<) are not supported\n<<: {a: 1}\n^\nremedy: write the keys "
     "out"},
    {"%YAML 1.2\n---\na: 1\n",
     "f.yaml:1:1: error: directives (%NAME) are not supported\n%YAML 1.2\n^\nremedy: leave the "
     "line out"},
    {"a: 1\n---\nb: 2\n",
     "f.yaml:2:1: error: a second document\n---\n^\nremedy: write one document per file, without a "
     "second \"---\""},
    {"? [a]\n: b\n",
     "f.yaml:1:3: error: a key must be a word, not a map or a list\n? [a]\n  ^\nremedy: if it is "
     "not meant as a key: close the \"[\""},
    {"{a: 1}: b\n",
     "f.yaml:1:1: error: a key must be a word, not a map or a list\n{a: 1}: b\n^\nremedy: if it is "
     "not meant as a key: close the \"{\""},
    {"~: 1\n", "f.yaml:1:1: error: an empty key\n~: 1\n^"},
    {"\"\": 1\n", "f.yaml:1:1: error: an empty key\n\"\": 1\n^"},
    {"\"a\\nb\": 1\n", "f.yaml:1:1: error: a key with a line end or a tab in it\n\"a\\nb\": 1\n^"},
    {"a:\n\tb: 1\n",
     "f.yaml:2:1: error: a tab in the indentation\n b: 1\n^\nremedy: indent with spaces"},
    // Broken YAML.
    {"a: [1, 2\nb: 3\n",
     "f.yaml:1:4: error: this \"[\" is not closed, or a comma is missing in it\na: [1, 2\n   ^"},
    {"a: {b: 1\n",
     "f.yaml:1:4: error: this \"{\" is not closed, or a comma is missing in it\na: {b: 1\n   ^"},
    {"a: \"x\nb: 1\n\n", "f.yaml:2:5: error: a quote is not closed before this\nb: 1\n    ^"},
    {"a: 'x", "f.yaml:1:6: error: a quote is not closed before this\na: 'x\n     ^"},
    {"a: b: c\n",
     "f.yaml:1:5: error: not valid YAML: illegal map value\na: b: c\n    ^\n"
     "remedy: check the indentation; a text that contains \": \" needs quotes"},
    {"a: @x\n",
     "f.yaml:1:4: error: not valid YAML: unknown token\na: @x\n   ^\n"
     "remedy: a text that begins with this character needs quotes"},
    {"a: 'x' y\n",
     "f.yaml:1:8: error: not valid YAML: end of map not found\na: 'x' y\n       ^\nremedy: check "
     "the indentation"},
    {"- a\nb: 1\n",
     "f.yaml:2:1: error: the document has ended before this\nb: 1\n^\n"
     "remedy: check the indentation and the brackets"},
    // Too much.
    {repeated("[", 65) + repeated("]", 65),
     "f.yaml:1:65: error: nested deeper than 64 levels\n..." + repeated("[", 41) +
         repeated("]", 33) + "...\n" + repeated(" ", 43) + "^"},
};

BOOST_DATA_TEST_CASE(text_that_is_not_strict_yaml_is_an_input_error_at_its_place,
                     data::make(kBadTexts)) {
  BOOST_TEST(error_of([&] { Document::parse(sample.text, "f.yaml"); }) == sample.message);
}

BOOST_DATA_TEST_CASE(endless_nesting_is_an_input_error_and_no_stack_overflow,
                     data::make({"[", "{a: ", "- ", "? ", "[[a, ", "- a: "})) {
  BOOST_CHECK_THROW(Document::parse(repeated(sample, 200000), "f.yaml"), InputError);
}

BOOST_AUTO_TEST_CASE(sixteen_mebibytes_are_read_and_one_byte_more_is_an_error) {
  const std::string text = "a: " + std::string((std::size_t{16} << 20) - 3, 'x');
  BOOST_TEST(Document::parse(text, "f.yaml")->root().as_map().has("a"));
  BOOST_TEST(error_of([&] { Document::parse(text + "x", "f.yaml"); }) ==
             "f.yaml: error: the file is larger than 16 MiB");
}

BOOST_DATA_TEST_CASE(byte_order_mark_windows_line_ends_and_document_marks_are_read,
                     data::make({"a: 1\nb: 2\n",
                                 "\xef\xbb\xbf"
                                 "a: 1\nb: 2",
                                 "a: 1\r\nb: 2\r\n", "---\na: 1\nb: 2\n", "a: 1\nb: 2\n...\n",
                                 "{a: 1, b: 2}", "# c\n\t\n\"a\": 1\nb: 2 # c\n"})) {
  Map map = Document::parse(sample, "f.yaml")->root().as_map();
  BOOST_TEST(map.require("a").as_number() == 1);
  BOOST_TEST(map.require("b").as_number() == 2);
}

BOOST_AUTO_TEST_CASE(columns_count_characters_and_not_bytes) {
  BOOST_TEST(
      error_of([] { Document::parse("{name: \"\xc3\xa9t\xc3\xa9\", b: *x}", "f.yaml"); }) ==
      "f.yaml:1:18: error: aliases (*name) are not supported\n"
      "{name: \"\xc3\xa9t\xc3\xa9\", b: *x}\n                 ^\nremedy: write the value out");
}

BOOST_AUTO_TEST_CASE(a_long_line_is_cut_around_the_caret_to_80_columns) {
  const std::string text = "{a: " + repeated("x", 100) + ", b: *x, c: " + repeated("y", 100) + "}";
  BOOST_TEST(error_of([&] { Document::parse(text, "f.yaml"); }) ==
             "f.yaml:1:110: error: aliases (*name) are not supported\n..." + repeated("x", 35) +
                 ", b: *x, c: " + repeated("y", 27) + "...\n" + repeated(" ", 43) +
                 "^\nremedy: write the value out");
}

/// A folder of its own that is removed at the end.
struct Folder {
  Folder()
      : path(std::filesystem::temp_directory_path() /
             ("rehearse_test_config_" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(path);
  }
  ~Folder() { std::filesystem::remove_all(path); }
  std::filesystem::path path;
};

BOOST_AUTO_TEST_CASE(a_file_is_read_with_its_folder_and_its_name) {
  const Folder folder;
  const auto file = folder.path / "a.yaml";
  std::ofstream(file) << "a: 1\n";
  const Value root = Document::load(file)->root();
  BOOST_TEST(root.file() == file.string());
  BOOST_TEST(root.folder() == folder.path);
  BOOST_TEST(root.line() == 1);
}

BOOST_AUTO_TEST_CASE(a_file_that_cannot_be_read_is_a_missing_error) {
  const Folder folder;
  const auto message = [](const std::filesystem::path& file) -> std::string {
    try {
      Document::load(file);
    } catch (const MissingError& error) {
      return error.what();
    }
    return "no MissingError";
  };
  BOOST_TEST(message("no/such.yaml") ==
             "no/such.yaml: error: cannot read the file: No such file or directory");
  BOOST_TEST(message(folder.path) ==
             folder.path.string() + ": error: cannot read the file: it is a folder");
  BOOST_TEST(message("") == ": error: cannot read the file: No such file or directory");
}

BOOST_AUTO_TEST_CASE(a_device_without_an_end_is_an_input_error) {
  BOOST_TEST(error_of([] { Document::load("/dev/zero"); }) ==
             "/dev/zero: error: the file is larger than 16 MiB");
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
