"""MicroPython programs, as text, that read and change a board's files."""

FIRMWARE = """
import json, sys
v = sys.implementation
print(json.dumps([v.name, list(v.version[:2]), getattr(v, "_mpy", 0) & 255]))
"""
OURS = ("budget_core", "settings", "secret", "deployed")
FORGET = """
import gc, json, sys
gc.collect()
heap = [gc.mem_alloc(), gc.mem_free()] if hasattr(gc, "mem_free") else None
for name in list(sys.modules):
    if name.split(".")[0] in {ours!r} and name != "budget_core.wall_clock":
        del sys.modules[name]
for name in list(globals()):
    if name not in ("heap", "json") and name[0] != "_":
        del globals()[name]
import gc
gc.collect()
print(json.dumps(heap))
"""
TOOLS = """
import hashlib, json, os
from binascii import a2b_base64
def digest(path):
    sum = hashlib.sha256()
    block = bytearray(256)
    with open(path, "rb") as file:
        while True:
            n = file.readinto(block)
            if not n:
                return "".join("%02x" % byte for byte in sum.digest())
            sum.update(memoryview(block)[:n])
def show(path):
    try:
        folder = os.stat(path)[0] & 0x4000
    except OSError:
        return
    if not folder:
        return print(json.dumps([path, digest(path)]))
    for entry in sorted(os.listdir(path)):
        show(path + "/" + entry)
def move(old, new, wanted):
    well = digest(old) == wanted
    if well:
        os.rename(old, new)
    print(json.dumps(well))
"""
LOADS = """
import json, sys
path = sys.path[:]
end = min([path.index(entry) for entry in {before!r} if entry in path] + [len(path)])
here = sys.modules.pop("{module}", None) if {before!r} else None
loaded = set(sys.modules)
sys.path[:] = path[:end]
try:
    import {module}
    found = {module}.__file__
except ImportError:
    found = None
finally:
    sys.path[:] = path
for name in list(sys.modules):
    if name not in loaded:
        del sys.modules[name]
if here:
    sys.modules["{module}"] = here
print(json.dumps(found))
"""
FOLDERS = """
for path in {paths!r}:
    try:
        os.mkdir(path)
    except OSError as error:
        if error.errno != 17:
            raise
"""
WRITE = """with open({path!r}, {mode!r}) as file:
    file.write(a2b_base64({data!r}))
"""
REMOVE = """
for path in {paths!r}:
    os.remove(path)
"""
REMOVE_FOLDER = """
def bare(path):
    for entry in os.listdir(path):
        bare(path + "/" + entry)
    os.rmdir(path)
try:
    os.stat({path!r})
except OSError:
    pass
else:
    bare({path!r})
"""
