"""Write the drawings of the documentation, from the code and from runs of it.

`docs/drawings` has them as SVG files, which show light and dark. A test fails where one is not what
this writes.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from drawing import accounts, hold_life, rooms, wind_down  # noqa: E402 - they need the packages
from drawing.svg import Drawing  # noqa: E402

FOLDER: Final = ROOT / "docs/drawings"
DRAWINGS: Final[dict[str, Callable[[], Drawing]]] = {
    "accounts.svg": accounts.drawing,
    "hold.svg": hold_life.drawing,
    "rooms.svg": rooms.drawing,
    "wind_down.svg": wind_down.drawing,
}


def main() -> None:
    """Write each drawing that changed, and print its name."""
    FOLDER.mkdir(exist_ok=True)
    for name, draw in DRAWINGS.items():
        file, text = FOLDER / name, draw().svg()
        if not file.exists() or file.read_text() != text:
            file.write_text(text)
            print(f"wrote docs/drawings/{name}")


if __name__ == "__main__":
    main()
