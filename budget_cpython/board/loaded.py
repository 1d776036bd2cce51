"""See to it that a board loads the core that a build means, and no other copy of it."""

from budget_cpython.board.build import CORE, LIBRARY, Build, Form
from budget_cpython.board.device import Device
from budget_cpython.board.errors import BoardError

ROM = f"/rom/{CORE.name}"
DEPLOYED_TO = ("/lib", "/rom", "/rom/lib")


def check_before(device: Device, build: Build) -> None:
    """Refuse, while nothing is changed yet, a firmware that the build is not for."""
    own = device.loads(CORE.name, before=DEPLOYED_TO)
    if build.form is Form.FROZEN:
        if own is None:
            raise BoardError(
                f"the board's firmware has no {CORE.name} frozen in: build it with the board's "
                "manifest.py, or deploy with --mpy"
            )
    elif own is not None:
        raise BoardError(
            f"the board has a {CORE.name} of its own, {own}, which comes before {LIBRARY}: deploy "
            "with --frozen where it is the firmware's, else remove that copy with `mpremote rm -r`"
        )


def check_after(device: Device, build: Build) -> None:
    """Make sure that no other copy of the core comes before the one that was deployed."""
    loaded = device.loads(CORE.name)
    if build.form is Form.FROZEN:
        place = "the firmware"
        right = loaded is not None and not loaded.startswith((LIBRARY, ROM))
    else:
        place = ROM if build.form is Form.ROMFS else LIBRARY
        right = loaded is not None and loaded.startswith(place + "/")
    if loaded is None:
        raise BoardError(f"the board does not find {place}: is it on its sys.path?")
    if not right:
        raise BoardError(f"the board loads {loaded} and not {place}: remove that copy")
