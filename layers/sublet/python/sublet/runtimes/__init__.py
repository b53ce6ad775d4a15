"""Composition roots: each way of running puts the ports' implementations together here."""
