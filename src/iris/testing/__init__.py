"""The testing kit: random programs, and what must hold of them.

    from hypothesis import given
    from iris.testing import preserves, programs

    @given(programs.tile())
    def test_my_pass(program):
        preserves(MyPass(), program)

It needs hypothesis: `pip install "iris-metal[testing]"`.
"""

from iris.testing import programs
from iris.testing.levels import agree
from iris.testing.oracles import preserves, roundtrips
from iris.testing.programs import pipelines

__all__ = ["agree", "pipelines", "preserves", "programs", "roundtrips"]
