"""What a producer puts next."""
