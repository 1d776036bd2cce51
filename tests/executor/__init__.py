"""Tests of the bounded tool executor."""
