import pytest
from scipy.stats import chisquare

from engine.bench.lossless import _chi_square_p


def test_its_p_value_is_that_of_the_chi_square_test() -> None:
    observed, wanted = (18, 25, 57, 0), (20.0, 30.0, 50.0, 0.0)
    assert _chi_square_p(observed, wanted) == pytest.approx(chisquare(observed[:3], wanted[:3]).pvalue)
