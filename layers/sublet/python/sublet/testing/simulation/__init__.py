"""A deterministic simulation: the engine's own code in a world of crashes, pauses, lost replies and reshards, from one seed.

run          one seed, from the first record to the last check
scheduler    time, tasks and processes; weather: what goes wrong, and how often
world        what all actors share: fleet (ours), outside (a producer and an operator), ports (what the engine is given)
ledger       the truth about records; table_watch: the truth about leases. Both are asked at every moment that matters
write_rules  what each write may do to a row, and which rows refuse it
"""
