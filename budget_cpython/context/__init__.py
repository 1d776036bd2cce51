"""The context of code: blocks and deadlines around it, and the state of its whole process."""
