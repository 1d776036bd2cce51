"""Figures against a target, as ratios to exoclaw-turn-budget measured side by side in one run."""
