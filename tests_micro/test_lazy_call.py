"""A module that is needed for a moment is forgotten where it is precompiled."""

import os
import sys

from budget_core.lazy_call import lazy_call
from tests_micro.support import temp_folder

_SOURCE = """
__file__ = '{file}'
def double(number):
    return 2 * number
"""


def loaded_after(name: str, file: str) -> bool:
    """Tell whether a module that says it came from that file is loaded after its use."""
    with temp_folder() as folder:
        os.mkdir(folder + "/" + name)
        for path, text in (("__init__.py", ""), ("moment.py", _SOURCE.format(file=file))):
            with open(f"{folder}/{name}/{path}", "w") as module:
                module.write(text)
        sys.path.insert(0, folder)
        try:
            for number in (1, 2):
                assert lazy_call(name + ".moment", "double", number) == 2 * number
        finally:
            sys.path.pop(0)
    stays = name + ".moment" in sys.modules
    assert hasattr(sys.modules[name], "moment") is stays
    return stays


def test_a_precompiled_module_is_forgotten_after_its_use() -> None:
    assert not loaded_after("precompiled", "/lib/precompiled/moment.mpy")


def test_a_module_that_would_be_compiled_again_stays() -> None:
    assert loaded_after("plain", "/lib/plain/moment.py")


def test_a_module_that_was_loaded_before_stays() -> None:
    import budget_core.notices

    assert lazy_call("budget_core.notices", "last_call", "{reason}!", "Over") == "Over!"
    assert sys.modules["budget_core.notices"] is budget_core.notices
