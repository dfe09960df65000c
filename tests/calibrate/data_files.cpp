// Data sets as files: what is written is read, plain and compressed, and damage is named.
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <numeric>
#include <set>

#include "base/error.hpp"
#include "config/whole_file.hpp"
#include "data/dataset.hpp"
#include "data/shard_order.hpp"
#include "synthetic_digits.hpp"

BOOST_AUTO_TEST_SUITE(data_files_test)

using namespace rehearse;
namespace fs = std::filesystem;

struct Folder {
  fs::path path = fs::temp_directory_path() / ("data_files_" + std::to_string(getpid()));
  Folder() { fs::create_directories(path); }
  ~Folder() { fs::remove_all(path); }
};

void compress(const fs::path& file) {
  const std::string text = read_whole_file(file);
  const gzFile out = gzopen((file.string() + ".gz").c_str(), "wb");
  gzwrite(out, text.data(), static_cast<unsigned>(text.size()));
  gzclose(out);
  fs::remove(file);
}

void check_same(const Images& a, const Images& b) {
  BOOST_TEST(a.side == b.side);
  BOOST_TEST(a.channels == b.channels);
  BOOST_TEST((a.pixels == b.pixels));
  BOOST_TEST((a.labels == b.labels));
}

template <class Read>
void check_refused(Read&& read, const fs::path& file, const std::string& message) {
  const auto says = [&](const InputError& error) {
    BOOST_TEST(error.what() == file.string() + ": error: " + message);
    return true;
  };
  BOOST_CHECK_EXCEPTION(read(), InputError, says);
}

// --- MNIST's family

BOOST_FIXTURE_TEST_CASE(idx_files_are_read_as_written_plain_and_compressed, Folder) {
  const Images train = synthetic_digits(40, 1), test = synthetic_digits(20, 2);
  write_idx(train, path, "train");
  write_idx(test, path, "t10k");
  compress(path / "train-images-idx3-ubyte");
  compress(path / "t10k-labels-idx1-ubyte");
  const Dataset set = read_dataset({path, "mnist"});
  check_same(std::get<Images>(set.train.of), train);
  check_same(std::get<Images>(set.test.of), test);
  BOOST_TEST(set.split == "train: all 40 of train; test: all 20 of t10k");
}

BOOST_FIXTURE_TEST_CASE(only_so_many_samples_are_taken_where_that_is_asked, Folder) {
  const Images train = synthetic_digits(40, 1), test = synthetic_digits(20, 2);
  write_idx(train, path, "train");
  write_idx(test, path, "t10k");
  const Dataset set = read_dataset({path, "mnist", 30, 5});
  check_same(std::get<Images>(set.train.of), slice(train, 0, 30));
  check_same(std::get<Images>(set.test.of), slice(test, 0, 5));
  BOOST_TEST(set.split == "train: the first 30 of train; test: the first 5 of t10k");
  BOOST_CHECK_THROW(read_dataset({path, "mnist", 41}), InputError);
}

BOOST_FIXTURE_TEST_CASE(a_test_file_alone_is_split_without_overlap, Folder) {
  const Images all = synthetic_digits(50, 1);
  write_idx(all, path, "t10k");
  const Dataset set = read_dataset({path, "mnist"});
  check_same(std::get<Images>(set.train.of), slice(all, 0, 40));
  check_same(std::get<Images>(set.test.of), slice(all, 40, 50));
  BOOST_TEST(set.split == "train: the first 40 of t10k; test: the last 10 of it");
  BOOST_CHECK_THROW(read_dataset({path, "mnist", 45, 10}), InputError);
}

