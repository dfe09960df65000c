# What claims read of `rehearse validate SET --format json`. PATTERN chooses cases by their names.

# The held-out numbers that have a relative error.
def numbers($pattern):
  [.files[].cases[] | select(.held_out and (.name | test($pattern))) | .metrics[]
    | select(has("relative_error"))];
def errors($pattern): numbers($pattern) | map(100 * .relative_error | fabs);
def rows($pattern): errors($pattern) | length;
def mean_error($pattern): errors($pattern) | add / length;
def median_error($pattern): errors($pattern) | sort | (.[(length - 1) / 2 | floor] + .[length / 2 | floor]) / 2;
def largest($pattern): errors($pattern) | max;
def inside($pattern): numbers($pattern) | map(select(.inside)) | length;
# A row of the README's table: how many rows, mean error, largest, how many in their interval.
def row($pattern): rows($pattern), mean_error($pattern), largest($pattern), inside($pattern);

# Of `--metric KEY` of recorded runs: numbers of one group ("testbed": undisturbed, median of three).
def of_group($group):
  [.relative_errors[] | select(.group == $group)] | last | .numbers, 100 * .mean, 100 * .max;
# Mean and largest distance of the mean staleness, in updates.
def staleness($group): [.staleness_differences[] | select(.group == $group)] | last | .mean, .max;
# Share of the verdicts of forecasts that are right, in percent.
def verdicts_right:
  [.accuracy[] | select(.by | startswith("forecast")) | .verdicts]
  | 100 * (map(.right) | add) / (map(.all) | add);
# Share of the ends of runs that are inside their forecasts' intervals, in percent.
def ends_inside:
  [.accuracy[] | select(.by | startswith("forecast")) | .coverage]
  | 100 * (map(.inside) | add) / (map(.intervals) | add);
