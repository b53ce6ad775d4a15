"""What only an operator asks of AWS."""
