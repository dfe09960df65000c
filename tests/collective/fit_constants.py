#!/usr/bin/env python3
"""Refits the constants of one node to its open curves (minutes), and prints them beside their errors.

Those of today are where it starts, and each is held to its own: fit.py."""
import copy
import math

import numpy as np
from scipy.optimize import least_squares

from fit import CONSTANTS, GENERATIONS, SHARED, group, predict, read, table

OF_NODE = ["ll128_launch", "ll128_step", "simple_launch", "simple_step", "fill", "fill_half",
           "nvls_begin", "nvls_fill", "peer", "one_process"]
FITTED = [(g, k) for g in ("ampere", "hopper", "blackwell") for k in CONSTANTS
          if (g, k) != ("ampere", "nvls")]
OWN = ["own_all_reduce", "own_all_gather", "own_reduce_scatter"]


def constants():
    rows = [r for r in read() if group(r) == "one node, NVLink"]
    start = np.log([SHARED[k] for k in OF_NODE] + [GENERATIONS[g][k] for g, k in FITTED])
    # Own copies stay below 0.95, so that more ranks are never faster.
    own = [math.log(min(SHARED[k], 0.949) / (0.95 - min(SHARED[k], 0.949))) for k in OWN]

    def unpack(x):
        shared, generations = dict(SHARED), copy.deepcopy(GENERATIONS)
        shared.update(zip(OF_NODE, np.exp(x)))
        for (g, k), value in zip(FITTED, np.exp(x[len(OF_NODE):len(start)])):
            generations[g][k] = value
        shared.update({k: 0.95 / (1 + math.exp(-v)) for k, v in zip(OWN, x[len(start):])})
        return generations, shared

    def residuals(x):
        generations, shared = unpack(x)
        return np.concatenate([[math.log(predict(r, generations, shared) / r["time"])
                                for r in rows], x[:len(start)] - start])

    fit = least_squares(residuals, np.concatenate([start, own]), loss="soft_l1", f_scale=0.1,
                        diff_step=1e-3, max_nfev=12)
    generations, shared = unpack(fit.x)
    print({k: round(float(shared[k]), 3) for k in OF_NODE + OWN})
    for name, values in generations.items():
        print(name, {k: round(float(v), 3) for k, v in values.items()})
    table("refitted", rows, [predict(r, generations, shared) for r in rows])


if __name__ == "__main__":
    constants()
