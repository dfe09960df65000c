// Sets of records: folders that were packed into one file.
#include "config/record_set.hpp"

#include <lzma.h>

#include <boost/test/unit_test.hpp>
#include <utility>

#include "../scratch.hpp"
#include "base/error.hpp"
#include "config/document.hpp"
#include "config/files_read.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(record_set_test)
namespace {

constexpr std::size_t kMost = 1'000'000;

/// A record of a tar file, as POSIX.1-1988 has it (checksums are liblzma's matter).
std::string tar_record(const std::string& name, const std::string& text, char type = '0') {
  constexpr std::size_t kBlock = 512;
  std::string header(kBlock, '\0');
  header.replace(0, name.size(), name);
  char size[13];
  std::snprintf(size, sizeof size, "%011zo", text.size());
  header.replace(124, 11, size);
  header[156] = type;
  header.replace(257, 5, "ustar");
  std::string body = text;
  body.resize((text.size() + kBlock - 1) / kBlock * kBlock);
  return header + body;
}

std::string packed(const std::string& text) {
  std::string result(lzma_stream_buffer_bound(text.size()), '\0');
  std::size_t size = 0;
  BOOST_REQUIRE(lzma_easy_buffer_encode(6, LZMA_CHECK_CRC64, nullptr,
                                        reinterpret_cast<const std::uint8_t*>(text.data()),
                                        text.size(), reinterpret_cast<std::uint8_t*>(result.data()),
                                        &size, result.size()) == LZMA_OK);
  result.resize(size);
  return result;
}

const std::string kTar = tar_record("./calibration/", "", '5') +
                         tar_record("./calibration/cluster.yaml", "comm: comm.yaml\n") +
                         tar_record("calibration/comm.yaml", "a: 1\n") +
                         tar_record("w4_hurts_1.real.json", "{}") + std::string(1024, '\0');

std::string error_of(const std::filesystem::path& file, const Scratch& scratch) {
  try {
    read_input(file, kMost);
  } catch (const Error& error) {
    return scratch.anonymous(error.what());
  }
  return "no error";
}

BOOST_AUTO_TEST_CASE(a_record_is_named_as_if_its_set_were_a_folder) {
  const Scratch scratch;
  const auto set = scratch.write("records.tar.xz", packed(kTar));
  BOOST_TEST(read_input(set / "w4_hurts_1.real.json", kMost) == "{}");
  BOOST_TEST(read_input(set / "calibration/../w4_hurts_1.real.json", kMost) == "{}");
  const auto document = Document::load(set / "calibration/cluster.yaml");
  const Value beside = document->root().as_map().require("comm");
  BOOST_TEST(read_input(beside.folder() / beside.as_string(), kMost) == "a: 1\n");
}

BOOST_AUTO_TEST_CASE(its_files_and_folders_are_there_as_on_the_disk) {
  const Scratch scratch;
  const auto set = scratch.write("records.tar.xz", packed(kTar));
  scratch.write("folder/calibration/cluster.yaml", "");
  scratch.write("folder/calibration/comm.yaml", "");
  for (const auto& folder : {set, scratch / "folder"}) {
    BOOST_TEST(is_input_folder(folder));
    BOOST_TEST(is_input_folder(folder / "calibration"));
    BOOST_TEST(!is_input_folder(folder / "calibration/comm.yaml"));
    BOOST_TEST(is_input_file(folder / "calibration/comm.yaml"));
    BOOST_TEST(!is_input_file(folder / "calibration"));
    BOOST_TEST(!is_input_file(folder / "calibration/nowhere.yaml"));
    const std::vector<std::filesystem::path> expected = {folder / "calibration/cluster.yaml",
                                                         folder / "calibration/comm.yaml"};
    BOOST_TEST((input_files(folder / "calibration") == expected));
    BOOST_TEST(input_files(folder / "nowhere").empty());
  }
}

BOOST_AUTO_TEST_CASE(a_set_that_was_packed_anew_is_read_anew) {
  const Scratch scratch;
  const auto set = scratch.write("records.tar.xz", packed(kTar));
  BOOST_TEST(is_input_file(set / "w4_hurts_1.real.json"));
  scratch.write("records.tar.xz", packed(tar_record("other", "text")));
  BOOST_TEST(!is_input_file(set / "w4_hurts_1.real.json"));
  BOOST_TEST(read_input(set / "other", kMost) == "text");
}

BOOST_AUTO_TEST_CASE(a_record_that_is_missing_says_which_is_meant_and_how_to_look) {
  const Scratch scratch;
  const auto set = scratch.write("records.tar.xz", packed(kTar));
  BOOST_TEST(
      error_of(set / "w4_hurt_1.real.json", scratch) ==
      "SCRATCH/records.tar.xz: error: the set has no record \"w4_hurt_1.real.json\"\n"
      "remedy: did you mean \"w4_hurts_1.real.json\"? `tar -tf SCRATCH/records.tar.xz` lists "
      "what it has");
  BOOST_TEST(remedy_for_missing(scratch / "nowhere.json", "write one") == "write one");
}

BOOST_AUTO_TEST_CASE(a_set_that_is_not_there_is_a_missing_file) {
  const Scratch scratch;
  BOOST_TEST(error_of(scratch / "nowhere.tar.xz/a", scratch) ==
             "SCRATCH/nowhere.tar.xz/a: error: cannot read the file: No such file or directory");
}

BOOST_AUTO_TEST_CASE(what_is_no_set_is_refused_with_the_reason) {
  const Scratch scratch;
  const std::string whole = packed(kTar);
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"text that is no xz file", "it is not packed by xz"},
      {whole.substr(0, whole.size() / 2), "it is damaged or cut off"},
      {packed("text" + std::string(1020, ' ')), "there is no tar file in it"},
      {packed(kTar.substr(0, kTar.size() - 1500)), "the tar file in it is cut off"},
      {packed(tar_record("link", "", '2')), "\"link\" is neither a file nor a folder"}};
  for (const auto& [bytes, why] : wrong) {
    const auto set = scratch.write("records.tar.xz", bytes);
    BOOST_TEST(error_of(set / "a", scratch) ==
               "SCRATCH/records.tar.xz: error: is no set of records (a tar file packed by xz): " +
                   why + "\nremedy: pack its folder again with tests/validation/record_set.py");
  }
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
