#include "config/files_read.hpp"

#include <sys/stat.h>

#include <boost/test/unit_test.hpp>
#include <thread>

#include "../scratch.hpp"
#include "base/child_process.hpp"
#include "base/error.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(files_read_test)
namespace {

constexpr std::size_t kMost = 1'000'000;

BOOST_AUTO_TEST_CASE(a_file_that_is_kept_is_read_once_here_and_in_children) {
  const Scratch scratch;
  const auto file = scratch.write("f", "first");
  const FilesKept kept;
  BOOST_TEST(read_input(file, kMost) == "first");
  scratch.write("f", "second");
  BOOST_TEST(read_input(file, kMost) == "first");
  BOOST_TEST(in_child_process([&] { return read_input(file, kMost); }) == "first");
  BOOST_TEST(FilesKept::names().size() == 1U);
}

BOOST_AUTO_TEST_CASE(without_keeping_it_is_read_again) {
  const Scratch scratch;
  const auto file = scratch.write("f", "first");
  BOOST_TEST(read_input(file, kMost) == "first");
  scratch.write("f", "second");
  BOOST_TEST(read_input(file, kMost) == "second");
}

BOOST_AUTO_TEST_CASE(a_device_without_an_end_is_read_little_further_than_asked) {
  BOOST_TEST(read_input("/dev/zero", 1000).size() < 100'000U);
}

BOOST_AUTO_TEST_CASE(a_pipe_is_read_to_its_end_however_slowly_it_is_written) {
  const Scratch scratch;
  mkfifo((scratch / "pipe").c_str(), 0600);
  std::thread writer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    std::ofstream stream(scratch / "pipe");
    stream << "one" << std::flush;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    stream << " two";
  });
  BOOST_TEST(read_input(scratch / "pipe", kMost) == "one two");
  writer.join();
}

BOOST_AUTO_TEST_CASE(what_cannot_be_read_says_why) {
  const Scratch scratch;
  const auto reason = [&](const std::filesystem::path& file) -> std::string {
    try {
      return read_input(file, kMost);
    } catch (const MissingError& error) {
      return scratch.anonymous(error.what());
    }
  };
  BOOST_TEST(reason(scratch / "no") ==
             "SCRATCH/no: error: cannot read the file: No such file or directory");
  BOOST_TEST(reason(scratch.path()) == "SCRATCH: error: cannot read the file: it is a folder");
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
