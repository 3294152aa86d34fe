"""The tests of the larger engines: `make test-engines` installs Ray and Spark, and runs them."""

import os

collect_ignore_glob = [] if os.environ.get("BENTHIC_TEST_ENGINES") else ["test_*.py"]
