"""What is around code: blocks, deadlines, and the state of the whole process."""
