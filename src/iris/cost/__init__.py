"""What IR costs on a GPU."""
