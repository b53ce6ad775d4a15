"""The ports with no network: for tests, simulations and users' own tests. Held to the same contract suite as aws/."""
