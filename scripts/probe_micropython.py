"""Say what this MicroPython lacks of the things asked for: JSON on standard input and output.

`check_core.py` runs it on MicroPython itself: the answer is what the binary has, whatever documents
and stubs say.
"""

import asyncio
import collections
import io
import json
import re
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any


def _generator() -> "Iterator[None]":
    yield


def samples() -> "list[Any]":
    """Return one value of each kind that code can hold, but for instances of modules' classes."""
    task: Any = _generator()
    plain = ["", b"", bytearray(), memoryview(b""), 0, 0.5, [], (), {}, set(), frozenset()]
    runtime = [object(), type, OSError(1), StopIteration(1), KeyError, property(), {}.keys()]
    files = [sys.stdout, open(__file__), open(__file__, "rb")]  # noqa: SIM115 - it ends soon
    streams = [io.BytesIO(), io.StringIO()]
    modules = [re.compile("a"), re.match("a", "a"), sys.implementation]
    queue: list[Any] = [collections.deque((), 1)]  # noqa: RUF037 - no keywords there
    tasks = [_generator, task, asyncio.create_task(task), asyncio.get_event_loop()]
    return plain + runtime + files + streams + modules + queue + tasks


def load(name: str) -> "Any":
    """Return a module by its dotted name, or `None` if there is none."""
    try:
        module = __import__(name)
        for part in name.split(".")[1:]:
            module = getattr(module, part)
    except (ImportError, AttributeError):
        return None
    return module


def syntax_error(path: str) -> str | None:
    """Return why a file cannot be compiled, or `None` if it can."""
    with open(path) as source:
        try:
            compile(source.read(), path, "exec")
        except SyntaxError as error:
            return str(error)
    return None


def takes(function: "Any", keyword: str) -> bool:
    """Tell whether a function minds a keyword, called with as many arguments as it asks for."""
    for positional in range(4):
        try:
            function(*[None] * positional, **{keyword: None})
        except BaseException as error:  # noqa: BLE001 - only what it says of arguments counts
            if "positional" in str(error):
                continue
            return not (isinstance(error, TypeError) and "keyword" in str(error))
        return True
    return True


def lacks_name(dotted: str) -> bool:
    """Tell whether a module that is there has no such name.

    A missing module is reported once, where it is imported. The name may be a submodule's.
    """
    module = load(dotted.rsplit(".", 1)[0])
    return bool(module) and not (hasattr(module, dotted.rsplit(".", 1)[1]) or load(dotted))


def lacks_keyword(call: str, known: "list[Any]") -> bool:
    """Tell whether every function or method of that name minds the keyword, as `open(mode=)`."""
    name, keyword = call[:-2].split("(")
    holders = known if name[0] == "." else [load("builtins")]
    name = name.lstrip(".")
    functions = [getattr(value, name) for value in holders if hasattr(value, name)]
    return bool(functions) and not any(takes(function, keyword) for function in functions)


def main() -> None:
    """Answer the question on standard input."""
    asked = json.load(sys.stdin)
    modules = {name: load(name) for name in asked["module"]}
    known = samples()
    for module in modules.values():
        if module is not None:
            values = [getattr(module, name, None) for name in dir(module)]
            known += [module] + [value for value in values if isinstance(value, type)]
    builtin_names = dir(load("builtins"))
    lacking = {
        "file": {path: syntax_error(path) for path in asked["file"]},
        "module": [name for name in modules if modules[name] is None],
        "name": [name for name in asked["name"] if lacks_name(name)],
        "builtin": [name for name in asked["builtin"] if name not in builtin_names],
        "attribute": [
            name for name in asked["attribute"] if not any(hasattr(value, name) for value in known)
        ],
        "keyword": [call for call in asked["keyword"] if lacks_keyword(call, known)],
    }
    print()
    print(json.dumps(lacking))


main()
