"""What update_log.py says of logs whose steps are known."""
import math
import pathlib
import random
import statistics
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import update_log  # noqa: E402


def log_of(times):
    """The update log of workers that apply at these times."""
    order = sorted((time, worker, iteration) for worker, own in enumerate(times) for iteration, time in enumerate(own))
    pulled, rows = [0] * len(times), []
    for version, (time, worker, iteration) in enumerate(order):
        rows.append(f"{worker},{iteration},{pulled[worker]},{version},{version - pulled[worker]},{time:.9f}")
        pulled[worker] = version + 1
    return "\n".join(["# seconds", "worker,iteration,version,applied,staleness,time", *rows]) + "\n"


def workers(count, spread, steps=1000, seed=1):
    """When they apply, each by itself: steps of mean 1 with this relative spread."""
    draw = random.Random(seed)
    sigma = math.sqrt(math.log(1 + spread**2))
    result = []
    for _ in range(count):
        now, own = 0, []
        for _ in range(steps):
            now += draw.lognormvariate(-(sigma**2) / 2, sigma)
            own.append(now)
        result.append(own)
    return result


def slowed(times, period, depth):
    """The same where the whole machine is slower at times: each moment comes later, but in the same order."""
    return [[time + depth * period / (2 * math.pi) * math.sin(2 * math.pi * time / period) for time in own] for own in times]


def times_of(times):
    return update_log.times_of(update_log.rows_of(log_of(times)))


class Spreads(unittest.TestCase):
    def test_steps_that_differ_by_themselves_have_the_spread_they_were_drawn_with(self):
        for count in (2, 3, 6):
            for spread in (0.1, 0.25, 0.4):
                with self.subTest(workers=count, spread=spread):
                    times = times_of(workers(count, spread))
                    self.assertAlmostEqual(update_log.own_spread(times) / spread, 1, delta=0.06)
                    self.assertAlmostEqual(update_log.mean_spread(update_log.steps_of(times)) / spread, 1, delta=0.06)

    def test_what_all_have_in_common_for_some_steps_is_none_of_their_own(self):
        for period in (10, 60):
            with self.subTest(period=period):
                own = workers(6, 0.1)
                common = times_of(slowed(own, period, 0.6))
                self.assertGreater(update_log.mean_spread(update_log.steps_of(common)), 0.2)
                self.assertAlmostEqual(update_log.own_spread(common) / update_log.own_spread(times_of(own)), 1, delta=0.08)

    def test_a_slower_worker_is_no_spread(self):
        even = [[step * pace for step in range(1, 400)] for pace in (1, 1, 1, 1.5)]
        self.assertLess(update_log.own_spread(times_of(even)), 0.01)


class Means(unittest.TestCase):
    def test_workers_that_are_alike_keep_little_of_what_their_means_differ_by(self):
        seen, kept = [], []
        for seed in range(1, 41):
            times = times_of(workers(6, 0.3, steps=80, seed=seed))
            seen.append(statistics.stdev(statistics.fmean(own) for own in update_log.steps_of(times)))
            kept.append(statistics.stdev(update_log.lasting_means(times)))
        self.assertAlmostEqual(statistics.fmean(seen), 0.3 / math.sqrt(80), delta=0.005)
        # E[max(0, x - 1)] = 0.24 for x = chi^2(5) / 5 is the variance that is left, of six workers.
        self.assertAlmostEqual(statistics.fmean(one**2 for one in kept) / statistics.fmean(one**2 for one in seen), 0.24, delta=0.12)

    def seen_and_seen_again(self, paces):
        """The mean variance of workers' mean steps, and that of simulations with the means that last."""
        seen, again = [], []
        for seed in range(1, 41):
            drawn = workers(len(paces), 0.3, steps=80, seed=seed)
            times = times_of([[time * pace for time in own] for own, pace in zip(drawn, paces)])
            means = update_log.lasting_means(times)
            anew = [[time * mean for time in own] for own, mean in zip(workers(len(paces), 0.3, steps=80, seed=seed + 100), means)]
            seen.append(statistics.variance(statistics.fmean(own) for own in update_log.steps_of(times)))
            again.append(statistics.variance(statistics.fmean(own) for own in update_log.steps_of(times_of(anew))))
        return statistics.fmean(seen), statistics.fmean(again)

    def test_simulated_anew_workers_that_are_alike_differ_hardly_more_than_they_did(self):
        """By E[max(0, x - 1)] = 0.24 for x = chi^2(5) / 5, of six workers."""
        seen, again = self.seen_and_seen_again([1] * 6)
        self.assertAlmostEqual(again / seen, 1.24, delta=0.25)  # 2 with the means as they are

    def test_simulated_anew_workers_that_differ_do_so_as_much_as_they_did(self):
        """Where chance is half of what is seen. With each worker's best guess three quarters would be left: a quarter of what
        is seen lasts then, and half is chance."""
        seen, again = self.seen_and_seen_again([1 + 0.0335 * (worker - 5.5) / 3.6 for worker in range(12)])
        self.assertAlmostEqual(again / seen, 1, delta=0.12)

    def test_a_worker_that_lasts_slower_stays_so(self):
        times = times_of([[time * pace for time in own] for own, pace in zip(workers(4, 0.1, steps=400), (1, 1, 1, 1.5))])
        means = update_log.lasting_means(times)
        self.assertAlmostEqual(means[3] / statistics.fmean(means[:3]), 1.5, delta=0.02)

    def test_even_steps_have_the_means_that_are_seen(self):
        even = [[step * pace for step in range(1, 400)] for pace in (1, 1.25)]
        self.assertEqual(update_log.lasting_means(times_of(even))[0], 1)


class Rows(unittest.TestCase):
    def test_a_row_has_its_worker_iteration_staleness_and_time(self):
        self.assertEqual(update_log.rows_of(log_of([[1, 3], [2, 4]])), [(0, 0, 0, 1), (1, 0, 1, 2), (0, 1, 1, 3), (1, 1, 1, 4)])

    def test_times_end_where_the_first_worker_is_done(self):
        self.assertEqual(times_of([[1, 2, 3], [1.5, 2.5, 9]]), [[1, 2, 3], [1.5, 2.5]])


class Growth(unittest.TestCase):
    """Workers that take turns are N - 1 updates stale, and x is a sum of z^t with (z - 1)(z - 0.9) z^(N-2) + 0.24 / N = 0."""

    def largest_root(self, count):
        degree = max(2, count)
        value = lambda z: (z - 1) * (z - 0.9) * z ** (degree - 2) + 0.24 / count
        roots = [(0.4 + 0.9j) ** i for i in range(degree)]
        for _ in range(500):  # Durand and Kerner's
            for i, root in enumerate(roots):
                roots[i] = root - value(root) / math.prod(root - other for j, other in enumerate(roots) if j != i)
        return max(map(abs, roots))

    def test_it_is_that_of_the_largest_root(self):
        for count in (3, 6, 8):
            rows = update_log.rows_of(log_of([[step + worker / count for step in range(1000)] for worker in range(count)]))
            expected = 100 * math.log(self.largest_root(count))
            self.assertGreater(expected, 1)
            self.assertAlmostEqual(update_log.growth_past_the_edge(rows), expected, delta=0.02 * expected)

    def test_fresh_gradients_do_not_grow(self):
        rows = [(step % 6, step // 6, 0, step) for step in range(600)]
        self.assertLess(update_log.growth_past_the_edge(rows), 0)


if __name__ == "__main__":
    unittest.main()
