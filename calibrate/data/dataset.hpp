#pragma once

#include <filesystem>
#include <string>

#include "data/samples.hpp"

namespace rehearse::inline calibrate {

struct DatasetOptions {
  std::filesystem::path folder{};  ///< of text its file; of generated text nothing
  std::string format = "mnist";    ///< mnist, fashion-mnist (IDX files both), cifar10, text, markov
  std::size_t train_samples = 0;   ///< the first so many; 0: all
  std::size_t test_samples = 0;
  std::size_t window = 64;  ///< bytes of a sample of text

  /// Whether they name data at all.
  bool is_given() const { return !folder.empty() || format == "markov"; }
};

struct Dataset {
  std::string name;   ///< the format's; of text with its file's
  std::string split;  ///< in words: which samples of which files train and test
  Samples train, test;
};

/// Reads a data set. The samples to train and to test with are the first of the files that the
/// publisher made for that. Of the MNIST family a folder may have t10k alone: then the first of its
/// samples train, four fifths unless given, and the last of it test. A text's windows are split
/// likewise, and as many are generated as are asked for (4000 and 1000). MissingError where files
/// are missing, with a remedy where the folder has another format's; InputError where they are
/// damaged, or have fewer samples than are asked for.
Dataset read_dataset(const DatasetOptions& options);

}  // namespace rehearse::inline calibrate
