"""Print the bytes of heap in use and free."""
# mypy: ignore-errors

import gc
import json

gc.collect()
print(json.dumps([gc.mem_alloc(), gc.mem_free()] if hasattr(gc, "mem_free") else None))
