#include "config/output_files.hpp"

#include <boost/test/unit_test.hpp>
#include <fstream>
#include <iterator>

#include "../scratch.hpp"
#include "base/error.hpp"
#include "config/files_read.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(output_files_test)
namespace {

std::ptrdiff_t files_in(const Scratch& folder) {
  return std::distance(std::filesystem::directory_iterator(folder.path()),
                       std::filesystem::directory_iterator());
}

std::string text_of(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

BOOST_AUTO_TEST_CASE(a_file_is_replaced_whole_and_leaves_no_temporary) {
  const Scratch folder;
  write_file(folder / "report.json", "a longer first text\n");
  write_file(folder / "report.json", "second\n");
  BOOST_TEST(text_of(folder / "report.json") == "second\n");
  BOOST_TEST(files_in(folder) == 1);
}

BOOST_AUTO_TEST_CASE(a_file_that_cannot_be_written_is_a_missing_error_and_leaves_no_temporary) {
  const Scratch folder;
  std::filesystem::create_directory(folder / "taken");
  BOOST_CHECK_THROW(write_file(folder / "taken", "text"), MissingError);
  BOOST_CHECK_THROW(write_file(folder / "no_folder" / "file", "text"), MissingError);
  BOOST_TEST(files_in(folder) == 1);
}

std::string refusal(const std::vector<OutputFile>& outputs) {
  try {
    check_outputs(outputs);
    return "";
  } catch (const InputError& error) {
    return error.what();
  }
}

BOOST_AUTO_TEST_CASE(an_output_is_neither_another_one_nor_an_input) {
  const Scratch folder;
  const FilesKept kept;
  const auto input = folder.write("in", "text");
  read_input(input, 100);
  std::filesystem::create_symlink(input, folder / "link");
  BOOST_TEST(refusal({{"--output", folder / "a"}, {"--html", folder / "b"}, {"--trace", ""}}) ==
             "");
  BOOST_TEST(refusal({{"--output", "/dev/null"}, {"--html", "/dev/null"}}) == "");
  const auto says = [&](const std::filesystem::path& file, const std::string& what) {
    const std::string said = refusal({{"--output", folder / "a"}, {"--html", file}});
    BOOST_TEST(folder.anonymous(said) == "rehearse: error: --html " +
                                             folder.anonymous(file.string()) + ": " + what +
                                             "\nremedy: name another file");
  };
  says(folder / "a", "--output writes this file, too");
  says(folder / "./b/../a", "--output writes this file, too");
  says(input, "it is an input, which is kept");
  says(folder / "link", "it is an input, which is kept");
}

BOOST_AUTO_TEST_CASE(a_device_is_written_and_not_replaced) {
  write_file("/dev/null", "text");
  BOOST_TEST(std::filesystem::is_character_file("/dev/null"));
  BOOST_CHECK_THROW(write_file("/dev/full", "text"), MissingError);
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
