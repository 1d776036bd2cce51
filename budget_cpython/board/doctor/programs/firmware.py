"""Print which parts that programs may need the firmware has."""
# mypy: ignore-errors


def _has(*names):
    for name in names:
        try:
            __import__(name)
        except ImportError:
            continue
        return True
    return False


def _has_romfs():
    try:
        from vfs import rom_ioctl
    except ImportError:
        return False
    return rom_ioctl(1) > 0


def _look():
    return [
        ["asyncio", _has("asyncio")],
        ["TLS", _has("ssl", "tls")],
        ["Wi-Fi", _has("network")],
        ["a ROMFS partition", _has_romfs()],
    ]