BOOST_FIXTURE_TEST_CASE(damaged_idx_files_are_refused_with_their_byte, Folder) {
  write_idx(synthetic_digits(10, 1), path, "t10k");
  const fs::path images = path / "t10k-images-idx3-ubyte", labels = path / "t10k-labels-idx1-ubyte";
  const std::string pixels = read_whole_file(images), classes = read_whole_file(labels);
  const auto read = [&] { read_idx(images, labels); };
  const auto with = [](std::string text, std::size_t at, char value) {
    text[at] = value;
    return text;
  };
  write_whole_file(images, with(pixels, 3, 1));
  check_refused(read, images,
                "byte 0: expected the magic 0x00000803 of IDX images; got 0x00000801");
  write_whole_file(images, pixels.substr(0, 10));
  check_refused(read, images, "byte 8: the file ends within its head");
  write_whole_file(images, with(pixels, 11, 27));
  check_refused(read, images, "byte 8: expected square images; got 27 x 28");
  write_whole_file(images, pixels.substr(0, pixels.size() - 1));
  check_refused(read, images, "byte 16: expected 7840 bytes from here, as the head says; got 7839");
  write_whole_file(images, pixels + "x");
  check_refused(read, images, "byte 16: expected 7840 bytes from here, as the head says; got 7841");
  write_whole_file(images, pixels);
  write_whole_file(labels, with(classes, 7, 9));
  check_refused(read, labels,
                "byte 4: expected 10 labels, as there are images in t10k-images-idx3-ubyte; got 9");
  write_whole_file(labels, with(classes, 12, 10));
  check_refused(read, labels, "byte 12: expected a label from 0 to 9; got 10");
}

BOOST_FIXTURE_TEST_CASE(damaged_compression_is_refused, Folder) {
  write_idx(synthetic_digits(10, 1), path, "t10k");
  compress(path / "t10k-images-idx3-ubyte");
  const fs::path file = path / "t10k-images-idx3-ubyte.gz";
  const std::string whole = read_whole_file(file);
  const auto read = [&] { read_data_file(file); };
  write_whole_file(file, whole.substr(0, whole.size() / 2));
  check_refused(read, file, "ends in the middle of its gzip data");
  write_whole_file(file, whole + "abc");
  check_refused(read, file, "has 3 bytes after its gzip data");
  write_whole_file(file, "not compressed");
  check_refused(read, file, "is no gzip data (incorrect header check)");
  std::string flipped = whole;
  flipped[whole.size() - 6] ^= 1;  // of the checksum
  write_whole_file(file, flipped);
  check_refused(read, file, "is no gzip data (incorrect data check)");
}

BOOST_FIXTURE_TEST_CASE(missing_files_are_named, Folder) {
  const auto says = [&](const MissingError& error) {
    BOOST_TEST(error.what() == path.string() +
                                   ": error: neither t10k-images-idx3-ubyte nor "
                                   "t10k-images-idx3-ubyte.gz is in this folder");
    return true;
  };
  BOOST_CHECK_EXCEPTION(read_dataset({path, "mnist"}), MissingError, says);
  BOOST_CHECK_THROW(read_dataset({path / "no_such", "mnist"}), MissingError);
}

BOOST_FIXTURE_TEST_CASE(a_folder_of_another_format_says_which, Folder) {
  const auto refused = [&](const std::string& format, const std::string& message) {
    const auto says = [&](const MissingError& error) {
      BOOST_TEST(error.what() == path.string() + ": error: neither " + message);
      return true;
    };
    BOOST_CHECK_EXCEPTION(read_dataset({path, format}), MissingError, says);
  };
  write_cifar10(synthetic_digits(3, 1, 32, 3), path / "test_batch.bin");
  refused("fashion-mnist",
          "t10k-images-idx3-ubyte nor t10k-images-idx3-ubyte.gz is in this folder\n"
          "remedy: --format cifar10");
  fs::remove(path / "test_batch.bin");
  write_idx(synthetic_digits(3, 1), path, "t10k");
  refused("cifar10",
          "data_batch_1.bin nor data_batch_1.bin.gz is in this folder\n"
          "remedy: --format mnist, or fashion-mnist");
}

// A gray of 73 is 0.2863 of white: 0.0008 of Fashion-MNIST's deviations above its mean, and half of
// MNIST's.
BOOST_FIXTURE_TEST_CASE(fashion_mnist_has_a_name_and_a_normalisation_of_its_own, Folder) {
  Images gray{1, 2, DataBytes(8, 73), DataBytes(2, 0)};
  write_idx(gray, path, "t10k");
  for (const auto& [format, mean, deviation] :
       {std::tuple("mnist", 0.1307, 0.3081), std::tuple("fashion-mnist", 0.2860, 0.3530)}) {
    const Dataset set = read_dataset({path, format});
    BOOST_TEST(set.name == format);
    const std::vector<std::uint32_t> first = {0};
    const Batch batch = sample_batch(set.test, first, set.name);
    BOOST_TEST(std::abs(batch.input[0][2][1][1].item<double>() - (73 / 255.0 - mean) / deviation) <
               1e-6);
  }
}

