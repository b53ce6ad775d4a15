"""What a pull consumer delivers and acknowledges."""
