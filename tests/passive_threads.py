"""To be imported before torch: OpenMP's threads sleep while they wait. Where several processes share two cores, threads that spin until
their siblings get a core take a test of two threads from five seconds to a minute, and more."""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "passive")
