"""The example of exoclaw in `examples/sdks` runs by itself."""

from tests.adapters.support import run_example


def test_the_example_runs() -> None:
    printed = run_example("with_exoclaw.py")
    assert "answer: I found 2 books on whales, and had no time to read them." in printed
    assert "turns used: 4 of 4; turn limit: 3 of 3 turns" in printed
