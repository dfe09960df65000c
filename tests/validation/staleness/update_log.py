"""What an update log tells: who applied when, how stale, and how long steps took."""
import bisect
import math
import statistics


def rows_of(log):
    """Of each update, in the order of their application: worker, its iteration, staleness and time in seconds."""
    rows = [line.split(",") for line in log.splitlines()[2:]]
    return [(int(worker), int(iteration), int(staleness), float(time)) for worker, iteration, _, _, staleness, time in rows]


def times_of(rows):
    """Of each worker: when its updates were applied, until the first worker has done all of its own."""
    last = max(iteration for _, iteration, _, _ in rows)
    times = {}
    for worker, iteration, _, time in rows:
        times.setdefault(worker, []).append(time)
        if iteration == last:
            break
    return [times[worker] for worker in sorted(times)]


def steps_of(times):
    """From each update of each worker to its next."""
    return [[later - earlier for earlier, later in zip(own, own[1:])] for own in times]


def mean_spread(steps):
    """The mean of the workers' relative spreads of their steps."""
    return statistics.fmean(statistics.pstdev(own) / statistics.fmean(own) for own in steps)


def done_by(times, when):
    """Updates of a worker by then, in parts; None before the first and after the last."""
    after = bisect.bisect_right(times, when)
    if after in (0, len(times)):
        return None
    return after - 1 + (when - times[after - 1]) / (times[after] - times[after - 1])


def in_steps_of_others(times, worker):
    """Each step of a worker in the steps that the others did meanwhile, on average of them."""
    others = [own for other, own in enumerate(times) if other != worker]
    result = []
    for begin, end in zip(times[worker], times[worker][1:]):
        done = [(done_by(own, begin), done_by(own, end)) for own in others]
        if all(None not in both for both in done):
            result.append(statistics.fmean(late - early for early, late in done))
    return result


def own_spread(times):
    """Of two workers and more: the relative spread that steps have of their own, without what makes all workers' steps longer
    at once for some steps and more, such as other guests of the machine. That changes neither the order of updates nor their
    staleness.

    It is the spread of a step counted in steps of the others. Of these N - 1 workers each is through with parts u and 1 - u of
    two steps in the time of one, whose spread c adds c^2 (u^2 + (1 - u)^2), on average 2/3 c^2; so what is measured has a
    variance of c^2 (1 + 2 / (3 (N - 1))).
    """
    counted = [in_steps_of_others(times, worker) for worker in range(len(times))]
    variance = statistics.fmean(statistics.pvariance(own) / statistics.fmean(own) ** 2 for own in counted)
    return (variance / (1 + 2 / (3 * (len(times) - 1)))) ** 0.5


def lasting_means(times):
    """Mean step time of each worker, without what is the luck of its few steps: a mean of n steps with a spread c of their own
    lies c / sqrt(n) from the worker's true one by chance, and a simulation that took it for true would add the same again.

    The workers' true means differ by a variance of what is seen less that of chance (0 where that is more), the moment estimate
    of a random effect. As what a simulation needs is how much workers differ, not which of them does, their means have that
    variance: each is nearer to the mean of all by its square root over what is seen, not by the ratio of the variances, which is
    the best guess of each and leaves them too alike (Louis 1984, "Estimating a population of parameter values using Bayes and
    empirical Bayes methods", JASA 79; Ghosh 1992, "Constrained Bayes estimation with applications", JASA 87).
    """
    steps = steps_of(times)
    means = [statistics.fmean(own) for own in steps]
    common = statistics.fmean(means)
    chance = statistics.fmean((common * own_spread(times)) ** 2 / len(own) for own in steps)
    seen = statistics.variance(means)
    lasting = max(0, 1 - chance / seen) if seen > 0 else 0
    return [common + math.sqrt(lasting) * (mean - common) for mean in means]


def growth_past_the_edge(rows):
    """By how much ln|x| grows per 100 updates where these make x(t+1) = x(t) + 0.9 (x(t) - x(t-1)) - a x(read), from 1, with a =
    0.24 / N for N workers: some twice the rate times curvature from which it grows at all. Orders that are nearer to the edge of
    training have more of it. Up to the last seventh, when workers are done.
    """
    count = 1 + max(worker for worker, _, _, _ in rows)
    x, change = [1.0], 0.0
    for version, (_, _, staleness, _) in enumerate(rows[: len(rows) * 6 // 7]):
        change = 0.9 * change - 0.24 / count * x[version - staleness]
        x.append(x[version] + change)
    return 100 * math.log(max(map(abs, x[-5 * count :]))) / len(x)
