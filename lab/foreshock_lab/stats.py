"""Intervals for a handful of runs: exact for shares, Student's for means. No dependency."""

import math


def binomial_tail(k, n, p):
    """P(X >= k) for X of n trials with chance p."""
    return sum(math.comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(k, n + 1))


def _solve(f, low, high):
    """Where a rising f crosses 0."""
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if f(middle) < 0 else (low, middle)
    return (low + high) / 2


def share_interval(k, n, level=0.95):
    """Clopper and Pearson's interval for k of n; (0, 1) for n = 0."""
    if n == 0:
        return 0.0, 1.0
    miss = (1 - level) / 2
    low = 0.0 if k == 0 else _solve(lambda p: binomial_tail(k, n, p) - miss, 0, 1)
    high = 1.0 if k == n else _solve(lambda p: binomial_tail(k + 1, n, p) - (1 - miss), 0, 1)
    return low, high


def share_bound(k, n, level=0.95):
    """One-sided upper bound for k of n: 0 of 59 gives 0.05."""
    return 1.0 if k >= n else _solve(lambda p: binomial_tail(k + 1, n, p) - level, 0, 1)


def _t_cdf(t, df):
    """Student's distribution for t >= 0 by Simpson's rule over its density, to about 1e-9."""
    scale = math.exp(math.lgamma((df + 1) / 2) - math.lgamma(df / 2)) / math.sqrt(df * math.pi)
    angle, n = math.atan(t / math.sqrt(df)), 400  # t = sqrt(df) tan(angle) makes the interval finite
    density = lambda a: math.cos(a) ** (df - 1)
    h = angle / n
    total = density(0) + density(angle) + sum((4 if i % 2 else 2) * density(i * h) for i in range(1, n))
    return 0.5 + scale * math.sqrt(df) * total * h / 3


def t_quantile(df, level=0.95):
    """Two-sided quantile: t_quantile(2) is 4.303."""
    return _solve(lambda t: _t_cdf(t, df) - (1 + level) / 2, 0, 1000)


def mean_interval(values, level=0.95):
    """(mean, low, high); the interval of one value is infinite, of none everything is NaN."""
    n = len(values)
    if n == 0:
        return math.nan, math.nan, math.nan
    mean = sum(values) / n
    if n == 1:
        return mean, -math.inf, math.inf
    half = t_quantile(n - 1, level) * math.sqrt(sum((v - mean) ** 2 for v in values) / (n - 1) / n)
    return mean, mean - half, mean + half
