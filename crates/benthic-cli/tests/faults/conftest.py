"""Fixtures."""

import pytest
import seeds

pytest.register_assert_rewrite("outcome", "place", "families")


@pytest.fixture
def seed():
    """The seed of all randomness in a test."""
    return seeds.one()
