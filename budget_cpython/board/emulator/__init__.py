"""A board without hardware: MicroPython's unix port behind a serial port that mpremote opens.

`with UnixBoard(Path("flash.img"), heap="96k") as board:` turns one on; `mpremote connect` takes
`board.port`. Its flash is littlefs (or `filesystem="fat"`) in a file that is kept, mounted as `/`;
`boot.py` and `main.py` run from there, then a REPL. With `cut_power_after=100` it ends after that
many flash blocks were written or erased, and its port too, like an unplugged one: call
`board.wait_for_power_cut()`, then `board.power_on()`, and read `board.port` again. `clock` is its
time at power-up: that of the host, or `unset`, `2000` or `unset-2000`. `romfs` is a file for the
partition of `mpremote romfs`. Needs Linux, the unix port (`$MICROPYTHON`) and the `board` extra.
"""

from budget_cpython.board.emulator.unix_board import UnixBoard

__all__ = ["UnixBoard"]
