"""The closed forms of sim/cost/kernel_curves.cpp, in numpy: times in seconds, sizes in elements."""

import numpy as np

TILES = [(256, 128), (128, 256), (128, 128), (128, 64), (64, 128), (64, 64), (64, 32)]
SPLITS = [1, 2, 4, 8]
WIDEST = 256 * 128  # elements of the largest tile
QUERIES = 128  # rows of queries that a block of fused attention holds
GRID = {
    "m": (4, 16),
    "n": (6, 16),
    "k": (6, 16),
}  # log2 of the residual's first and last knot, every 2


class Device:
    """A GPU's datasheet: peak FLOP/s of one format, bytes/s, streaming multiprocessors."""

    def __init__(self, peak, bandwidth, sms):
        self.peak, self.bandwidth, self.sms = peak, bandwidth, sms


def gemm(curve, device, m, n, k, element=2, batch=1, moved=None):
    """C(m,n) = A(m,k) B(k,n), `batch` times; `moved`: bytes, where they are not the operands'."""
    launch, share, traffic, prologue, small, sharpness, split = curve
    if moved is None:
        moved = batch * element * (m * k + k * n + m * n)
    reads = moved / (traffic * device.bandwidth)
    best = np.inf
    for tm, tn in TILES:
        tiles = np.ceil(m / tm) * np.ceil(n / tn) * batch
        rate = share * device.peak / device.sms / (1 + small * np.log2(WIDEST / (tm * tn)))
        for s in SPLITS:
            depth = np.ceil(k / s / 32) * 32 + prologue
            work = np.ceil(tiles * s / device.sms) * 2 * tm * tn * depth / rate
            time = (work**sharpness + reads**sharpness) ** (1 / sharpness)
            if s > 1:
                time = time + split * 1e-6 + 8 * s * m * n * batch / device.bandwidth
            best = np.minimum(best, time)
    return launch * 1e-6 + best


def attention(curve, device, causal, batch, seq, heads, kv_heads, width, backward=False):
    """Fused attention, forward (two products) or backward (five), queries and keys of one length."""
    launch, share, keys, traffic, tail = curve
    products = 5 if backward else 2
    rate = share * device.peak / device.sms
    rows = np.where(causal > 0, np.minimum(seq, (seq + QUERIES) / 2), seq)
    blocks = batch * heads * np.ceil(seq / QUERIES)
    one = 2 * products * QUERIES * width * (rows + keys) / rate
    longest = 2 * products * QUERIES * width * (seq + keys) / rate
    work = np.where(
        causal > 0, blocks / device.sms * one + tail * longest, np.ceil(blocks / device.sms) * one
    )
    work = np.maximum(work, longest)
    reads = (
        (2 if backward else 1)
        * 2
        * 2
        * batch
        * seq
        * width
        * (heads + kv_heads)
        / (traffic * device.bandwidth)
    )
    return launch * 1e-6 + (work**4 + reads**4) ** 0.25


def knots(axis):
    first, last = GRID[axis]
    return (last - first) // 2 + 1


def weights(m, n, k):
    """Trilinear weights of every point on the residual's grid: one row a point."""
    sides = []
    for axis, size in zip("mnk", (m, n, k)):
        first, last = GRID[axis]
        at = (np.clip(np.log2(size), first, last) - first) / 2
        low = np.minimum(np.floor(at).astype(int), knots(axis) - 2)
        side = np.zeros((len(at), knots(axis)))
        side[np.arange(len(at)), low] = 1 - (at - low)
        side[np.arange(len(at)), low + 1] = at - low
        sides.append(side)
    return np.einsum("im,in,ik->imnk", *sides).reshape(len(m), -1)
