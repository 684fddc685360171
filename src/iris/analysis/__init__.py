"""What is true of IR: analyses, which change nothing."""
