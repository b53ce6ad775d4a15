"""What a lease worker decides for a lease that it holds."""
