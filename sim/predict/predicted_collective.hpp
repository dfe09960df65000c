#pragma once

#include "cluster/cluster.hpp"
#include "predict/collective_views.hpp"

namespace rehearse::inline prediction {

/// A collective over all GPUs of a cluster, two or more, at `smallest` bytes, twice that, and so on
/// to `largest`; a send is from the first to the last of them. InputError, MissingError of the
/// curves that the cluster names.
PredictedCollective predicted_collective(const Cluster& cluster, CollectiveKind kind,
                                         Bytes smallest, Bytes largest);

}  // namespace rehearse::inline prediction
