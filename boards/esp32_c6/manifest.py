"""Freeze the package into a firmware, as its FROZEN_MANIFEST; the programs are deployed to it."""
# ruff: noqa: F821 - the firmware's build gives these names

include("$(PORT_DIR)/boards/manifest.py")
package("budget_core", base_path="../..")
