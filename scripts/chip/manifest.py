"""What the emulated chip's firmware has of Python; MicroPython's build runs this."""

include("$(MPY_DIR)/extmod/asyncio")  # type: ignore[name-defined]  # noqa: F821
freeze("$(BOARD_DIR)", "_boot.py")  # type: ignore[name-defined]  # noqa: F821
