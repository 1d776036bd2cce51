"""What models cost: the list of prices, units billed, and how long answers are."""
