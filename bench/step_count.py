"""step_count.py -- how many steps a job did in some time, from the times at which they ended."""


def steps_between(ends, begin, end):
    """With the parts of those that lie across the bounds."""
    return sum(max(0.0, min(b, end) - max(a, begin)) / (b - a) for a, b in zip(ends, ends[1:]))
