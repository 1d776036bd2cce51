"""An agent loop that stays within a budget, and what it is made of."""