// --- CIFAR-10

BOOST_FIXTURE_TEST_CASE(cifar10_is_read_as_written, Folder) {
  Images all{3, 32, {}, {}};
  for (int batch = 1; batch <= 5; ++batch) {
    const Images images = synthetic_digits(4, static_cast<std::uint64_t>(batch), 32, 3);
    write_cifar10(images, path / ("data_batch_" + std::to_string(batch) + ".bin"));
    append(all, images);
  }
  const Images test = synthetic_digits(6, 9, 32, 3);
  write_cifar10(test, path / "test_batch.bin");
  compress(path / "test_batch.bin");
  const Dataset set = read_dataset({path, "cifar10"});
  check_same(std::get<Images>(set.train.of), all);
  check_same(std::get<Images>(set.test.of), test);
}

BOOST_FIXTURE_TEST_CASE(damaged_cifar10_is_refused_with_its_byte, Folder) {
  const fs::path file = path / "test_batch.bin";
  write_cifar10(synthetic_digits(3, 1, 32, 3), file);
  const std::string whole = read_whole_file(file);
  const auto read = [&] { read_cifar10(file); };
  write_whole_file(file, whole.substr(0, whole.size() - 1));
  check_refused(read, file, "byte 6146: expected records of 3073 bytes; got 3072 more");
  std::string label = whole;
  label[3073] = 10;
  write_whole_file(file, label);
  check_refused(read, file, "byte 3073: expected a label from 0 to 9; got 10");
  write_whole_file(file, "");
  check_refused(read, file, "byte 0: expected records of 3073 bytes; got 0 more");
}

// --- the order of samples

BOOST_AUTO_TEST_CASE(an_epoch_s_batches_are_all_workers_disjoint_samples) {
  // 103 samples over 4 workers: shards of 26, 26, 26 and 25, of which 6 batches of 4 are taken.
  std::set<std::uint32_t> seen;
  for (std::uint32_t worker = 0; worker < 4; ++worker) {
    ShardOrder order({.samples = 103, .workers = 4, .worker = worker, .batch = 4, .seed = 3});
    BOOST_TEST(order.batches_per_epoch() == 6u);
    for (std::uint64_t k = 0; k < 6; ++k)
      for (const std::uint32_t sample : order.batch(k)) BOOST_TEST(seen.insert(sample).second);
  }
  BOOST_TEST(seen.size() == 96u);
  BOOST_TEST(*seen.rbegin() < 103u);
}

BOOST_AUTO_TEST_CASE(batches_do_not_depend_on_which_were_asked_for_before) {
  const ShardOptions options{.samples = 60, .workers = 2, .worker = 1, .batch = 5, .seed = 3};
  ShardOrder in_order(options), at_random(options);
  std::vector<std::vector<std::uint32_t>> batches;
  for (std::uint64_t k = 0; k < 18; ++k) batches.push_back(in_order.batch(k));
  for (const std::uint64_t k : {17U, 0U, 9U, 5U, 6U})
    BOOST_TEST((at_random.batch(k) == batches[k]));
  BOOST_TEST((batches[0] != batches[6]));  // another epoch, another order
}

BOOST_AUTO_TEST_CASE(every_order_is_as_likely) {
  // 3 samples have 6 orders; 6,000 epochs give each 1,000, with a standard deviation of 29.
  ShardOrder order({.samples = 3, .workers = 1, .worker = 0, .batch = 3, .seed = 5});
  std::map<std::vector<std::uint32_t>, int> count;
  for (std::uint64_t epoch = 0; epoch < 6000; ++epoch) ++count[order.batch(epoch)];
  BOOST_TEST(count.size() == 6u);
  for (const auto& [which, times] : count) BOOST_TEST(std::abs(times - 1000) < 5 * 29);
}

BOOST_AUTO_TEST_CASE(a_batch_larger_than_a_shard_is_refused) {
  BOOST_CHECK_THROW(ShardOrder({.samples = 10, .workers = 3, .batch = 4}), InputError);
}

BOOST_AUTO_TEST_SUITE_END()
