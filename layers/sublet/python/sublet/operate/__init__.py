"""What an operator looks at and moves: actions over ports, which commands and pages show."""
