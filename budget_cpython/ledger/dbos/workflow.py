"""Say which workflow's code runs, and name the steps of it."""

from hashlib import sha256

from dbos import DBOS

_LONGEST = 120  # characters of a workflow's id that a key can take along


def workflow() -> str | None:
    """Return the id of the workflow whose own code this is; `None` in its steps and elsewhere."""
    return DBOS.workflow_id if DBOS.step_id is None else None


def step_key(name: str) -> str:
    """Return the key of the step that runs: the same one whenever this step is run again.

    It contains the workflow's id, or the SHA-256 of one that is long or not plain.
    """
    which = str(DBOS.workflow_id)
    if len(which) > _LONGEST or not all("!" <= char <= "~" for char in which):
        which = "sha256:" + sha256(which.encode()).hexdigest()
    return f"{name}:{which}:{DBOS.step_id}"
