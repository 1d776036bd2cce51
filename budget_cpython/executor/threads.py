"""The threads that all executors and limited functions of a process share."""

import os

from budget_cpython.daemon_threads import DaemonThreads

THREADS = DaemonThreads("microbudget-tool")

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=THREADS.forget)
