"""Seeds of random tests.

Seeds are fixed in ``make test``, so that it is reproducible, and random in ``make test-long``,
which looks for new failures. Every failure prints its seed; set ``BENTHIC_TEST_SEED`` to it to
run that case alone.
"""

import os
import random

IS_LONG = bool(os.environ.get("BENTHIC_TEST_LONG"))
SELECTED = os.environ.get("BENTHIC_TEST_SEED")


def many(count):
    """The seeds of a test with ``count`` cases."""
    if SELECTED:
        return [int(SELECTED)]
    return [random.randrange(2**32) for _ in range(count)] if IS_LONG else list(range(count))


def one():
    """The seed of a test with one case."""
    [seed] = many(1)
    print(f"BENTHIC_TEST_SEED={seed}")
    return seed
