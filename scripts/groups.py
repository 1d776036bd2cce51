"""Print the dependency groups of pyproject.toml whose names begin with an argument.

A line each: the name, and the packages.
"""

import sys
import tomllib
from pathlib import Path

project = Path(__file__).parent.parent / "pyproject.toml"
found = tomllib.loads(project.read_bytes().decode())["dependency-groups"]
for name, packages in sorted(found.items()):
    if name.startswith(tuple(sys.argv[1:])):
        print(name, *packages)
