#include "replay/curve_builder.hpp"
#include "replay/replay.hpp"
#include "replay/replica_pool.hpp"
#include "server/snapshot_file.hpp"

namespace rehearse::inline calibrate {

Curve curve_of_run(const RunUpdates& run,
                   const std::vector<std::map<std::uint64_t, double>>& losses,
                   const std::filesystem::path& snapshots, const Dataset& data,
                   const TrainingOptions& training, int threads) {
  ReplicaPool pool({training.model, shape_for(data), training.seed}, threads);
  CurveBuilder curve(begun_curve("real", training, data, run), untaught_accuracy(data));
  auto row = run.updates.begin();
  read_snapshots(snapshots, [&](const ServerSnapshot& snapshot) {
    if (curve.diverged()) return;
    for (; row != run.updates.end() && row->version_applied < snapshot.version; ++row)
      curve.add_gradient(losses.at(row->worker).at(row->iteration), samples_of_row(training));
    const auto parameters = std::make_shared<const std::vector<std::byte>>(
        snapshot.parameters.begin(), snapshot.parameters.end());
    curve.add_point(snapshot.version, snapshot.applied, score_all(pool, parameters, data));
  });
  Curve finished = curve.finish();
  add_staleness(run.updates, finished.points);
  return finished;
}

}  // namespace rehearse::inline calibrate
