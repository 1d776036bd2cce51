"""A whole agent in the heap of a chip: every module precompiled, the endpoint outside it."""

import os
from pathlib import Path

import pytest

from benchmarks import agent
from scripted_model import ScriptedEndpoint


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("agent")
    agent.build(folder)
    return folder


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_five_steps_with_two_tools_fit_in_96_kib_of_a_chip(
    built: Path, streamed: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    with ScriptedEndpoint() as endpoint:
        seen = agent.run(
            os.environ["MICROPYTHON"],
            built,
            endpoint.base_url,
            streamed,
            in_flash=True,
            heap=agent.CHIP_KIB,
        )
    assert seen["steps"] == agent.STEPS
    assert seen["called"] == ["list_files", "read_file", "read_file", "read_file"]
    assert set(seen["called"]) == set(agent.TOOLS)
    assert seen["text"].startswith("I read 2 of 2 files.")
    assert 0 < seen["imported"] < seen["peak"]
    with capsys.disabled():
        how = "streamed" if streamed else "whole"
        print(f"\nheap of the agent, {how} answers: {seen['peak']:,} B at its peak")


def test_a_heap_that_is_too_small_is_an_error_and_no_result(built: Path) -> None:
    with ScriptedEndpoint() as endpoint, pytest.raises(RuntimeError, match="memory"):
        agent.run(os.environ["MICROPYTHON"], built, endpoint.base_url, heap=agent.CHIP_KIB // 3)


@pytest.mark.slow
def test_the_benchmark_finds_the_least_heap_and_it_is_less_from_flash(tmp_path: Path) -> None:
    measured = agent.measure_agent(os.environ["MICROPYTHON"], tmp_path / "agent", "64-bit")
    figures = {figure.name: figure for figure in measured}
    folder, flash = (
        figures[f"least heap for the agent, {home}, 64-bit"] for home in ("folder", "ROMFS")
    )
    assert 0 < flash.value < folder.value
    assert flash.target == agent.CHIP_KIB
    assert not flash.missed
