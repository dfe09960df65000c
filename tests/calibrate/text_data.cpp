// Text as a data set: a file's bytes, and a source that is generated.
#include "data/text.hpp"

#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <map>
#include <numeric>

#include "base/error.hpp"
#include "config/whole_file.hpp"
#include "data/dataset.hpp"

BOOST_AUTO_TEST_SUITE(text_data_test)

using namespace rehearse;

namespace {

struct File {
  std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("text_" + std::to_string(getpid()));
  explicit File(const std::string& text) { write_whole_file(path, text); }
  ~File() { std::filesystem::remove(path); }
};

const Text& text_of(const Samples& samples) { return std::get<Text>(samples.of); }

/// In nats, of a byte where the `order` before it are known.
double entropy_after(const DataBytes& bytes, std::size_t order) {
  std::map<std::string, std::map<std::uint8_t, double>> counts;
  for (std::size_t i = order; i < bytes.size(); ++i)
    ++counts[std::string(bytes.begin() + static_cast<std::ptrdiff_t>(i - order),
                         bytes.begin() + static_cast<std::ptrdiff_t>(i))][bytes[i]];
  double entropy = 0;
  for (const auto& [context, next] : counts) {
    double all = 0;
    for (const auto& [byte, count] : next) all += count;
    for (const auto& [byte, count] : next) entropy -= count * std::log(count / all);
  }
  return entropy / static_cast<double>(bytes.size() - order);
}

auto says(const std::string& what) {
  return [what](const std::exception& error) {
    return std::string(error.what()).find(what) != std::string::npos;
  };
}

}  // namespace

BOOST_AUTO_TEST_CASE(each_byte_of_a_window_is_to_predict_the_next) {
  const File file("0123456789abcdefghijk!");
  const Text text = read_text(file.path, 4);
  BOOST_TEST(text.count() == 5u);  // and the byte behind the last
  const std::vector<std::uint32_t> which = {4, 0};
  const Batch batch = text_batch(text, which);
  const auto row = [](const torch::Tensor& tensor, std::int64_t index) {
    std::string letters;
    for (std::int64_t i = 0; i < tensor.size(1); ++i)
      letters += static_cast<char>(tensor[index][i].item<std::int64_t>());
    return letters;
  };
  BOOST_TEST(row(batch.input, 0) == "ghij");
  BOOST_TEST(row(batch.target, 0) == "hijk");
  BOOST_TEST(row(batch.input, 1) == "0123");
  BOOST_TEST(row(batch.target, 1) == "1234");
}

BOOST_AUTO_TEST_CASE(the_last_fifth_of_a_file_tests) {
  std::string letters(101, 'x');
  for (std::size_t i = 80; i < letters.size(); ++i) letters[i] = 'y';
  const File file(letters);
  const Dataset set = read_dataset({.folder = file.path, .format = "text", .window = 10});
  BOOST_TEST(set.train.count() == 8u);
  BOOST_TEST(set.test.count() == 2u);
  BOOST_TEST(set.name == "text " + file.path.filename().string());
  BOOST_TEST(commonest_share(text_of(set.test).bytes) == 1.0);
  BOOST_TEST(set.split.find("the first 8 of") != std::string::npos);
  const Dataset few = read_dataset({file.path, "text", 3, 1, 10});
  BOOST_TEST(few.train.count() == 3u);
  BOOST_TEST(few.test.count() == 1u);
  BOOST_CHECK_EXCEPTION(read_dataset({file.path, "text", 10, 1, 10}), InputError,
                        says("--train-samples: 10 samples are asked for, and 9 are there"));
}

BOOST_AUTO_TEST_CASE(too_little_text_is_refused) {
  const File file("0123456789");
  BOOST_CHECK_EXCEPTION(read_text(file.path, 10), InputError, says("remedy: a smaller --window"));
  BOOST_TEST(read_text(file.path, 9).count() == 1u);
  BOOST_CHECK_THROW(read_text("/no/such/text", 4), MissingError);
  BOOST_CHECK_EXCEPTION(read_dataset({.folder = file.path, .format = "markov"}), InputError,
                        says("markov is generated"));
}

BOOST_AUTO_TEST_CASE(entropy_is_that_of_the_frequencies) {
  BOOST_TEST(unigram_entropy({'a', 'b', 'a', 'b'}) == std::log(2),
             boost::test_tools::tolerance(1e-12));
  BOOST_TEST(unigram_entropy({'a', 'a'}) == 0);
  BOOST_TEST(commonest_share({'a', 'b', 'a', 'a'}) == 0.75);
}

BOOST_AUTO_TEST_CASE(generated_text_is_known_better_by_two_letters_than_by_one) {
  const Text text = generated_text(5000, 64);
  BOOST_TEST(text.count() == 5000u);
  BOOST_TEST((generated_text(5000, 64).bytes == text.bytes));
  const double none = unigram_entropy(text.bytes), one = entropy_after(text.bytes, 1),
               two = entropy_after(text.bytes, 2), three = entropy_after(text.bytes, 3);
  BOOST_TEST_MESSAGE("nats: " << none << ", " << one << ", " << two << ", " << three);
  BOOST_TEST(none <= std::log(16));
  BOOST_TEST(one < none - 0.3);
  BOOST_TEST(two < one - 0.3);
  BOOST_TEST(three > two - 0.05);  // its source knows no third; 4096 contexts fit a little
  const Dataset set = read_dataset({.format = "markov", .train_samples = 30, .test_samples = 7});
  BOOST_TEST(set.train.count() == 30u);
  BOOST_TEST(set.test.count() == 7u);
}

BOOST_AUTO_TEST_SUITE_END()
