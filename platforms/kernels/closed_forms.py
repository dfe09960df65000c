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


def fp32_convolution(curve, device, pointwise, way, samples, positions, inputs, outputs, window, stride, moved):
    """sim/cost/fp32_convolutions.cpp: the fastest of the plain product and Winograd's F(2x2, 3x3) and F(4x4, 3x3)."""
    rows = samples * positions
    if way == "backward_inputs_us":
        skipped = np.where(window > 1, stride, 1)
        least = gemm(curve, device, rows * stride, inputs, outputs * window / skipped, moved=moved)
    elif way == "forward_us":
        least = gemm(curve, device, rows, outputs, inputs * window, moved=moved)
    else:
        least = gemm(curve, device, outputs, inputs * window, rows, moved=moved)
        by_sample = gemm(curve, device, outputs, inputs * window, positions, batch=samples, moved=moved)
        least = np.where(window > 1, np.minimum(least, by_sample), least)
    for side in (2, 4):
        tile = (side + 2) ** 2
        tiles = samples * np.ceil(np.ceil(np.sqrt(positions)) / side) ** 2
        transformed = tile * (tiles * (inputs + outputs) + inputs * outputs)
        m, n, k = tiles, outputs, inputs
        if way == "backward_inputs_us":
            n, k = inputs, outputs
        elif way == "backward_weights_us":
            m, n, k = 128 * np.ceil(outputs / 128), 128 * np.ceil(inputs / 128), tiles
        plain = rows * (inputs + outputs) + 9 * inputs * outputs
        time = 4 * (plain + transformed) / (pointwise * device.bandwidth)
        time = time + gemm(curve, device, m, n, k, batch=tile, moved=4 * transformed)
        least = np.where((window == 9) & (stride == 1), np.minimum(least, time), least)
    return least


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
