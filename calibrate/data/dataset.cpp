#include "data/dataset.hpp"

#include <fmt/format.h>

#include "base/error.hpp"

namespace rehearse::inline calibrate {
namespace {

/// Where the folder has another format's test file.
std::string other_format(const DatasetOptions& options) {
  const bool cifar = options.format == "cifar10";
  const char* other = cifar ? "t10k-images-idx3-ubyte" : "test_batch.bin";
  if (find_data_file(options.folder, other).empty()) return "";
  return cifar ? "\nremedy: --format mnist, or fashion-mnist" : "\nremedy: --format cifar10";
}

std::filesystem::path require(const DatasetOptions& options, const std::string& name) {
  const std::filesystem::path file = find_data_file(options.folder, name);
  if (!file.empty()) return file;
  throw MissingError(fmt::format("{}: error: neither {} nor {}.gz is in this folder{}",
                                 options.folder.string(), name, name, other_format(options)));
}

[[noreturn]] void fail_for_few(const char* option, std::size_t asked, std::size_t there) {
  throw InputError(
      fmt::format("error: {}: {} samples are asked for, and {} are there", option, asked, there));
}

/// The first `asked` samples (0: all), and what was taken in words.
Images first_of(Images images, std::size_t asked, const char* option, const std::string& from,
                std::string& words) {
  if (asked > images.count()) fail_for_few(option, asked, images.count());
  const std::size_t count = asked == 0 ? images.count() : asked;
  words += fmt::format("{}{} of {}", count == images.count() ? "all " : "the first ", count, from);
  return count == images.count() ? std::move(images) : slice(images, 0, count);
}

Images mnist_part(const DatasetOptions& options, const std::string& part) {
  const std::filesystem::path images = require(options, part + "-images-idx3-ubyte");
  return read_idx(images, require(options, part + "-labels-idx1-ubyte"));
}

/// One file for both.
void split_file(const DatasetOptions& options, const Samples& all, const std::string& from,
                Dataset& set) {
  const std::size_t test =
      options.test_samples > 0 ? options.test_samples : all.count() - all.count() * 4 / 5;
  if (test >= all.count()) fail_for_few("--test-samples", test, all.count());
  const std::size_t left = all.count() - test;
  const std::size_t train = options.train_samples > 0 ? options.train_samples : left;
  if (train > left) fail_for_few("--train-samples", train, left);
  set.train = slice(all, 0, train);
  set.test = slice(all, left, all.count());
  set.split = fmt::format("train: the first {} of {}; test: the last {} of it", train, from, test);
}

void read_mnist(const DatasetOptions& options, Dataset& set) {
  if (find_data_file(options.folder, "train-images-idx3-ubyte").empty())
    return split_file(options, {mnist_part(options, "t10k")}, "t10k", set);
  set.split = "train: ";
  Images train = first_of(mnist_part(options, "train"), options.train_samples, "--train-samples",
                          "train", set.split);
  set.split += "; test: ";
  Images test = first_of(mnist_part(options, "t10k"), options.test_samples, "--test-samples",
                         "t10k", set.split);
  if (train.side != test.side)
    throw InputError(fmt::format("{}: error: train has images of side {}, and t10k of {}",
                                 options.folder.string(), train.side, test.side));
  set.train = {std::move(train)};
  set.test = {std::move(test)};
}

void read_cifar(const DatasetOptions& options, Dataset& set) {
  Images train = read_cifar10(require(options, "data_batch_1.bin"));
  for (int batch = 2; batch <= 5; ++batch)
    append(train, read_cifar10(require(options, fmt::format("data_batch_{}.bin", batch))));
  set.split = "train: ";
  set.train = {first_of(std::move(train), options.train_samples, "--train-samples",
                        "data_batch_1 to 5", set.split)};
  set.split += "; test: ";
  set.test = {first_of(read_cifar10(require(options, "test_batch.bin")), options.test_samples,
                       "--test-samples", "test_batch", set.split)};
}

void read_text_set(const DatasetOptions& options, Dataset& set) {
  const std::string file = options.folder.filename().string();
  set.name = "text " + file;
  split_file(options, {read_text(options.folder, options.window)},
             fmt::format("{} in windows of {} bytes", file, options.window), set);
}

void generate_text_set(DatasetOptions options, Dataset& set) {
  constexpr std::size_t kTrain = 4000, kTest = 1000;
  if (!options.folder.empty())
    throw InputError(
        "error: --data: markov is generated, and has no file\nremedy: leave it out, "
        "or --format text");
  if (options.train_samples == 0) options.train_samples = kTrain;
  if (options.test_samples == 0) options.test_samples = kTest;
  split_file(options,
             {generated_text(options.train_samples + options.test_samples, options.window)},
             fmt::format("generated windows of {} bytes", options.window), set);
}

/// Files of images.
bool read_image_set(const DatasetOptions& options, Dataset& set) {
  const bool is_mnist = options.format == "mnist" || options.format == "fashion-mnist";
  if (!is_mnist && options.format != "cifar10") return false;
  std::error_code ignored;
  if (!std::filesystem::is_directory(options.folder, ignored))
    throw MissingError(fmt::format("{}: error: no such folder", options.folder.string()));
  if (is_mnist) {
    read_mnist(options, set);
  } else {
    read_cifar(options, set);
  }
  return true;
}

}  // namespace

Dataset read_dataset(const DatasetOptions& options) {
  Dataset set;
  set.name = options.format;
  if (options.format == "text") {
    read_text_set(options, set);
  } else if (options.format == "markov") {
    generate_text_set(options, set);
  } else if (!read_image_set(options, set)) {
    throw InputError(
        fmt::format("error: --format: expected mnist, fashion-mnist, cifar10, text or markov; got "
                    "\"{}\"",
                    options.format));
  }
  if (set.train.count() == 0 || set.test.count() == 0)
    throw InputError(fmt::format("{}: error: no samples", options.folder.string()));
  return set;
}

}  // namespace rehearse::inline calibrate
