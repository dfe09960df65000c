#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "config/document.hpp"

namespace rehearse::inline study {

/// One thing that varies over a study.
struct Axis {
  struct Choice {
    std::string label;          ///< its name in results; the axis's labels all differ
    std::vector<Value> values;  ///< one for each of the axis's keys
  };
  std::string name;
  std::vector<Value> keys;  ///< dotted paths in the scenario; several that change together (zip)
  std::vector<Choice> choices;
  bool searched = false;  ///< whether a planner added it

  /// Whether a choice's value leaves its key as the scenario has it: a null of a search.
  bool leaves_as_is(const Value& value) const { return searched && value.is_null(); }
};

/// One scenario of a study: an index into the choices of each axis.
using Point = std::vector<std::size_t>;

/// A scenario and what varies: the product of its axes, without the points that conditions leave
/// out.
struct Study {
  std::string name;  ///< the file's, without its extension
  std::string description;
  std::shared_ptr<const Document> base;  ///< with `--set` applied
  std::vector<Axis> axes;
  std::vector<Point> points;  ///< in the order of nested loops over the axes, the last one fastest
};

/// The most points that a study may have.
constexpr std::size_t kMostPoints = 1'000'000;

/// Reads a study and the scenario file that it names, relative to its own folder:
///
///     description: DDP or FSDP?                # optional, as are only, exclude and seeds
///     scenario: ../base.yaml                   # or a map: the scenario itself
///     vary:                                    # axes, in order; keys are dotted paths
///       cluster.nodes: [1, 2, 4]
///       strategy: {values: [{ddp: {}}, {fsdp: {}}], labels: [DDP, FSDP]}
///       machine:                               # keys that change together
///         zip: {cluster.use: [aws_p4d, aws_p5], model.batch_per_gpu: [32, 64]}
///         labels: [A100, H100]
///     only: [{cluster.nodes: [1, 2]}, {strategy: FSDP}]      # points that fit at least one
///     exclude: [{machine: H100, cluster.nodes: 4}]           # points that fit none
///     seeds: 3                                 # one more axis, "seed": run.seed 1, 2, 3
///
/// Where no labels are given, a value's own text is its label: `4`, `ddp`, `fsdp {cpu_offload:
/// true}`. InputError or MissingError at the place.
Study read_study(const std::filesystem::path& file, const std::vector<std::string>& overrides);

/// Facts that a study's own keys do not say.
struct StudyFrame {
  std::string name;                    ///< the study's
  std::vector<std::string> overrides;  ///< `--set` of its scenario
  std::vector<Axis> more_axes = {};    ///< behind those of `vary`
  bool needs_vary = true;              ///< false: it may be left out
};
/// The same from a map that may have more keys; the caller finishes it.
Study read_study(Map& root, StudyFrame frame);

/// The scenario of a point; InputError if a value cannot stand where its axis puts it.
std::shared_ptr<const Document> scenario_at(const Study& study, const Point& point);

/// The point's labels, one for each axis.
std::vector<std::string> labels_of(const Study& study, const Point& point);

}  // namespace rehearse::inline study
