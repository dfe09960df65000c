#include "cli/output.hpp"

#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "base/child_process.hpp"
#include "base/error.hpp"

namespace rehearse {
namespace {

/// An empty folder that goes when the test ends.
class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "rehearse.XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  std::size_t size() const {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(path_),
                                                  std::filesystem::directory_iterator()));
  }

 private:
  std::filesystem::path path_;
};

std::string text_of(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

BOOST_AUTO_TEST_CASE(a_file_is_replaced_whole_and_leaves_no_temporary) {
  const Folder folder;
  write_file(folder / "report.json", "a longer first text\n");
  write_file(folder / "report.json", "second\n");
  BOOST_TEST(text_of(folder / "report.json") == "second\n");
  BOOST_TEST(folder.size() == 1u);
}

BOOST_AUTO_TEST_CASE(a_file_that_cannot_be_written_is_a_missing_error_and_leaves_no_temporary) {
  const Folder folder;
  std::filesystem::create_directory(folder / "taken");
  BOOST_CHECK_THROW(write_file(folder / "taken", "text"), MissingError);
  BOOST_CHECK_THROW(write_file(folder / "no_folder" / "file", "text"), MissingError);
  BOOST_TEST(folder.size() == 1u);
}

BOOST_AUTO_TEST_CASE(a_device_is_written_and_not_replaced) {
  write_file("/dev/null", "text");
  BOOST_TEST(std::filesystem::is_character_file("/dev/null"));
  BOOST_CHECK_THROW(write_file("/dev/full", "text"), MissingError);
}

BOOST_AUTO_TEST_CASE(a_child_s_text_comes_back_whole) {
  const std::string large(1'000'000, 'x');
  BOOST_TEST(in_child_process([&] { return large; }) == large);
}

BOOST_AUTO_TEST_CASE(an_error_in_a_child_keeps_its_code_and_its_text) {
  try {
    in_child_process([]() -> std::string { throw StuckError("it waits"); });
    BOOST_FAIL("no error");
  } catch (const Error& error) {
    BOOST_TEST((error.code() == ExitCode::stuck));
    BOOST_TEST(error.what() == std::string("it waits"));
  }
}

BOOST_AUTO_TEST_CASE(a_child_that_is_killed_is_an_internal_error) {
  const auto die = []() -> std::string {
    std::signal(SIGTERM, SIG_DFL);
    kill(getpid(), SIGTERM);
    return "";
  };
  BOOST_CHECK_THROW(in_child_process(die), InternalError);
}

}  // namespace
}  // namespace rehearse
