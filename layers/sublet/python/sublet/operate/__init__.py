"""What an operator looks at and moves: acts over ports, which commands and pages show."""
