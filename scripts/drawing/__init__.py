"""The drawings of the documentation, each made from the code or from a run of it."""
