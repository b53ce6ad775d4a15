"""Moving an application's positions, for an operator: finding a time in the stream, carrying a plan out, snapshots."""
