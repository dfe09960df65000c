#pragma once

#include <boost/test/unit_test.hpp>
#include <string>

#include "cluster/cluster.hpp"
#include "config/document.hpp"

namespace rehearse {

inline constexpr double kUs = 1e-6;
inline constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;

inline Cluster read(const std::string& yaml) {
  return read_cluster(Document::parse(yaml, "test.yaml")->root());
}

inline const Node& first(const Cluster& cluster) { return cluster.groups.front().node; }

inline const auto kTolerance = boost::test_tools::tolerance(1e-9);

}  // namespace rehearse
