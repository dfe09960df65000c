#pragma once

#include <filesystem>
#include <string>

#include "data/images.hpp"

namespace rehearse::inline calibrate {

struct DatasetOptions {
  std::filesystem::path folder;
  std::string format = "mnist";   ///< mnist, fashion-mnist (IDX files both) or cifar10
  std::size_t train_samples = 0;  ///< the first so many; 0: all
  std::size_t test_samples = 0;
};

struct Dataset {
  std::string name;   ///< the format's
  std::string split;  ///< in words: which samples of which files train and test
  Images train, test;
};

/// Reads a data set. The samples to train and to test with are the first of the files that the
/// publisher made for that. Of the MNIST family a folder may have t10k alone: then the first of its
/// samples train, four fifths unless given, and the last of it test. MissingError where files are
/// missing, with a remedy where the folder has another format's; InputError where they
/// are damaged, or have fewer samples than are asked for.
Dataset read_dataset(const DatasetOptions& options);

}  // namespace rehearse::inline calibrate
