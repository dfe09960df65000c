#pragma once

#include <optional>
#include <string>
#include <vector>

#include "convergence/batch_law.hpp"

namespace rehearse::inline convergence {

/// A network with its data and a target, and what it took to come there by batch: MLPerf's
/// reference convergence points (platforms/convergence/workloads.yaml).
struct Workload {
  std::string name;                   ///< "resnet50_lars"
  std::vector<std::string> networks;  ///< our names of the network
  std::string data, target;           ///< in words
  std::optional<double> accuracy, loss;
  std::string optimizer, unit;  ///< unit: epochs, samples, sequences or tokens
  std::optional<double> samples_per_epoch, sequence;
  std::vector<ReferencePoint> points;

  /// Samples in one of its units; nothing for epochs of data whose size it does not say.
  std::optional<double> samples_of_unit() const;
};

/// What batches came to in runs of one length.
struct EndByBatch {
  double batch = 0, accuracy = 0, deviation = 0;
};
struct FixedLength {
  std::string name;
  std::vector<std::string> networks;
  std::string data, optimizer, source;
  double samples_per_epoch = 0, epochs = 0;
  std::vector<EndByBatch> ends;  ///< by batch

  /// Whether a batch comes to an accuracy in that length: surely where no larger batch missed it,
  /// not where this or a smaller one did; nothing between two that disagree, or beyond twice the
  /// batches seen.
  std::optional<bool> reaches(double batch, double accuracy) const;
};

/// Everything of the file, which is read once.
struct Workloads {
  BatchLawPrior prior;
  std::vector<Workload> workloads;
  std::vector<FixedLength> lengths;
};
const Workloads& known_workloads();

}  // namespace rehearse::inline convergence
