"""What vendors of models speak and bill."""
